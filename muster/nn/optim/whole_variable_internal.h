#pragma once

#include <cstdint>
#include <span>

#include "muster/nn/kernels/parallel_for.h"

/// Helpers that optimizers of whole variables share. The bits do not depend on the number of
/// threads.
namespace muster::internal {

/// The square root of the sum of squares: in double, by blocks that depend on the size alone.
double norm_of(std::span<const float> values);

/// Calls `work(first, last)` for parts of `count` elements, on ATen's threads.
template <typename Work>
void for_elements(std::size_t count, const Work& work) {
  constexpr std::int64_t kGrain = 1 << 15;
  kernels::parallel_for(0, static_cast<std::int64_t>(count), kGrain,
                        [&](std::int64_t first, std::int64_t last) {
                          work(static_cast<std::size_t>(first), static_cast<std::size_t>(last));
                        });
}

/// Throws InvalidArgument, naming the optimizer and the option, unless `holds`.
void require_option(bool holds, const char* optimizer, const char* option, const char* rule,
                    double value);

}  // namespace muster::internal
