#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "muster/nn/model/metric.h"

namespace muster::internal {

/// A tensor as one row of `Value`s in the CPU's memory, which metrics then walk.
template <typename Value>
class Flat {
 public:
  explicit Flat(const at::Tensor& tensor);

  std::int64_t size() const { return tensor_.numel(); }
  Value operator[](std::int64_t index) const { return data_[index]; }

 private:
  at::Tensor tensor_;
  const Value* data_;
};

/// The weights that go with values of a shape: 1 where none are given. Throws InvalidArgument
/// unless they are one a value, or one a row.
class Weights {
 public:
  Weights(const at::Tensor& weights, const at::Tensor& values);

  bool all_ones() const { return !given_; }
  double operator[](std::int64_t index) const { return given_ ? flat_[index] : 1.0; }

 private:
  bool given_;
  Flat<double> flat_;
};

/// Labels, what was predicted for them and what each counts, side by side.
template <typename Value>
struct LabelledPredictions {
  /// Throws InvalidArgument, with both shapes, unless there are as many labels as predictions and
  /// the weights go with them.
  LabelledPredictions(const at::Tensor& labels, const at::Tensor& predictions,
                      const at::Tensor& weights);

  std::int64_t size() const { return label.size(); }

  Flat<Value> label;
  Flat<Value> prediction;
  Weights weight;
};

[[noreturn]] void throw_other_kind(const Metric& mine, const Metric& other);

/// The other metric as one of this class and of the same kind, or InvalidArgument that names both.
template <typename M>
const M& same_kind(const M& mine, const Metric& other) {
  const auto* same = dynamic_cast<const M*>(&other);
  if (same == nullptr || mine.kind() != other.kind()) throw_other_kind(mine, other);
  return *same;
}

}  // namespace muster::internal
