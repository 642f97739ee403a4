#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace muster {

/// Rows of different lengths as one matrix, row by row: each is filled up to the longest.
template <typename V>
struct PaddedBatch {
  std::size_t rows = 0;
  std::size_t width = 0;
  /// rows * width values.
  std::vector<V> values{};
  /// How long each row was before.
  std::vector<std::size_t> lengths{};

  std::span<const V> row(std::size_t index) const {
    return std::span<const V>(values).subspan(index * width, width);
  }
};

/// Collates rows to a PaddedBatch.
template <typename V>
struct PadTo {
  V padding;

  PaddedBatch<V> operator()(std::span<const std::vector<V>> rows) const {
    PaddedBatch<V> batch;
    batch.rows = rows.size();
    for (const std::vector<V>& row : rows) batch.width = std::max(batch.width, row.size());
    batch.values.reserve(batch.rows * batch.width);
    for (const std::vector<V>& row : rows) {
      batch.lengths.push_back(row.size());
      batch.values.insert(batch.values.end(), row.begin(), row.end());
      batch.values.resize(batch.values.size() + batch.width - row.size(), padding);
    }
    return batch;
  }
};

}  // namespace muster
