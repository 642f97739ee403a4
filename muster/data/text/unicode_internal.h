#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::internal {

using CodePoint = std::int32_t;

/// Reads the code point at `at` and moves behind it. The text is valid UTF-8 and goes on there.
CodePoint next_code_point(std::string_view text, std::size_t& at);
void append_code_point(CodePoint point, std::string& out);

/// Unicode's general categories, as far as tokenizers ask.
enum class CharacterKind { kLetter, kNumber, kPunctuation, kSeparator, kMark, kControl, kOther };
/// kMark is a nonspacing mark (Mn), kControl Cc and Cf, kPunctuation all that begin with P.
CharacterKind kind_of(CodePoint point);
/// Unicode's property White_Space.
bool is_white_space(CodePoint point);
/// Lower case without regard to neighbours; one letter becomes two for U+0130 alone.
void append_lower_case(CodePoint point, std::string& out);

}  // namespace muster::internal
