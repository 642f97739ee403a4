#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/data/features/column.h"
#include "muster/data/features/features.h"

namespace muster::internal {

/// A feature of strings, with their fingerprints.
struct HashedStrings {
  std::span<const std::string_view> words{};
  std::unique_ptr<std::uint64_t[]> fingerprints{};
  RowLayout layout{};
  /// Whether a dense feature, where "" stands for a missing value, has any.
  bool some_missing = false;
  bool dense = true;
};

/// A feature of whole numbers.
struct WholeNumbers {
  /// int64, contiguous, on the CPU.
  at::Tensor values{};
  std::span<const std::int64_t> numbers{};
  RowLayout layout{};
  bool dense = true;
};

/// The features of one batch as columns read them. Everything is computed once, when it is first
/// asked for. Features are found by key for a column, which errors name: NotFound for one that is
/// missing, InvalidArgument for one of another type. Belongs to one thread.
class ColumnBatch {
 public:
  /// The features must outlive it.
  explicit ColumnBatch(const Features& features) : features_(features) {}
  ColumnBatch(const ColumnBatch&) = delete;
  ColumnBatch& operator=(const ColumnBatch&) = delete;

  const Features& features() const { return features_; }
  std::int64_t rows() const { return features_.batch_size(); }

  const FeatureValue& raw(const std::string& key, const Column& column) const;
  const HashedStrings& strings(const std::string& key, const Column& column);
  WholeNumbers whole_numbers(const std::string& key, const Column& column) const;

  const ColumnIds& ids(const IdSource& source);
  const at::Tensor& numbers(const NumericColumn& column);
  /// Splits of rows that all have this many values.
  const at::Tensor& uniform_splits(std::int64_t per_row);
  at::Tensor splits_of(const RowLayout& layout);

 private:
  const Features& features_;
  // References into these stay valid while they grow.
  std::deque<std::pair<const FeatureValue*, HashedStrings>> strings_;
  std::deque<std::pair<const IdSource*, ColumnIds>> ids_;
  std::deque<std::pair<const NumericColumn*, at::Tensor>> numbers_;
  std::deque<std::pair<std::int64_t, at::Tensor>> uniform_splits_;
};

/// The layout of ragged values. Throws InvalidArgument, naming the feature, unless the splits rise
/// from 0 to the number of values.
RowLayout ragged_layout(const at::Tensor& row_splits, std::int64_t values, const std::string& key);
bool same_layout(const RowLayout& left, const RowLayout& right);

/// Calls `work` with the memory of a contiguous tensor on the CPU, as a pointer to what it holds.
/// Types that features seldom have come as float.
template <typename Work>
void with_numbers(const at::Tensor& tensor, const Work& work) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return work(static_cast<const float*>(tensor.data_ptr()));
    case at::kDouble:
      return work(static_cast<const double*>(tensor.data_ptr()));
    case at::kInt:
      return work(static_cast<const std::int32_t*>(tensor.data_ptr()));
    case at::kLong:
      return work(static_cast<const std::int64_t*>(tensor.data_ptr()));
    case at::kBool:
      return work(static_cast<const bool*>(tensor.data_ptr()));
    default: {
      const at::Tensor floats = tensor.to(at::kFloat);
      return work(static_cast<const float*>(floats.data_ptr()));
    }
  }
}

}  // namespace muster::internal
