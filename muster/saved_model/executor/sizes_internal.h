#pragma once

#include <cstdint>
#include <span>

namespace muster::executor {

/// The product of sizes, none of which is negative. Throws ResourceExhausted beyond 64 bits.
std::int64_t product_of(std::span<const std::int64_t> sizes);

/// A tensor without elements may have axes of any size, and what computes with them (strides, sums
/// of sizes) would overflow. Throws InvalidArgument where sizes other than zero multiply to more
/// than 2^56.
void check_countable(std::span<const std::int64_t> sizes);

}  // namespace muster::executor
