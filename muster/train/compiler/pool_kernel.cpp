#include "muster/train/compiler/pool_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {
namespace {

constexpr std::int64_t kPoolThreads = 256;

// Numbers of the pooling, as the kernels name them.
std::string pool_constants(const Pooling& of, std::int64_t across, std::int64_t pieces,
                           std::int64_t blocks) {
  return fmt::format(
      "typedef {} T;\ntypedef {} Index;\n#define ACROSS {}\n#define PIECES {}LL\n#define BLOCKS "
      "{}\n#define CHANNELS {}\n#define HEIGHT {}\n#define WIDTH {}\n#define ROWS {}\n"
      "#define COLUMNS {}\n#define SIZE {}\n#define STRIDE {}\n#define PADDING {}\n",
      element_name(of.type), pieces < (1LL << 31) ? "u32" : "long long", across, pieces, blocks,
      of.channels, of.height, of.width, of.rows, of.columns, of.size, of.stride, of.padding);
}

constexpr const char* kLoop = R"(
  for (long long piece = (long long)block_index.x * MUSTER_THREADS + thread_at.x; piece < PIECES;
       piece += (long long)BLOCKS * MUSTER_THREADS) {
    Index rest = (Index)piece;
    const int channel = rest % (CHANNELS / ACROSS) * ACROSS; rest /= CHANNELS / ACROSS;
)";

// NaN is a maximum, and of equal ones the first is taken, as in libtorch.
constexpr const char* kForward = R"(
    const int column = rest % COLUMNS; rest /= COLUMNS;
    const int row = rest % ROWS; const long long picture = rest / ROWS;
    float best[ACROSS]; Some<T, ACROSS> made; Some<flag, ACROSS> places;
    for (int j = 0; j < ACROSS; ++j) { best[j] = 0.0f; places.at[j].raw = 255; }
    #pragma unroll
    for (int down = 0; down < SIZE; ++down) {
      const int y = row * STRIDE - PADDING + down;
      if (y < 0 || y >= HEIGHT) continue;
      #pragma unroll
      for (int right = 0; right < SIZE; ++right) {
        const int x = column * STRIDE - PADDING + right;
        if (x < 0 || x >= WIDTH) continue;
        const Some<T, ACROSS> some = *(const Some<T, ACROSS>*)(
            in0 + ((picture * HEIGHT + y) * WIDTH + x) * CHANNELS + channel);
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
          const float value = get(some.at[j]);
          if (places.at[j].raw == 255 || value > best[j] || value != value) {
            best[j] = value; made.at[j] = some.at[j]; places.at[j].raw = down * SIZE + right;
          }
        }
      }
    }
    const long long to = ((picture * ROWS + row) * COLUMNS + column) * CHANNELS + channel;
    *(Some<T, ACROSS>*)(out0 + to) = made;
    *(Some<flag, ACROSS>*)(out1 + to) = places;
  }
}
)";

constexpr const char* kBackward = R"(
    const int x = rest % WIDTH; rest /= WIDTH;
    const int y = rest % HEIGHT; const long long picture = rest / HEIGHT;
    float sum[ACROSS]; Some<T, ACROSS> made;
    for (int j = 0; j < ACROSS; ++j) sum[j] = 0.0f;
    #pragma unroll
    for (int up = 0; up < (SIZE + STRIDE - 1) / STRIDE; ++up) {
      const int row = (y + PADDING) / STRIDE - up, down = y + PADDING - row * STRIDE;
      #pragma unroll
      for (int left = 0; left < (SIZE + STRIDE - 1) / STRIDE; ++left) {
        const int column = (x + PADDING) / STRIDE - left, right = x + PADDING - column * STRIDE;
        const bool is_there = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS &&
                              down < SIZE && right < SIZE;
        if (!is_there) continue;
        const long long from = ((picture * ROWS + row) * COLUMNS + column) * CHANNELS + channel;
        const Some<T, ACROSS> some = *(const Some<T, ACROSS>*)(in0 + from);
        const Some<flag, ACROSS> places = *(const Some<flag, ACROSS>*)(in1 + from);
        #pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
          if (places.at[j].raw == down * SIZE + right) sum[j] += get(some.at[j]);
        }
      }
    }
    for (int j = 0; j < ACROSS; ++j) put(made.at[j], sum[j]);
    *(Some<T, ACROSS>*)(out0 + ((picture * HEIGHT + y) * WIDTH + x) * CHANNELS + channel) = made;
  }
}
)";

constexpr const char* kRunner = R"(
#ifdef MUSTER_ON_HOST
extern "C" void muster_run(void** pointers) {
  for (block_index.x = 0; block_index.x < BLOCKS; ++block_index.x) muster_kernel(POINTERS);
}
#endif
)";

