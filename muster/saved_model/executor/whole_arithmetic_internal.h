#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "muster/saved_model/executor/op_table_internal.h"

/// Arithmetic of whole numbers that has one result for all operands on all processors. libtorch's
/// own divides the smallest number by -1, which ends the process on x86-64, and converts numbers
/// that do not fit to what the processor makes of them.
namespace muster::executor {

/// A number in another type. Fractions are cut off. What a whole type cannot hold, NaN among it,
/// becomes its smallest number, and types below 32 bits keep the low bits of int32: as TensorFlow
/// has it on x86-64.
template <typename To, typename From>
To converted(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                !std::is_same_v<To, bool>) {
    using Wide = std::conditional_t<(sizeof(To) < sizeof(std::int32_t)), std::int32_t, To>;
    // A power of two: floats hold it.
    constexpr auto kSmallest = static_cast<From>(std::numeric_limits<Wide>::min());
    const bool fits = value >= kSmallest && value < -kSmallest;
    return static_cast<To>(fits ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min());
  } else {
    return static_cast<To>(value);
  }
}

/// Floating-point numbers as whole ones, each as converted() has it.
at::Tensor cast_to_whole(const at::Tensor& in, at::ScalarType type);

enum class WholeOp {
  /// Towards zero.
  kDivide,
  kFloorDivide,
  /// With the sign of the divisor.
  kFloorModulo,
  /// With the sign of the dividend.
  kTruncateModulo,
  kPower
};

/// Each element of `left` with that of `right`, axes of size 1 repeated; the types are equal and
/// whole. Results wrap around. Throws InvalidArgument for a division by zero and for a negative
/// power.
at::Tensor combine_whole(WholeOp op, const Inputs& in, const at::Tensor& left,
                         const at::Tensor& right);

/// From `start` by `step`, which is not zero, up or down to before `limit`; none where that is on
/// the other side. Throws ResourceExhausted for more than kMaxElements.
at::Tensor whole_range(const Inputs& in, std::int64_t start, std::int64_t limit, std::int64_t step,
                       at::ScalarType type);

}  // namespace muster::executor
