#pragma once

#include <ATen/Parallel.h>

#include <cstdint>
#include <vector>

#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {

/// Floats that a vector load may read past the end.
constexpr std::int64_t kSlack = 64;

inline std::int64_t padded_length(std::int64_t length) {
  return at::divup(length, tiles().columns) * tiles().columns;
}

inline std::int64_t padded_rows(std::int64_t rows) {
  return at::divup(rows, tiles().rows) * tiles().rows;
}

/// Weights in panels of a tile's rows, [panel][depth][row], with zeros for rows that are not there.
template <typename WeightAt>
std::vector<float> pack_weights(std::int64_t rows, std::int64_t depth, WeightAt weight_at) {
  const std::int64_t width = tiles().rows;
  std::vector<float> packed(static_cast<std::size_t>(padded_rows(rows) * depth), 0.0F);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const panel = packed.data() + (i / width) * width * depth + i % width;
    for (std::int64_t k = 0; k < depth; ++k) panel[k * width] = weight_at(i, k);
  }
  return packed;
}

}  // namespace muster::kernels
