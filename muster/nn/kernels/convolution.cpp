#include "muster/nn/kernels/convolution.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "muster/nn/kernels/panels_internal.h"
#include "muster/nn/kernels/scratch_internal.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

// Everything is a correlation over planes: an image is copied, with its border of zeros and split
// by the stride's phase, so that what one weight sees of it is contiguous: position q of the output
// meets plane[offset of the weight + q]. Rows of a plane are longer than those of the output; the
// columns in between are computed too and dropped.

struct Shape {
  std::int64_t channels, height, width;
  std::int64_t image() const { return channels * height * width; }
};

Shape shape_of(const at::Tensor& tensor) {
  return {tensor.size(1), tensor.size(2), tensor.size(3)};
}

/// The part of an image that becomes a plane, beginning at a place that may be outside of it.
struct Window {
  std::int64_t y, x;
  std::int64_t stride_y, stride_x;
  std::int64_t rows, columns;
  std::int64_t floats() const { return rows * columns; }
};

// to[r][c] = from[y + r * stride_y][x + c * stride_x], or 0 outside of the image.
void copy_window(const float* from, std::int64_t height, std::int64_t width, const Window& window,
                 float* to) {
  const auto first_inside = [](std::int64_t start, std::int64_t stride) {
    return start >= 0 ? 0 : at::divup(-start, stride);
  };
  const auto end_inside = [](std::int64_t start, std::int64_t stride, std::int64_t size,
                             std::int64_t count) {
    return std::clamp<std::int64_t>(start >= size ? 0 : at::divup(size - start, stride), 0, count);
  };
  const std::int64_t first = std::min(first_inside(window.x, window.stride_x), window.columns);
  const std::int64_t end =
      std::max(first, end_inside(window.x, window.stride_x, width, window.columns));
  for (std::int64_t r = 0; r < window.rows; ++r, to += window.columns) {
    const std::int64_t y = window.y + r * window.stride_y;
    if (y < 0 || y >= height) {
      std::fill_n(to, window.columns, 0.0F);
      continue;
    }
    const float* const row = from + y * width + window.x;
    std::fill_n(to, first, 0.0F);
    if (window.stride_x == 1) {
      std::memcpy(to + first, row + first, static_cast<std::size_t>(end - first) * sizeof(float));
    } else {
      for (std::int64_t c = first; c < end; ++c) to[c] = row[c * window.stride_x];
    }
    std::fill_n(to + end, window.columns - end, 0.0F);
  }
}

/// The planes that weights at these places see, if they are those of whole 3x3 kernels in order.
std::optional<PlaneShape> planes_of_3x3(const std::vector<std::int64_t>& offsets) {
  constexpr std::int64_t kKernel = kTaps * kTaps;
  const auto depth = static_cast<std::int64_t>(offsets.size());
  if (depth == 0 || depth % kKernel != 0) return std::nullopt;
  const PlaneShape shape{.channels = depth / kKernel,
                         .floats = depth == kKernel ? 0 : offsets[kKernel],
                         .columns = offsets[kTaps]};
  for (std::int64_t k = 0; k < depth; ++k) {
    const std::int64_t regular =
        k / kKernel * shape.floats + k % kKernel / kTaps * shape.columns + k % kTaps;
    if (offsets[static_cast<std::size_t>(k)] != regular) return std::nullopt;
  }
  return shape;
}

/// to[i][q] = sum over k of weights(i, k) * planes[offsets[k] + q] for `length` positions and a
/// multiple of the tile's rows; rows of `to` are `to_stride` apart, at least length rounded up to
/// whole tiles.
void correlate(const std::vector<float>& weights, const std::vector<std::int64_t>& offsets,
               const float* planes, std::int64_t length, float* to, std::int64_t to_stride) {
  const Tiles& tile = tiles();
  const auto depth = static_cast<std::int64_t>(offsets.size());
  const std::int64_t panel = depth * tile.rows;
  const std::int64_t panels = static_cast<std::int64_t>(weights.size()) / panel;
  const auto shape = planes_of_3x3(offsets);
  for (std::int64_t p = 0; p < panels; ++p) {
    const float* const panel_weights = weights.data() + p * panel;
    for (std::int64_t q = 0; q < length; q += tile.columns) {
      float* const place = to + p * tile.rows * to_stride + q;
      if (shape) {
        tile.outer_3x3(*shape, panel_weights, planes + q, place, to_stride);
      } else {
        tile.outer(depth, panel_weights, planes + q, offsets.data(), place, to_stride,
                   /*add=*/false);
      }
    }
  }
}

