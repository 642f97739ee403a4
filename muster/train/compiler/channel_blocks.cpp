#include "muster/train/compiler/channel_blocks.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/train/compiler/device_kernel.h"

namespace muster::compiler {
namespace {

constexpr std::int64_t kBlockThreads = 256;

// A thread makes all channels of one pixel.
constexpr const char* kToBlocks = R"(
MUSTER_KERNEL muster_kernel(const From* in0, To* out0) {
  for (long long i = (long long)block_index.x * MUSTER_THREADS + thread_at.x; i < COUNT;
       i += (long long)BLOCKS * MUSTER_THREADS) {
    Index rest = (Index)i;
    const int column = rest % COLUMNS; rest /= COLUMNS;
    const int row = rest % ROWS; const long long n = rest / ROWS;
    Some<To, CHANNELS> made;
    #pragma unroll
    for (int channel = 0; channel < CHANNELS; ++channel) {
      const int c = channel % SLOTS, y = STRIDE * row + FIRST_ROW + channel / SLOTS / STRIDE;
      const int x = STRIDE * column + FIRST_COLUMN + channel / SLOTS % STRIDE;
      const bool inside = c < OWN && y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
      put(made.at[channel],
          inside ? get(in0[n * STRIDE0 + c * STRIDE1 + y * STRIDE2 + x * STRIDE3]) : 0.0f);
    }
    *(Some<To, CHANNELS>*)(out0 + i * CHANNELS) = made;
  }
}
)";

// A thread makes one element.
constexpr const char* kFromBlocks = R"(
MUSTER_KERNEL muster_kernel(const From* in0, To* out0) {
  for (long long i = (long long)block_index.x * MUSTER_THREADS + thread_at.x; i < COUNT;
       i += (long long)BLOCKS * MUSTER_THREADS) {
    Index rest = (Index)i;
    const int x = rest % WIDTH; rest /= WIDTH;
    const int y = rest % HEIGHT; rest /= HEIGHT;
    const int c = rest % OWN; const long long n = rest / OWN;
    const int row = (y - FIRST_ROW) / STRIDE, column = (x - FIRST_COLUMN) / STRIDE;
    const int slot = (y - FIRST_ROW) % STRIDE * STRIDE + (x - FIRST_COLUMN) % STRIDE;
    const long long from = ((n * ROWS + row) * COLUMNS + column) * CHANNELS + slot * SLOTS + c;
    put(out0[n * STRIDE0 + c * STRIDE1 + y * STRIDE2 + x * STRIDE3], get(in0[from]));
  }
}
)";

constexpr const char* kOnHost = R"(
#ifdef MUSTER_ON_HOST
extern "C" void muster_run(void** pointers) {
  for (block_index.x = 0; block_index.x < BLOCKS; ++block_index.x) {
    muster_kernel((From*)pointers[0], (To*)pointers[1]);
  }
}
#endif
)";

/// Calls `work` for each element of few channels with its place among many: n, c, y, x, then
/// channel, row and column.
void for_each_element(const ChannelBlocks& of, const auto& work) {
  for (std::int64_t n = 0; n < of.sizes[0]; ++n) {
    for (std::int64_t c = 0; c < of.sizes[1]; ++c) {
      for (std::int64_t y = 0; y < of.sizes[2]; ++y) {
        for (std::int64_t x = 0; x < of.sizes[3]; ++x) {
          const std::int64_t down = y - of.first_row;
          const std::int64_t right = x - of.first_column;
          const std::int64_t slot = down % of.stride * of.stride + right % of.stride;
          if (down / of.stride >= of.rows || right / of.stride >= of.columns) continue;
          work(n, c, y, x, slot * of.slots + c, down / of.stride, right / of.stride);
        }
      }
    }
  }
}

}  // namespace

struct ChannelBlocksKernel::OnDevice {
  DeviceKernel kernel;
};

ChannelBlocksKernel::ChannelBlocksKernel(ChannelBlocks blocks, bool back)
    : blocks_(std::move(blocks)), back_(back) {}
ChannelBlocksKernel::~ChannelBlocksKernel() = default;

std::string ChannelBlocksKernel::name() const {
  return fmt::format("{} channels {} {}, by {}", blocks_.sizes[1], back_ ? "from" : "to",
                     blocks_.channels(), blocks_.stride);
}

std::optional<KernelSource> ChannelBlocksKernel::source() const {
  const auto& sizes = blocks_.sizes;
  const std::int64_t count =
      back_ ? sizes[0] * sizes[1] * sizes[2] * sizes[3] : sizes[0] * blocks_.rows * blocks_.columns;
  const std::int64_t launched =
      std::clamp<std::int64_t>((count + kBlockThreads - 1) / kBlockThreads, 1, kMostBlocks);
  std::string constants = fmt::format("typedef {} From;\ntypedef {} To;\ntypedef {} Index;\n",
                                      element_name(blocks_.from), element_name(blocks_.to),
                                      count < (1LL << 31) ? "u32" : "long long");
  const auto define = [&](const char* name, std::int64_t value) {
    constants += fmt::format("#define {} ({}LL)\n", name, value);
  };
  define("COUNT", count);
  define("BLOCKS", launched);
  for (std::size_t d = 0; d < 4; ++d)
    define(fmt::format("STRIDE{}", d).c_str(), blocks_.strides[d]);
  constants += fmt::format(
      "enum {{ OWN = {}, SLOTS = {}, STRIDE = {}, CHANNELS = {}, ROWS = {}, COLUMNS = {}, HEIGHT = "
      "{}, WIDTH = {}, FIRST_ROW = {}, FIRST_COLUMN = {} }};\n",
      sizes[1], blocks_.slots, blocks_.stride, blocks_.channels(), blocks_.rows, blocks_.columns,
      sizes[2], sizes[3], blocks_.first_row, blocks_.first_column);
  return KernelSource{.text = kernel_prelude(kBlockThreads) + constants +
                              (back_ ? kFromBlocks : kToBlocks) + kOnHost,
                      .grid_x = launched,
                      .threads = kBlockThreads};
}

void ChannelBlocksKernel::run(std::span<const at::Tensor> inputs,
                              std::span<const at::Tensor> results) const {
  if (!inputs[0].is_cpu()) {
    if (!on_device_) on_device_ = std::make_shared<OnDevice>(OnDevice{device_kernel(*source())});
    return on_device_->kernel.launch(inputs, results);
  }
  const at::Tensor from = inputs[0].to(at::kFloat).contiguous();
  const at::Tensor made = at::zeros(results[0].sizes(), at::kFloat);
  const auto in = from.accessor<float, 4>();
  auto out = made.accessor<float, 4>();
  for_each_element(blocks_,
                   [&](auto n, auto c, auto y, auto x, auto channel, auto row, auto column) {
                     if (back_) {
                       out[n][c][y][x] = in[n][channel][row][column];
                     } else {
                       out[n][channel][row][column] = in[n][c][y][x];
                     }
                   });
  results[0].copy_(made);
}

}  // namespace muster::compiler
