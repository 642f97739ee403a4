#include "muster/nn/kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

namespace muster::kernels {
namespace {

/// Columns that are compared at a time.
constexpr std::int64_t kStrip = 64;

// The largest of two rows of pairs, and which of upper left, upper right, lower left and lower
// right it was. Values and choices are of one size, so that the loop becomes vectors.
void compare(const float* upper, const float* lower, std::int64_t count, float* to,
             std::int32_t* which) {
  for (std::int64_t x = 0; x < count; ++x) {
    float value = upper[2 * x];
    std::int32_t choice = 0;
    const float others[3] = {upper[2 * x + 1], lower[2 * x], lower[2 * x + 1]};
    for (std::int32_t i = 0; i < 3; ++i) {
      const bool larger = (others[i] > value) | (others[i] != others[i]);
      value = larger ? others[i] : value;
      choice = larger ? i + 1 : choice;
    }
    to[x] = value;
    which[x] = choice;
  }
}

void pool_plane(const float* from, std::int64_t height, std::int64_t width, float* to,
                std::int64_t* indices) {
  const std::int64_t places[4] = {0, 1, width, width + 1};
  std::int32_t which[kStrip];
  for (std::int64_t y = 0; y + 1 < height; y += 2) {
    const std::int64_t row = y * width;
    for (std::int64_t done = 0; done < width / 2; done += kStrip) {
      const std::int64_t count = std::min(kStrip, width / 2 - done);
      compare(from + row + 2 * done, from + row + width + 2 * done, count, to, which);
      for (std::int64_t x = 0; x < count; ++x) {
        indices[x] = row + 2 * (done + x) + places[which[x]];
      }
      to += count;
      indices += count;
    }
  }
}

void take_larger(const float* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = (from[i] > to[i]) | (from[i] != from[i]) ? from[i] : to[i];
  }
}

/// Rows or columns of an image that window number `i` sees.
std::pair<std::int64_t, std::int64_t> seen(const ChannelsLastPool& pool, std::size_t axis,
                                           std::int64_t i, std::int64_t size) {
  const std::int64_t first = i * pool.stride[axis] - pool.before[axis];
  return {std::max<std::int64_t>(first, 0), std::min(first + pool.window[axis], size)};
}

}  // namespace

at::Tensor max_pool_channels_last(const at::Tensor& images, const ChannelsLastPool& pool) {
  const at::Tensor source = images.contiguous();
  const std::int64_t height = source.size(1);
  const std::int64_t width = source.size(2);
  const std::int64_t channels = source.size(3);
  at::Tensor output =
      at::empty({source.size(0), pool.outputs[0], pool.outputs[1], channels}, source.options());
  if (output.numel() == 0) return output;
  const float* const from = source.data_ptr<float>();
  float* const to = output.data_ptr<float>();
  const std::int64_t row_floats = pool.outputs[1] * channels;
  constexpr std::int64_t kFloatsOfThread = 1 << 15;
  at::parallel_for(
      0, source.size(0) * pool.outputs[0], at::divup(kFloatsOfThread, row_floats),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* const image = from + row / pool.outputs[0] * height * width * channels;
          const auto rows = seen(pool, 0, row % pool.outputs[0], height);
          for (std::int64_t x = 0; x < pool.outputs[1]; ++x) {
            const auto columns = seen(pool, 1, x, width);
            float* const best = to + row * row_floats + x * channels;
            std::copy_n(image + (rows.first * width + columns.first) * channels, channels, best);
            for (std::int64_t y = rows.first; y < rows.second; ++y) {
              for (std::int64_t c = columns.first; c < columns.second; ++c) {
                take_larger(image + (y * width + c) * channels, channels, best);
              }
            }
          }
        }
      });
  return output;
}

std::tuple<at::Tensor, at::Tensor> max_pool_2x2(const at::Tensor& input) {
  const std::int64_t height = input.size(2);
  const std::int64_t width = input.size(3);
  const std::int64_t size = (height / 2) * (width / 2);
  at::Tensor output =
      at::empty({input.size(0), input.size(1), height / 2, width / 2}, input.options());
  at::Tensor indices = at::empty(output.sizes(), input.options().dtype(at::kLong));
  const float* const from = input.data_ptr<float>();
  float* const to = output.data_ptr<float>();
  auto* const places = indices.data_ptr<std::int64_t>();
  at::parallel_for(0, input.size(0) * input.size(1), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      pool_plane(from + plane * height * width, height, width, to + plane * size,
                 places + plane * size);
    }
  });
  return {output, indices};
}

}  // namespace muster::kernels
