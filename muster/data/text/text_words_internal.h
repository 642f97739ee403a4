#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace muster::internal {

/// Splits a text as GPT-2 does before bytes are joined: contractions ('s), letters, numbers and
/// signs, each with a space in front of them, and white space. What comes is the text again, in
/// pieces.
class TextWords {
 public:
  /// The text is UTF-8.
  explicit TextWords(std::string_view text) : text_(text) {}

  std::optional<std::string_view> next();

 private:
  std::size_t end_of_white_space(std::size_t begin) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace muster::internal