// Eight sums side by side: the same order for every length.
float sum_of(const float* values, std::int64_t count) {
  float sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += values[i + lane];
  }
  for (; i < count; ++i) sums[i % 8] += values[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/// Sizes and steps of one call, for the kernels below.
struct Geometry {
  Geometry(const at::Tensor& input, const at::Tensor& weight, const Convolution& convolution)
      : batch(input.size(0)),
        in(shape_of(input)),
        kernel_height(weight.size(2)),
        kernel_width(weight.size(3)),
        stride_y(convolution.stride[0]),
        stride_x(convolution.stride[1]),
        padding_y(convolution.padding[0]),
        padding_x(convolution.padding[1]) {
    out = {weight.size(0), (in.height + 2 * padding_y - kernel_height) / stride_y + 1,
           (in.width + 2 * padding_x - kernel_width) / stride_x + 1};
    plane_rows = out.height + (kernel_height - 1) / stride_y;
    plane_columns = out.width + (kernel_width - 1) / stride_x;
    phases_y = std::min(stride_y, kernel_height);
    phases_x = std::min(stride_x, kernel_width);
  }

  std::int64_t taps() const { return kernel_height * kernel_width; }
  std::int64_t depth() const { return in.channels * taps(); }
  std::int64_t plane() const { return plane_rows * plane_columns; }
  std::int64_t planes_of(std::int64_t channels) const {
    return channels * phases_y * phases_x * plane();
  }
  /// Positions of the output in a plane, from its first to its last.
  std::int64_t length() const { return (out.height - 1) * plane_columns + out.width; }

  /// Where weight k (channel, row, column) begins in the planes.
  std::vector<std::int64_t> offsets(std::int64_t channels) const {
    std::vector<std::int64_t> result;
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t y = 0; y < kernel_height; ++y) {
        for (std::int64_t x = 0; x < kernel_width; ++x) {
          const std::int64_t phase = (c * phases_y + y % stride_y) * phases_x + x % stride_x;
          result.push_back(phase * plane() + (y / stride_y) * plane_columns + x / stride_x);
        }
      }
    }
    return result;
  }

  void copy_planes(const float* channel, std::int64_t channels, float* to) const {
    for (std::int64_t c = 0; c < channels; ++c, channel += in.height * in.width) {
      for (std::int64_t y = 0; y < phases_y; ++y) {
        for (std::int64_t x = 0; x < phases_x; ++x, to += plane()) {
          copy_window(channel, in.height, in.width,
                      {y - padding_y, x - padding_x, stride_y, stride_x, plane_rows, plane_columns},
                      to);
        }
      }
    }
  }

  std::int64_t batch;
  Shape in, out;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_y, stride_x;
  std::int64_t padding_y, padding_x;
  std::int64_t plane_rows, plane_columns;
  std::int64_t phases_y, phases_x;
};

struct Memory {
  float* planes;
  float* result;
};

// `planes` floats with slack after them, zeroed so that what is read there is finite.
Memory memory_of(std::int64_t planes, std::int64_t result) {
  thread_local Scratch scratch;
  float* const memory = scratch.floats(static_cast<std::size_t>(planes + kSlack + result));
  std::fill_n(memory + planes, kSlack, 0.0F);
  return {memory, memory + planes + kSlack};
}

