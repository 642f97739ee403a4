#include "muster/data/text/text_encoder.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

std::vector<std::int64_t> special_token(const Tokenizer& tokenizer, const std::string& token) {
  if (token.empty()) return {};
  try {
    return {tokenizer.id(token)};
  } catch (Error& error) {
    error.add_context("special tokens of TextEncoderOptions");
    throw;
  }
}

}  // namespace

TextEncoder::TextEncoder(TokenizerPtr tokenizer, TextEncoderOptions options)
    : tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  if (!tokenizer_) throw InvalidArgument("a TextEncoder needs a tokenizer");
  begin_ = special_token(*tokenizer_, options_.begin);
  end_ = special_token(*tokenizer_, options_.end);
  const auto special = static_cast<std::int64_t>(begin_.size() + 2 * end_.size());
  if (options_.max_length <= special) {
    throw InvalidArgument(
        "max_length must have room for {} special tokens of two texts and one more: {}", special,
        options_.max_length);
  }
}

void TextEncoder::append_part(std::vector<std::int64_t> ids, std::size_t kept, std::int64_t type,
                              EncodedText& out) const {
  if (ids.size() > kept) {
    const auto lost = static_cast<std::ptrdiff_t>(ids.size() - kept);
    if (options_.truncate == TextSide::kLeft) {
      ids.erase(ids.begin(), ids.begin() + lost);
    } else {
      ids.resize(kept);
    }
  }
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.ids.insert(out.ids.end(), end_.begin(), end_.end());
  out.token_types.resize(out.ids.size(), type);
}

EncodedText TextEncoder::encode(std::string_view text, std::int64_t label) const {
  EncodedText out{.ids = begin_, .label = label};
  const auto room = static_cast<std::size_t>(options_.max_length) - begin_.size() - end_.size();
  append_part(tokenizer_->encode(text), room, 0, out);
  return out;
}

EncodedText TextEncoder::encode_pair(std::string_view first, std::string_view second,
                                     std::int64_t label) const {
  auto left = tokenizer_->encode(first);
  auto right = tokenizer_->encode(second);
  const auto room = static_cast<std::size_t>(options_.max_length) - begin_.size() - 2 * end_.size();
  std::size_t left_kept = left.size();
  std::size_t right_kept = right.size();
  if (left_kept + right_kept > room) {
    // As if the longer one lost its last token until both fit, the second one where they are equal.
    const std::size_t half = room / 2;
    if (right_kept <= half) {
      left_kept = room - right_kept;
    } else if (left_kept <= room - half) {
      right_kept = room - left_kept;
    } else {
      left_kept = room - half;
      right_kept = half;
    }
  }
  EncodedText out{.ids = begin_, .label = label};
  append_part(std::move(left), left_kept, 0, out);
  append_part(std::move(right), right_kept, 1, out);
  return out;
}

TextBatch padded_texts(const std::vector<EncodedText>& texts, const PaddingOptions& options) {
  if (options.length < 0) {
    throw InvalidArgument("the length of rows must not be negative: {}", options.length);
  }
  if (options.multiple_of < 1) {
    throw InvalidArgument("multiple_of must be positive: {}", options.multiple_of);
  }
  std::size_t length = static_cast<std::size_t>(options.length);
  if (length == 0) {
    for (const auto& text : texts) length = std::max(length, text.ids.size());
    const auto multiple = static_cast<std::size_t>(options.multiple_of);
    length = (length + multiple - 1) / multiple * multiple;
  }
  const std::size_t values = texts.size() * length;
  TextBatch batch{.count = static_cast<std::int64_t>(texts.size()),
                  .length = static_cast<std::int64_t>(length),
                  .ids = std::vector<std::int64_t>(values, options.id),
                  .mask = std::vector<std::int64_t>(values),
                  .token_types = std::vector<std::int64_t>(values)};
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const auto& text = texts[row];
    if (text.ids.size() > length || text.token_types.size() != text.ids.size()) {
      throw InvalidArgument(
          "text {} of the batch has {} ids and {} token types, and rows have a length of {}: make "
          "max_length of its TextEncoder smaller",
          row, text.ids.size(), text.token_types.size(), length);
    }
    const std::size_t padding = length - text.ids.size();
    const auto at =
        static_cast<std::ptrdiff_t>(row * length + (options.side == TextSide::kLeft ? padding : 0));
    std::copy(text.ids.begin(), text.ids.end(), batch.ids.begin() + at);
    std::copy(text.token_types.begin(), text.token_types.end(), batch.token_types.begin() + at);
    std::fill_n(batch.mask.begin() + at, text.ids.size(), 1);
    batch.labels.push_back(text.label);
  }
  return batch;
}

}  // namespace muster
