#pragma once

#include <fmt/format.h>

#include "muster/base/fingerprint.h"
#include "muster/data/features/column_batch.h"

namespace muster::internal {

/// The ids that `id_of(word, fingerprint)` gives to the values of a feature; a number's word is its
/// decimal text. In a dense feature "" and -1 stand for a missing value.
template <typename IdOf>
ColumnIds ids_of_words(ColumnBatch& batch, const Column& column, const std::string& key,
                       CategoryType type, const IdOf& id_of) {
  // Negative as soon as one id is.
  std::int64_t signs = 0;
  if (type == CategoryType::kString) {
    const HashedStrings& strings = batch.strings(key, column);
    ColumnIds ids(strings.layout, static_cast<std::int64_t>(strings.words.size()));
    for (std::size_t i = 0; i < strings.words.size(); ++i) {
      const bool missing = strings.some_missing && strings.words[i].empty();
      ids.data[i] = missing ? -1 : id_of(strings.words[i], strings.fingerprints[i]);
      signs |= ids.data[i];
    }
    ids.whole = signs >= 0;
    return ids;
  }
  const WholeNumbers values = batch.whole_numbers(key, column);
  ColumnIds ids(values.layout, static_cast<std::int64_t>(values.numbers.size()));
  for (std::size_t i = 0; i < values.numbers.size(); ++i) {
    const fmt::format_int text(values.numbers[i]);
    const std::string_view word(text.data(), text.size());
    const bool missing = values.dense && values.numbers[i] == -1;
    ids.data[i] = missing ? -1 : id_of(word, fingerprint64(word));
    signs |= ids.data[i];
  }
  ids.whole = signs >= 0;
  return ids;
}

inline FeatureSpecs var_len_words(const std::string& key, CategoryType type) {
  return {{key, VarLen{.kind = type == CategoryType::kString ? FeatureKind::kBytes
                                                             : FeatureKind::kInt64}}};
}

}  // namespace muster::internal
