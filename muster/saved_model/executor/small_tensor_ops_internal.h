#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

/// A request of one row is hundreds of operations on a handful of numbers. libtorch spends a
/// microsecond on the way to each; these loops spend a tenth of one. They round as libtorch does.
namespace muster::executor {

/// Up to this many elements it is the way that costs, not the work.
inline constexpr std::int64_t kFewNumbers = 64;

/// Whether these loops may read it: in the memory of the host, contiguous, and without a gradient,
/// which libtorch's operations alone compute.
bool is_readable(const at::Tensor& tensor);
inline bool is_few(const at::Tensor& tensor) {
  return tensor.numel() <= kFewNumbers && is_readable(tensor);
}

/// A tensor in the memory of the host, whose elements have no values yet.
at::Tensor empty_on_host(at::IntArrayRef sizes, at::ScalarType type);
/// Whole numbers as a vector of kInt or kLong.
at::Tensor whole_numbers(std::span<const std::int64_t> values, at::ScalarType type);
/// The elements of a contiguous tensor in another shape. No copy.
at::Tensor viewed(const at::Tensor& tensor, at::IntArrayRef sizes);
/// Any part of a tensor, as at::as_strided() has it, `first` counted from the tensor's own first
/// element. The caller sees to it that it is inside.
at::Tensor viewed(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                  std::int64_t first);

enum class FewOp {
  kAdd,
  kSub,
  kMul,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual
};

// Nothing where the numbers are too many, elsewhere, or of a type that is rare.

std::optional<at::Tensor> cast_few(const at::Tensor& in, at::ScalarType type);
/// Combines tensors of one shape, or with a single number on one side.
std::optional<at::Tensor> combine_few(FewOp op, const at::Tensor& left, const at::Tensor& right);
/// As many elements as `like` has, all of this value.
std::optional<at::Tensor> fill_few(const at::Tensor& like, int value);
/// One after the other along an axis, which all have; with `is_new` along one that none has yet.
/// Tensors of few numbers in all, of one type and, except for that axis, one shape.
std::optional<at::Tensor> join_few(std::span<const at::Tensor> parts, std::int64_t axis,
                                   bool is_new);

/// Adds row sources[i] of `from` to row targets[i] of `to`, in order; both are readable and have
/// rows of the same length. Indices are in range. False for types that are rare.
bool add_rows(const at::Tensor& from, std::span<const std::int64_t> sources, const at::Tensor& to,
              std::span<const std::int64_t> targets);

}  // namespace muster::executor
