#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

namespace muster {

/// The lines of a text, at most `most` of them, without their ends (LF or CRLF). A last line
/// without an end counts; nothing follows a last end. Views into `text`.
std::vector<std::string_view> lines_of(std::string_view text,
                                       std::size_t most = std::numeric_limits<std::size_t>::max());

/// The text without UTF-8's byte order mark, which some editors put in front.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace muster
