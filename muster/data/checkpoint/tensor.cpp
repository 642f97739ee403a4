#include "muster/data/checkpoint/tensor.h"

#include <fmt/format.h>

namespace muster {

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string to_string(const TensorSpec& spec) {
  return fmt::format("{} {}", numpy_name(spec.type), shape_text(spec.shape));
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool overflow = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    overflow |= __builtin_mul_overflow(count, dimension, &count);
  }
  // A dimension of 0 after a product that does not fit is refused too: no real shape looks so.
  return overflow ? std::nullopt : std::optional(count);
}

}  // namespace muster
