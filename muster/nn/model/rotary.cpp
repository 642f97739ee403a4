#include "muster/nn/model/rotary.h"

#include <ATen/Functions.h>

#include "muster/base/error.h"

namespace muster {

RotaryAngles rotary_angles(std::int64_t first, std::int64_t length, std::int64_t depth, double base,
                           at::Device device) {
  if (depth <= 0 || depth % 2 != 0) {
    throw InvalidArgument("rotary positions need heads of an even depth: {}", depth);
  }
  if (!(base > 0)) throw InvalidArgument("the base of rotary positions must be positive: {}", base);
  const auto options = at::TensorOptions(at::kFloat).device(device);
  const auto exponents = at::arange(0, depth, 2, options) * (-1.0 / static_cast<double>(depth));
  const auto frequencies = at::pow(base, exponents);
  const auto positions = at::arange(first, first + length, options).unsqueeze(1);
  const auto angles = positions * frequencies;
  return {.cosines = angles.cos(), .sines = angles.sin()};
}

at::Tensor rotate(const at::Tensor& x, const RotaryAngles& angles) {
  const auto halves = x.chunk(2, -1);
  return at::cat({halves[0] * angles.cosines - halves[1] * angles.sines,
                  halves[1] * angles.cosines + halves[0] * angles.sines},
                 -1);
}

}  // namespace muster