/// One picture on the CPU, in float32: by channel, row and column of what is made of it.
void for_each_window(const Pooling& of, const auto& work) {
  for (std::int64_t c = 0; c < of.channels; ++c) {
    for (std::int64_t row = 0; row < of.rows; ++row) {
      for (std::int64_t column = 0; column < of.columns; ++column) work(c, row, column);
    }
  }
}

void pool(const Pooling& of, const at::Tensor& from, const at::Tensor& to,
          const at::Tensor& places) {
  const at::Tensor picture = from.to(at::kFloat).contiguous();
  const at::Tensor made = at::empty({of.channels, of.rows, of.columns}, at::kFloat);
  const at::Tensor where = at::empty({of.channels, of.rows, of.columns}, at::kByte);
  const auto x = picture.accessor<float, 3>();
  auto y = made.accessor<float, 3>();
  auto p = where.accessor<std::uint8_t, 3>();
  for_each_window(of, [&](std::int64_t c, std::int64_t row, std::int64_t column) {
    p[c][row][column] = 255;
    for (std::int64_t place = 0; place < of.size * of.size; ++place) {
      const std::int64_t i = row * of.stride - of.padding + place / of.size;
      const std::int64_t j = column * of.stride - of.padding + place % of.size;
      if (i < 0 || i >= of.height || j < 0 || j >= of.width) continue;
      const float value = x[c][i][j];
      const bool first = p[c][row][column] == 255;
      if (!first && !(value > y[c][row][column]) && value == value) continue;
      y[c][row][column] = value;
      p[c][row][column] = static_cast<std::uint8_t>(place);
    }
  });
  to.copy_(made);
  places.copy_(where);
}

void pool_backward(const Pooling& of, const at::Tensor& gradient, const at::Tensor& places,
                   const at::Tensor& to) {
  const at::Tensor from = gradient.to(at::kFloat).contiguous();
  const at::Tensor where = places.contiguous();
  const at::Tensor made = at::zeros({of.channels, of.height, of.width}, at::kFloat);
  const auto g = from.accessor<float, 3>();
  const auto p = where.accessor<std::uint8_t, 3>();
  auto sum = made.accessor<float, 3>();
  for_each_window(of, [&](std::int64_t c, std::int64_t row, std::int64_t column) {
    const std::int64_t place = p[c][row][column];
    sum[c][row * of.stride - of.padding + place / of.size]
       [column * of.stride - of.padding + place % of.size] += g[c][row][column];
  });
  to.copy_(made);
}

}  // namespace

struct PoolKernel::OnDevice {
  DeviceKernel kernel;
};

PoolKernel::PoolKernel(Pooling pooling, bool backward) : pooling_(pooling), backward_(backward) {}
PoolKernel::~PoolKernel() = default;

std::string PoolKernel::name() const {
  return fmt::format("max_pool{}({} x {}, by {})", backward_ ? "_backward" : "", pooling_.size,
                     pooling_.size, pooling_.stride);
}

std::optional<KernelSource> PoolKernel::source() const {
  const std::int64_t across = pooling_.channels % 8 == 0 ? 8 : 1;
  const std::int64_t pixels =
      backward_ ? pooling_.height * pooling_.width : pooling_.rows * pooling_.columns;
  const std::int64_t pieces = pooling_.batch * pixels * pooling_.channels / across;
  std::string runner = kRunner;
  runner.replace(runner.find("POINTERS"), 8,
                 backward_ ? "(T*)pointers[0], (flag*)pointers[1], (T*)pointers[2]"
                           : "(T*)pointers[0], (T*)pointers[1], (flag*)pointers[2]");
  const char* const head =
      backward_ ? "MUSTER_KERNEL muster_kernel(const T* in0, const flag* in1, T* out0) {"
                : "MUSTER_KERNEL muster_kernel(const T* in0, T* out0, flag* out1) {";
  const std::int64_t blocks =
      std::clamp<std::int64_t>((pieces + kPoolThreads - 1) / kPoolThreads, 1, kMostBlocks);
  return KernelSource{.text = kernel_prelude(kPoolThreads) +
                              pool_constants(pooling_, across, pieces, blocks) + head + kLoop +
                              (backward_ ? kBackward : kForward) + runner,
                      .grid_x = blocks,
                      .threads = kPoolThreads};
}

void PoolKernel::run(std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> results) const {
  if (!inputs[0].is_cpu()) {
    if (!on_device_) on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
    return on_device_->kernel.launch(inputs, results);
  }
  for (std::int64_t n = 0; n < pooling_.batch; ++n) {
    if (backward_) {
      pool_backward(pooling_, inputs[0][n], inputs[1][n], results[0][n]);
    } else {
      pool(pooling_, inputs[0][n], results[0][n], results[1][n]);
    }
  }
}

}  // namespace muster::compiler
