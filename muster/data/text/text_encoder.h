#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/text/tokenizer.h"

namespace muster {

enum class TextSide { kLeft, kRight };

/// The defaults are BERT's. A GPT-2 vocabulary has neither token: give "".
struct TextEncoderOptions {
  /// Tokens of a text at most, special ones included.
  std::int64_t max_length = 512;
  /// Tokens in front of a text and behind each of its parts; empty: none.
  std::string begin = "[CLS]";
  std::string end = "[SEP]";
  /// Where a text that is too long loses tokens.
  TextSide truncate = TextSide::kRight;
};

/// Ids of one text, special tokens included.
struct EncodedText {
  std::vector<std::int64_t> ids{};
  /// 0 for tokens of the first part, 1 for those of the second.
  std::vector<std::int64_t> token_types{};
  std::int64_t label = 0;
};

/// Texts with their special tokens, of limited length. A map of a dataset copies it; any number of
/// threads may use one.
class TextEncoder {
 public:
  /// Throws NotFound for a special token that the vocabulary does not have, and InvalidArgument for
  /// a `max_length` that has no room for a token of a text, or a tokenizer that is null.
  explicit TextEncoder(TokenizerPtr tokenizer, TextEncoderOptions options = {});

  /// Throws as Tokenizer::encode().
  EncodedText encode(std::string_view text, std::int64_t label = 0) const;
  /// Two parts, such as a question and its answer. Where both are too long, the longer one loses
  /// tokens first.
  EncodedText encode_pair(std::string_view first, std::string_view second,
                          std::int64_t label = 0) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TextEncoderOptions& options() const { return options_; }

 private:
  void append_part(std::vector<std::int64_t> ids, std::size_t kept, std::int64_t type,
                   EncodedText& out) const;

  TokenizerPtr tokenizer_;
  TextEncoderOptions options_;
  // One id or none.
  std::vector<std::int64_t> begin_;
  std::vector<std::int64_t> end_;
};

struct PaddingOptions {
  /// Tokens of every row; 0: as many as the longest text of the batch has. An export has a fixed
  /// length if its batches have.
  std::int64_t length = 0;
  /// Rounds the length of the longest text up.
  std::int64_t multiple_of = 1;
  /// Id of the padding, such as tokenizer->id("[PAD]").
  std::int64_t id = 0;
  TextSide side = TextSide::kRight;
};

/// Texts of one batch as a block, rows first.
struct TextBatch {
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::vector<std::int64_t> ids{};
  /// 1 for tokens, 0 for padding.
  std::vector<std::int64_t> mask{};
  std::vector<std::int64_t> token_types{};
  /// One per text.
  std::vector<std::int64_t> labels{};
};

/// Pads texts to one length. Throws InvalidArgument with the row for a text that is longer than
/// `length`.
TextBatch padded_texts(const std::vector<EncodedText>& texts, const PaddingOptions& options = {});

}  // namespace muster
