#include "muster/data/features/vocabulary.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/base/lines.h"

namespace muster {
namespace {

// All words in one string, and the views of them.
std::pair<std::shared_ptr<const std::string>, std::vector<std::string_view>> join(
    const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const auto& word : words) bytes += word.size();
  auto text = std::make_shared<std::string>();
  text->reserve(bytes);
  std::vector<std::string_view> views;
  views.reserve(words.size());
  for (const auto& word : words) {
    // The string does not move: all of its memory is there.
    views.emplace_back(text->data() + text->size(), word.size());
    text->append(word);
  }
  return {std::move(text), std::move(views)};
}

}  // namespace

Vocabulary::Vocabulary(std::shared_ptr<const std::string> text, std::vector<std::string_view> words,
                       std::string_view place)
    : text_(std::move(text)) {
  if (words.empty()) throw InvalidArgument("a vocabulary needs at least one word");
  std::vector<Slot> slots(std::bit_ceil(2 * words.size()));
  mask_ = slots.size() - 1;
  for (std::size_t id = 0; id < words.size(); ++id) {
    const auto fingerprint = fingerprint64(words[id]);
    std::size_t at = fingerprint & mask_;
    for (; slots[at].id >= 0; at = (at + 1) & mask_) {
      const auto other = static_cast<std::size_t>(slots[at].id);
      if (slots[at].fingerprint == fingerprint && words[other] == words[id]) {
        throw InvalidArgument("\"{}\" occurs twice in the vocabulary: {} {} and {}", words[id],
                              place, other + 1, id + 1);
      }
    }
    slots[at] = {.fingerprint = fingerprint, .id = static_cast<std::int64_t>(id)};
  }
  words_ = std::make_shared<const std::vector<std::string_view>>(std::move(words));
  slots_ = std::make_shared<const std::vector<Slot>>(std::move(slots));
}

Vocabulary::Vocabulary(const std::vector<std::string>& words)
    : Vocabulary([&] {
        auto [text, views] = join(words);
        return Vocabulary(std::move(text), std::move(views), "words");
      }()) {}

Vocabulary Vocabulary::from_file(const Path& file, std::optional<std::int64_t> size) {
  if (size && *size < 1) throw InvalidArgument("vocabulary_size must be positive: {}", *size);
  try {
    auto text = std::make_shared<const std::string>(read_file(file));
    auto words = size ? lines_of(*text, static_cast<std::size_t>(*size)) : lines_of(*text);
    if (size && static_cast<std::int64_t>(words.size()) < *size) {
      throw InvalidArgument("it has {} lines, fewer than vocabulary_size = {}", words.size(),
                            *size);
    }
    return {std::move(text), std::move(words), "lines"};
  } catch (Error& error) {
    error.add_context(fmt::format("vocabulary {}", file.string()));
    throw;
  }
}

Vocabulary Vocabulary::as_numbers() const {
  std::vector<std::string> numbers;
  numbers.reserve(words_->size());
  for (const auto word : *words_) {
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (problem != std::errc() || end != word.data() + word.size()) {
      throw InvalidArgument("word {} of the vocabulary, \"{}\", is not a whole number",
                            numbers.size() + 1, word);
    }
    numbers.push_back(fmt::format_int(number).str());
  }
  return Vocabulary(numbers);
}

std::int64_t Vocabulary::find(std::string_view word) const {
  return find(word, fingerprint64(word));
}

}  // namespace muster
