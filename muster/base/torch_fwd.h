#pragma once

/// Names of libtorch's types for headers that only mention them: it costs nothing to include, where
/// torch/types.h takes seconds. Sources include the libtorch header that they use.

namespace at {
class Tensor;
struct Generator;
}  // namespace at

namespace c10 {
struct Device;
}  // namespace c10

namespace torch {
using at::Tensor;
namespace nn {
class Module;
}  // namespace nn
}  // namespace torch
