#include <array>

#include "muster/data/text/text_words_internal.h"
#include "muster/data/text/unicode_internal.h"

namespace muster::internal {
namespace {

enum class WordKind { kLetters, kNumbers, kSigns, kSpace };

WordKind word_kind(CodePoint point) {
  if (is_white_space(point)) return WordKind::kSpace;
  switch (kind_of(point)) {
    case CharacterKind::kLetter:
      return WordKind::kLetters;
    case CharacterKind::kNumber:
      return WordKind::kNumbers;
    default:
      return WordKind::kSigns;
  }
}

std::size_t contraction_bytes(std::string_view text) {
  constexpr std::array<std::string_view, 7> kContractions{"'s", "'t",  "'re", "'ve",
                                                          "'m", "'ll", "'d"};
  for (const auto contraction : kContractions) {
    if (text.starts_with(contraction)) return contraction.size();
  }
  return 0;
}

}  // namespace

std::size_t TextWords::end_of_white_space(std::size_t begin) const {
  // A space belongs to the word that follows it, other white space to none; so the last character
  // of white space in front of a word is a piece of its own.
  std::size_t at = begin;
  std::size_t last = begin;
  while (at < text_.size()) {
    std::size_t after = at;
    if (!is_white_space(next_code_point(text_, after))) return last == begin ? at : last;
    last = at;
    at = after;
  }
  return at;
}

std::optional<std::string_view> TextWords::next() {
  if (at_ == text_.size()) return {};
  const std::size_t begin = at_;
  const std::size_t contraction = contraction_bytes(text_.substr(begin));
  if (contraction > 0) {
    at_ += contraction;
    return text_.substr(begin, contraction);
  }
  std::size_t at = begin;
  CodePoint first = next_code_point(text_, at);
  if (first == ' ' && at < text_.size()) {
    std::size_t after = at;
    const CodePoint second = next_code_point(text_, after);
    if (!is_white_space(second)) {
      first = second;
      at = after;
    }
  }
  const WordKind kind = word_kind(first);
  if (kind == WordKind::kSpace) {
    at_ = end_of_white_space(begin);
    return text_.substr(begin, at_ - begin);
  }
  while (at < text_.size()) {
    std::size_t after = at;
    if (word_kind(next_code_point(text_, after)) != kind) break;
    at = after;
  }
  at_ = at;
  return text_.substr(begin, at_ - begin);
}

}  // namespace muster::internal
