#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

/// Throws InvalidArgument, with both shapes, unless there are as many labels as predictions.
void check_same_count(const at::Tensor& labels, const at::Tensor& predictions);

}  // namespace muster::internal