/// The weights that reach one phase of the input's rows or columns, and the rows or columns that
/// they reach.
struct Phase {
  Phase(std::int64_t phase_number, std::int64_t stride_, std::int64_t padding, std::int64_t kernel,
        std::int64_t size)
      : number(phase_number), stride(stride_), taps(at::divup(kernel - phase_number, stride_)) {
    first = at::divup(std::max<std::int64_t>(padding - number, 0), stride);
    image = first * stride + number - padding;
    count = image >= size ? 0 : at::divup(size - image, stride);
  }

  std::int64_t number, stride;
  /// Weights number, number + stride, ...
  std::int64_t taps;
  /// The first row of this phase that is in the image, counted in the phase and in the image.
  std::int64_t first, image;
  std::int64_t count;
};

// The gradient of those inputs that one phase of rows and columns holds.
void input_gradient_of_phase(const Geometry& g, const Phase& rows, const Phase& columns,
                             const float* weight, const float* output_gradient,
                             float* input_gradient) {
  if (rows.count == 0 || columns.count == 0) return;
  const Window window{.y = rows.first - (rows.taps - 1),
                      .x = columns.first - (columns.taps - 1),
                      .stride_y = 1,
                      .stride_x = 1,
                      .rows = rows.count + rows.taps - 1,
                      .columns = columns.count + columns.taps - 1};
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> places;
  for (std::int64_t o = 0; o < g.out.channels; ++o) {
    for (std::int64_t t = rows.taps - 1; t >= 0; --t) {
      for (std::int64_t u = columns.taps - 1; u >= 0; --u) {
        offsets.push_back(o * window.floats() + (rows.taps - 1 - t) * window.columns +
                          (columns.taps - 1 - u));
        places.push_back(o * g.depth() + (t * g.stride_y + rows.number) * g.kernel_width +
                         u * g.stride_x + columns.number);
      }
    }
  }
  const auto packed = pack_weights(
      g.in.channels, static_cast<std::int64_t>(places.size()), [&](std::int64_t c, std::int64_t k) {
        return weight[places[static_cast<std::size_t>(k)] + c * g.taps()];
      });
  const std::int64_t length = (rows.count - 1) * window.columns + columns.count;
  const std::int64_t stride = padded_length(length);
  at::parallel_for(0, g.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const Memory memory =
        memory_of(g.out.channels * window.floats(), padded_rows(g.in.channels) * stride);
    for (std::int64_t n = begin; n < end; ++n) {
      const float* const from = output_gradient + n * g.out.image();
      for (std::int64_t o = 0; o < g.out.channels; ++o) {
        copy_window(from + o * g.out.height * g.out.width, g.out.height, g.out.width, window,
                    memory.planes + o * window.floats());
      }
      correlate(packed, offsets, memory.planes, length, memory.result, stride);
      for (std::int64_t c = 0; c < g.in.channels; ++c) {
        for (std::int64_t y = 0; y < rows.count; ++y) {
          const float* const row = memory.result + c * stride + y * window.columns;
          float* const to = input_gradient + n * g.in.image() +
                            (c * g.in.height + rows.image + y * g.stride_y) * g.in.width +
                            columns.image;
          for (std::int64_t x = 0; x < columns.count; ++x) to[x * g.stride_x] = row[x];
        }
      }
    }
  });
}

at::Tensor input_gradient(const Geometry& g, const at::Tensor& output_gradient,
                          const at::Tensor& input, const at::Tensor& weight) {
  // Inputs that no weight reaches keep their 0.
  const bool all_reached = g.phases_y == g.stride_y && g.phases_x == g.stride_x;
  at::Tensor result = all_reached ? at::empty(input.sizes(), input.options())
                                  : at::zeros(input.sizes(), input.options());
  for (std::int64_t y = 0; y < g.phases_y; ++y) {
    for (std::int64_t x = 0; x < g.phases_x; ++x) {
      input_gradient_of_phase(g, {y, g.stride_y, g.padding_y, g.kernel_height, g.in.height},
                              {x, g.stride_x, g.padding_x, g.kernel_width, g.in.width},
                              weight.data_ptr<float>(), output_gradient.data_ptr<float>(),
                              result.data_ptr<float>());
    }
  }
  return result;
}

