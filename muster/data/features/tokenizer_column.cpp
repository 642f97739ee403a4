#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/word_ids_internal.h"

namespace muster {
namespace internal {

TokenizerColumn::TokenizerColumn(std::string key, TokenizerPtr tokenizer, std::int64_t max_tokens)
    : Column(require_key(std::move(key), "categorical_column_with_tokenizer")),
      tokenizer_(std::move(tokenizer)),
      max_tokens_(max_tokens) {
  if (!tokenizer_) {
    throw InvalidArgument("categorical_column_with_tokenizer \"{}\" needs a tokenizer", name());
  }
  if (max_tokens < 0) {
    throw InvalidArgument(
        "categorical_column_with_tokenizer \"{}\": max_tokens must not be negative: {}", name(),
        max_tokens);
  }
}

FeatureSpecs TokenizerColumn::parse_specs() const {
  return var_len_words(key(), CategoryType::kString);
}

ColumnIds TokenizerColumn::compute_ids(ColumnBatch& batch) const {
  const HashedStrings& strings = batch.strings(key(), *this);
  const RowLayout& texts = strings.layout;
  RowLayout layout{.rows = texts.rows, .splits = at::empty({texts.rows + 1}, at::kLong)};
  auto* starts = static_cast<std::int64_t*>(layout.splits.data_ptr());
  starts[0] = 0;
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < texts.rows; ++row) {
    const std::size_t begin = ids.size();
    for (std::int64_t i = texts.begin(row); i < texts.end(row); ++i) {
      try {
        const auto tokens = tokenizer_->encode(strings.words[static_cast<std::size_t>(i)]);
        ids.insert(ids.end(), tokens.begin(), tokens.end());
      } catch (Error& error) {
        error.add_context(fmt::format("column \"{}\": row {}", name(), row));
        throw;
      }
    }
    if (max_tokens_ > 0) {
      ids.resize(std::min(ids.size(), begin + static_cast<std::size_t>(max_tokens_)));
    }
    starts[row + 1] = static_cast<std::int64_t>(ids.size());
  }
  layout.starts = starts;
  ColumnIds result(std::move(layout), static_cast<std::int64_t>(ids.size()));
  std::copy(ids.begin(), ids.end(), result.data);
  return result;
}

}  // namespace internal

FeatureColumn categorical_column_with_tokenizer(std::string key, TokenizerPtr tokenizer,
                                                std::int64_t max_tokens) {
  return internal::make_column<internal::TokenizerColumn>(std::move(key), std::move(tokenizer),
                                                          max_tokens);
}

FeatureColumn sequence_categorical_column_with_tokenizer(std::string key, TokenizerPtr tokenizer,
                                                         std::int64_t max_tokens) {
  return internal::make_column<internal::SequenceColumn>(
      categorical_column_with_tokenizer(std::move(key), std::move(tokenizer), max_tokens));
}

}  // namespace muster
