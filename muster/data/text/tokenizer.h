#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// Turns text into ids of a vocabulary and ids into text. Immutable: any number of threads may use
/// one at once.
class Tokenizer {
 public:
  Tokenizer() = default;
  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Ids of the text, without special tokens: the text "[CLS]" gives the ids of its letters and
  /// brackets. Throws InvalidArgument with the offset for bytes that are not UTF-8.
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  /// Text of the ids. Throws OutOfRange for one that is not below size().
  virtual std::string decode(std::span<const std::int64_t> ids) const = 0;
  /// Number of tokens.
  virtual std::int64_t size() const = 0;
  /// Token as the vocabulary has it; the view is valid as long as the tokenizer. Throws OutOfRange.
  virtual std::string_view token(std::int64_t id) const = 0;
  /// Id of a token of the vocabulary, special ones included.
  virtual std::optional<std::int64_t> find(std::string_view token) const = 0;

  /// The same, or throws NotFound with the token.
  std::int64_t id(std::string_view token) const;
  /// Tokens of encode(), to look at.
  std::vector<std::string> tokenize(std::string_view text) const;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

}  // namespace muster