/// The weights' gradients of a few outputs and channels, over all images in order.
class WeightGradient {
 public:
  WeightGradient(const Geometry& g, const float* output_gradient, const float* input, float* result)
      : g_(g), output_gradient_(output_gradient), input_(input), result_(result) {}

  void run(std::int64_t first_output, std::int64_t first_channel, std::int64_t channels) const {
    const Tiles& tile = tiles();
    const std::int64_t rows = std::min(tile.dot_rows, g_.out.channels - first_output);
    const std::int64_t stride = g_.length() + kSlack;
    const std::int64_t columns = channels * g_.taps();
    const std::int64_t tile_sums = tile.dot_rows * tile.dot_columns * tile.lanes;
    const std::int64_t sums = at::divup(columns, tile.dot_columns) * tile_sums;
    const Memory memory = memory_of(g_.planes_of(channels), tile.dot_rows * stride + sums);
    // Gaps between the spread rows, and outputs beyond the last, are never written: they stay 0.
    std::fill_n(memory.result, tile.dot_rows * stride + sums, 0.0F);
    float* const totals = memory.result + tile.dot_rows * stride;
    const auto offsets = g_.offsets(channels);
    for (std::int64_t n = 0; n < g_.batch; ++n) {
      g_.copy_planes(input_ + n * g_.in.image() + first_channel * g_.in.height * g_.in.width,
                     channels, memory.planes);
      for (std::int64_t i = 0; i < rows; ++i) {
        spread(output_gradient_ + n * g_.out.image() +
                   (first_output + i) * g_.out.height * g_.out.width,
               memory.result + i * stride);
      }
      add_products(offsets, memory, stride, totals, tile_sums);
    }
    write(rows, columns, totals, tile_sums,
          result_ + first_output * g_.depth() + first_channel * g_.taps());
  }

 private:
  // Rows of the output as far apart as those of a plane.
  void spread(const float* from, float* to) const {
    for (std::int64_t y = 0; y < g_.out.height; ++y) {
      std::memcpy(to + y * g_.plane_columns, from + y * g_.out.width,
                  static_cast<std::size_t>(g_.out.width) * sizeof(float));
    }
  }

  void add_products(const std::vector<std::int64_t>& offsets, const Memory& memory,
                    std::int64_t stride, float* totals, std::int64_t tile_sums) const {
    const Tiles& tile = tiles();
    const auto columns = static_cast<std::int64_t>(offsets.size());
    const float* a[kMaxDot];
    const float* b[kMaxDot];
    for (std::int64_t i = 0; i < tile.dot_rows; ++i) a[i] = memory.result + i * stride;
    for (std::int64_t k = 0; k < columns; k += tile.dot_columns, totals += tile_sums) {
      for (std::int64_t j = 0; j < tile.dot_columns; ++j) {
        // Beyond the last column it is the last again, and its sum is not read.
        b[j] = memory.planes + offsets[static_cast<std::size_t>(std::min(k + j, columns - 1))];
      }
      tile.dot(g_.length(), a, b, totals);
    }
  }

  void write(std::int64_t rows, std::int64_t columns, const float* totals, std::int64_t tile_sums,
             float* to) const {
    const Tiles& tile = tiles();
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < columns; ++k) {
        const float* const lanes = totals + k / tile.dot_columns * tile_sums +
                                   (i * tile.dot_columns + k % tile.dot_columns) * tile.lanes;
        to[i * g_.depth() + k] = std::accumulate(lanes, lanes + tile.lanes, 0.0F);
      }
    }
  }

  static constexpr std::size_t kMaxDot = 16;
  const Geometry& g_;
  const float* output_gradient_;
  const float* input_;
  float* result_;
};

