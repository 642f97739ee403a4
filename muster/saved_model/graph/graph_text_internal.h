#pragma once

#include <string>
#include <string_view>

namespace muster::graph {

/// A SavedModel or a list of operations in protobuf's text format into the encoding of files. What
/// we do not know is passed over. Throws DataLoss with line and column.
std::string saved_model_bytes_from_text(std::string_view text);
std::string op_list_bytes_from_text(std::string_view text);
/// The other way. Throws InvalidArgument for names that are no UTF-8.
std::string saved_model_text_from_bytes(std::string_view bytes);

}  // namespace muster::graph
