#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// Unicode's normal forms.
enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// The text in a normal form, by libutf8proc's tables. Throws InvalidArgument with the offset for
/// bytes that are not UTF-8.
std::string normalised(std::string_view text, NormalForm form);
/// The text with every letter replaced by its lower case, whatever stands beside it: a Greek sigma
/// at the end of a word becomes an inner one. Throws as normalised().
std::string lower_case(std::string_view text);
/// Offset of the first byte that is not UTF-8, or nothing. Surrogates and numbers above 10FFFF are
/// not.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);
/// Throws InvalidArgument with the offset for bytes that are not UTF-8.
void require_utf8(std::string_view text);

}  // namespace muster
