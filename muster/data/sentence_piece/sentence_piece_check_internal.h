#pragma once

#include <string_view>

namespace muster::internal {

/// Looks at a SentencePiece model before libsentencepiece does, which takes the offsets in tables
/// of normalisation as they are. Throws DataLoss with the offset for bytes that are damaged, and
/// InvalidArgument for a piece that no model can have.
void check_sentence_piece_model(std::string_view model);

}  // namespace muster::internal
