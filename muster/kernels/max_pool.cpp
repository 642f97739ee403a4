#include "muster/kernels/max_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

namespace muster::kernels {
namespace {

struct Largest {
  float value;
  std::int64_t index;

  void offer(float candidate, std::int64_t at) {
    const bool larger = candidate > value || candidate != candidate;
    value = larger ? candidate : value;
    index = larger ? at : index;
  }
};

void pool_plane(const float* from, std::int64_t height, std::int64_t width, float* to,
                std::int64_t* indices) {
  const std::int64_t columns = width / 2;
  for (std::int64_t y = 0; y + 1 < height; y += 2, to += columns, indices += columns) {
    const float* const upper = from + y * width;
    const float* const lower = upper + width;
    for (std::int64_t x = 0; x < columns; ++x) {
      const std::int64_t place = y * width + 2 * x;
      Largest largest{upper[2 * x], place};
      largest.offer(upper[2 * x + 1], place + 1);
      largest.offer(lower[2 * x], place + width);
      largest.offer(lower[2 * x + 1], place + width + 1);
      to[x] = largest.value;
      indices[x] = largest.index;
    }
  }
}

}  // namespace

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