at::Tensor weight_gradient(const Geometry& g, const at::Tensor& output_gradient,
                           const at::Tensor& input, const at::Tensor& weight) {
  constexpr std::int64_t kChannels = 16;
  at::Tensor result = at::empty(weight.sizes(), weight.options());
  const WeightGradient gradient(g, output_gradient.data_ptr<float>(), input.data_ptr<float>(),
                                result.data_ptr<float>());
  const std::int64_t output_parts = at::divup(g.out.channels, tiles().dot_rows);
  const std::int64_t channel_parts = at::divup(g.in.channels, kChannels);
  at::parallel_for(0, output_parts * channel_parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t channel = part % channel_parts * kChannels;
      gradient.run(part / channel_parts * tiles().dot_rows, channel,
                   std::min(kChannels, g.in.channels - channel));
    }
  });
  return result;
}

at::Tensor bias_gradient(const Geometry& g, const at::Tensor& output_gradient) {
  at::Tensor result = at::zeros({g.out.channels}, output_gradient.options());
  const std::int64_t size = g.out.height * g.out.width;
  const float* const from = output_gradient.data_ptr<float>();
  float* const to = result.data_ptr<float>();
  at::parallel_for(0, g.out.channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      for (std::int64_t n = 0; n < g.batch; ++n) {
        to[o] += sum_of(from + n * g.out.image() + o * size, size);
      }
    }
  });
  return result;
}

}  // namespace

at::Tensor convolve(const at::Tensor& input_, const at::Tensor& weight_, const at::Tensor& bias,
                    const Convolution& convolution) {
  const at::Tensor input = input_.contiguous();
  const at::Tensor weight = weight_.contiguous();
  const Geometry g(input, weight, convolution);
  at::Tensor output =
      at::empty({g.batch, g.out.channels, g.out.height, g.out.width}, input.options());
  const float* const weights = weight.data_ptr<float>();
  const auto packed = pack_weights(g.out.channels, g.depth(), [&](std::int64_t o, std::int64_t k) {
    return weights[o * g.depth() + k];
  });
  const auto offsets = g.offsets(g.in.channels);
  const std::int64_t stride = padded_length(g.length());
  const at::Tensor biases = bias.defined() ? bias.contiguous() : bias;
  const float* const bias_of = biases.defined() ? biases.data_ptr<float>() : nullptr;
  const float* const from = input.data_ptr<float>();
  float* const to = output.data_ptr<float>();
  at::parallel_for(0, g.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const Memory memory =
        memory_of(g.planes_of(g.in.channels), padded_rows(g.out.channels) * stride);
    for (std::int64_t n = begin; n < end; ++n) {
      g.copy_planes(from + n * g.in.image(), g.in.channels, memory.planes);
      correlate(packed, offsets, memory.planes, g.length(), memory.result, stride);
      float* place = to + n * g.out.image();
      for (std::int64_t o = 0; o < g.out.channels; ++o) {
        const float add = bias_of == nullptr ? 0.0F : bias_of[o];
        for (std::int64_t y = 0; y < g.out.height; ++y, place += g.out.width) {
          const float* const row = memory.result + o * stride + y * g.plane_columns;
          for (std::int64_t x = 0; x < g.out.width; ++x) place[x] = row[x] + add;
        }
      }
    }
  });
  return output;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(const at::Tensor& output_gradient_,
                                                                 const at::Tensor& input_,
                                                                 const at::Tensor& weight_,
                                                                 const Convolution& convolution,
                                                                 std::array<bool, 3> wanted) {
  const at::Tensor output_gradient = output_gradient_.contiguous();
  const at::Tensor input = input_.contiguous();
  const at::Tensor weight = weight_.contiguous();
  const Geometry g(input, weight, convolution);
  return {wanted[0] ? input_gradient(g, output_gradient, input, weight) : at::Tensor(),
          wanted[1] ? weight_gradient(g, output_gradient, input, weight) : at::Tensor(),
          wanted[2] ? bias_gradient(g, output_gradient) : at::Tensor()};
}

}  // namespace muster::kernels
