#include "muster/saved_model/executor/sizes_internal.h"

#include <fmt/ranges.h>

#include "muster/base/error.h"

namespace muster::executor {
namespace {

constexpr std::int64_t kMostCounted = std::int64_t{1} << 56;

}  // namespace

std::int64_t product_of(std::span<const std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) {
      throw ResourceExhausted("the product of the sizes [{}] has more than 64 bits",
                              fmt::join(sizes, ", "));
    }
  }
  return product;
}

void check_countable(std::span<const std::int64_t> sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) {
    if (size <= 1) continue;
    if (__builtin_mul_overflow(product, size, &product) || product > kMostCounted) {
      throw InvalidArgument("the sizes [{}] multiply to more than {}, whatever is in them",
                            fmt::join(sizes, ", "), kMostCounted);
    }
  }
}

}  // namespace muster::executor
