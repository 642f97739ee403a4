#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace muster::serving {

/// A place where a text breaks JSON's grammar, in the words of RapidJSON: TensorFlow Serving parses
/// with it, and its clients know them.
struct JsonFault {
  std::string_view reason;
  /// Bytes before the place.
  std::size_t offset = 0;
};

/// The first one. Nothing where RapidJSON would find none, though the text may be refused: for
/// bytes that are no UTF-8, say. The text has no zero byte, and recursion is as deep as it nests.
std::optional<JsonFault> find_json_fault(std::string_view text);

}  // namespace muster::serving
