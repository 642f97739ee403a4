#include "muster/saved_model/executor/whole_arithmetic_internal.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <array>

#include "muster/base/error.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {
namespace {

template <typename T>
T quotient(T dividend, T divisor) {
  if (divisor == 0) throw InvalidArgument("integer division by zero");
  if constexpr (std::is_signed_v<T>) {
    // The smallest number stays what it is.
    if (divisor == -1) return static_cast<T>(0 - static_cast<std::uint64_t>(dividend));
  }
  return static_cast<T>(dividend / divisor);
}

template <typename T>
T remainder(T dividend, T divisor) {
  if (divisor == 0) throw InvalidArgument("integer division by zero");
  if constexpr (std::is_signed_v<T>) {
    if (divisor == -1) return 0;
  }
  return static_cast<T>(dividend % divisor);
}

// Whether cutting off rounds up, where a floor is wanted.
template <typename T>
bool is_above_floor(T rest, T divisor) {
  return rest != 0 && (rest < 0) != (divisor < 0);
}

template <typename T>
T power(T base, T exponent) {
  if (exponent < 0) throw InvalidArgument("integers to negative integer powers are not allowed");
  std::uint64_t result = 1;
  auto factor = static_cast<std::uint64_t>(base);
  for (auto left = static_cast<std::uint64_t>(exponent); left > 0; left >>= 1U) {
    if ((left & 1U) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

template <typename T>
T combined(WholeOp op, T left, T right) {
  switch (op) {
    case WholeOp::kDivide:
      return quotient(left, right);
    case WholeOp::kFloorDivide: {
      const T whole = quotient(left, right);
      return is_above_floor(remainder(left, right), right) ? static_cast<T>(whole - 1) : whole;
    }
    case WholeOp::kFloorModulo: {
      const T rest = remainder(left, right);
      return is_above_floor(rest, right) ? static_cast<T>(rest + right) : rest;
    }
    case WholeOp::kTruncateModulo:
      return remainder(left, right);
    case WholeOp::kPower:
      return power(left, right);
  }
  throw Internal("there is no such operation");
}

// Calls act(T{}) for the types of whole numbers.
template <typename Act>
void for_whole(at::ScalarType type, const Act& act) {
  switch (type) {
    case at::kLong:
      return act(std::int64_t{});
    case at::kInt:
      return act(std::int32_t{});
    case at::kShort:
      return act(std::int16_t{});
    case at::kChar:
      return act(std::int8_t{});
    case at::kByte:
      return act(std::uint8_t{});
    default:
      throw InvalidArgument("{} is no type of whole numbers", c10::toString(type));
  }
}

template <typename Act>
void for_floats(at::ScalarType type, const Act& act) {
  switch (type) {
    case at::kFloat:
      return act(float{});
    case at::kDouble:
      return act(double{});
    default:
      throw InvalidArgument("{} is no floating-point type", c10::toString(type));
  }
}

// The elements in their order, or the only one again and again.
struct Operand {
  Operand(const at::Tensor& tensor, at::IntArrayRef sizes)
      : held(tensor.numel() == 1 ? tensor.contiguous() : tensor.expand(sizes).contiguous()),
        step(tensor.numel() == 1 ? 0 : 1) {}

  at::Tensor held;
  std::int64_t step;
};

at::Tensor cast_on_device(const at::Tensor& in, at::ScalarType type) {
  at::Tensor out;
  for_whole(type, [&](auto kind) {
    using To = decltype(kind);
    using Wide = std::conditional_t<(sizeof(To) < sizeof(std::int32_t)), std::int32_t, To>;
    constexpr auto kSmallest = std::numeric_limits<Wide>::min();
    const double bound = -static_cast<double>(kSmallest);
    const at::Tensor fits = at::logical_and(in.ge(-bound), in.lt(bound));
    const at::Tensor whole =
        at::where(fits, in, at::zeros({}, in.options())).to(c10::CppTypeToScalarType<Wide>::value);
    out =
        at::where(fits, whole, at::full({}, static_cast<std::int64_t>(kSmallest), whole.options()))
            .to(type);
  });
  return out;
}

}  // namespace

at::Tensor cast_to_whole(const at::Tensor& in, at::ScalarType type) {
  if (!in.is_cpu()) return cast_on_device(in, type);
  const bool is_narrow = in.scalar_type() != at::kFloat && in.scalar_type() != at::kDouble;
  const at::Tensor from = (is_narrow ? in.to(at::kFloat) : in).contiguous();
  at::Tensor out = at::empty(in.sizes(), in.options().dtype(type));
  for_floats(from.scalar_type(), [&](auto source) {
    for_whole(type, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      const From* const values = from.data_ptr<From>();
      To* const to = out.data_ptr<To>();
      for (std::int64_t i = 0; i < from.numel(); ++i) to[i] = converted<To>(values[i]);
    });
  });
  return out;
}

at::Tensor combine_whole(WholeOp op, const Inputs& in, const at::Tensor& left,
                         const at::Tensor& right) {
  if (!left.is_cpu() || !right.is_cpu()) {
    return combine_whole(op, in, left.cpu(), right.cpu()).to(left.device());
  }
  const auto sizes = broadcast_sizes(left.sizes(), right.sizes());
  check_shape(sizes);
  // The result, and both sides where they are repeated.
  in.check_room(3 * product_of(sizes), static_cast<std::int64_t>(left.element_size()));
  const Operand first(left, sizes);
  const Operand second(right, sizes);
  at::Tensor out = at::empty(sizes, left.options());
  for_whole(left.scalar_type(), [&](auto kind) {
    using T = decltype(kind);
    const T* const a = first.held.data_ptr<T>();
    const T* const b = second.held.data_ptr<T>();
    T* const to = out.data_ptr<T>();
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      to[i] = combined(op, a[i * first.step], b[i * second.step]);
    }
  });
  return out;
}

at::Tensor whole_range(const Inputs& in, std::int64_t start, std::int64_t limit, std::int64_t step,
                       at::ScalarType type) {
  const bool rises = step > 0;
  const auto low = static_cast<std::uint64_t>(rises ? start : limit);
  const auto high = static_cast<std::uint64_t>(rises ? limit : start);
  const auto stride =
      rises ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const bool is_empty = rises ? start >= limit : start <= limit;
  const std::uint64_t count = is_empty ? 0 : (high - low - 1) / stride + 1;
  if (count > static_cast<std::uint64_t>(kMaxElements)) {
    throw ResourceExhausted("a range of {} elements; at most {} are made", count, kMaxElements);
  }
  const auto length = static_cast<std::int64_t>(count);
  in.check_room(std::array{length}, type);
  at::Tensor out = at::empty({length}, type);
  for_whole(type, [&](auto kind) {
    auto* const to = out.data_ptr<decltype(kind)>();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t value =
          static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step);
      to[i] = static_cast<decltype(kind)>(value);
    }
  });
  return out;
}

}  // namespace muster::executor
