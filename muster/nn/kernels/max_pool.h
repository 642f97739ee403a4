#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <tuple>

namespace muster::kernels {

/// The largest of each two by two values of float32 [batch, channels, height, width] on the CPU, an
/// odd last row or column dropped, and where in its plane it lies (int64), as libtorch's
/// max_pool2d_with_indices: the first of equals, and NaN above all. `input` is contiguous.
std::tuple<at::Tensor, at::Tensor> max_pool_2x2(const at::Tensor& input);

/// The largest values of windows of float32 [batch, height, width, channels] on the CPU, NaN above
/// all; what is outside of an image does not count. `before` are the rows above and the columns
/// left of it that windows begin in; there are as many windows as `outputs` says, each of which
/// reaches into the image.
struct ChannelsLastPool {
  std::array<std::int64_t, 2> window{1, 1};
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> before{0, 0};
  std::array<std::int64_t, 2> outputs{0, 0};
};
at::Tensor max_pool_channels_last(const at::Tensor& images, const ChannelsLastPool& pool);

}  // namespace muster::kernels
