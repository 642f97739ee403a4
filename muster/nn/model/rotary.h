#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace muster {

/// Cosines and sines of the angles by which positions turn the numbers of a head, float
/// [length, depth / 2] each.
struct RotaryAngles {
  at::Tensor cosines{};
  at::Tensor sines{};
};

/// Angles of the positions first, ..., first + length - 1 of heads of `depth` numbers: position *
/// base^(-2i / depth) for the i-th pair. Throws InvalidArgument unless depth is even and positive
/// and the base positive.
RotaryAngles rotary_angles(std::int64_t first, std::int64_t length, std::int64_t depth, double base,
                           at::Device device);

/// Rotary position embedding (RoPE): turns each pair (x[i], x[i + depth / 2]) of [..., length,
/// depth] by its angle, so that the product of a query and a key depends on their distance.
at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles);

}  // namespace muster
