#include "muster/nn/kernels/channels_last_unit_internal.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "muster/nn/kernels/panels_internal.h"
#include "muster/nn/kernels/residual_sums_internal.h"
#include "muster/nn/kernels/scratch_internal.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels::channels_last {
namespace {

/// Images of which one has `height` x `width` pixels.
struct Size {
  explicit Size(const at::Tensor& images)
      : batch(images.size(0)),
        height(images.size(2)),
        width(images.size(3)),
        channels(images.size(1)) {}

  std::int64_t pixels() const { return height * width; }
  std::int64_t floats() const { return pixels() * channels; }
  PixelRows rows() const { return {.rows = height, .width = width, .channels = channels}; }

  std::int64_t batch, height, width, channels;
};

/// An image with a pixel of zeros around it, which is what a 3x3 kernel sees.
struct Frame {
  explicit Frame(const Size& size)
      : height(size.height), width(size.width), channels(size.channels) {}

  std::int64_t row_step() const { return (width + 2) * channels; }
  /// Place of the image's first pixel.
  std::int64_t first() const { return row_step() + channels; }
  std::int64_t floats() const { return (height + 2) * row_step() + kSlack; }

  std::int64_t height, width, channels;
};

/// A thread's memory, divided up in the order in which parts are asked for.
class FrameMemory {
 public:
  explicit FrameMemory(std::int64_t floats) {
    thread_local Scratch scratch;
    next_ = scratch.floats(static_cast<std::size_t>(floats));
  }
  float* take(std::int64_t floats) {
    float* const result = next_;
    next_ += floats;
    return result;
  }
  float* take_zeros(std::int64_t floats) {
    float* const result = take(floats);
    std::fill_n(result, floats, 0.0F);
    return result;
  }

 private:
  float* next_;
};

/// The most pixels that a tile of any processor takes.
constexpr std::size_t kMostPixelRows = 16;

/// Pixels that a panel of outputs is computed for: pixel i sees a row of the kernel at
/// base[offsets[i]], the next `row_step` after.
struct PixelView {
  const float* base = nullptr;
  const std::int64_t* offsets = nullptr;
  std::int64_t count = 0;
  std::int64_t row_step = 0;
};

/// Computes the outputs of a panel for all pixels, tile by tile.
void compute_panel(const PixelView& view, std::int64_t width, PixelTile tile) {
  const Tiles& kinds = tiles();
  const auto compute = width == kinds.lanes ? kinds.narrow_pixels : kinds.pixels;
  const std::int64_t step = kinds.pixel_rows;
  std::array<std::int64_t, kMostPixelRows> rest{};
  for (std::int64_t pixel = 0; pixel < view.count; pixel += step) {
    tile.offsets = view.offsets + pixel;
    tile.count = std::min(step, view.count - pixel);
    if (tile.count < step) {
      // A tile reads whole ones: after the last pixel there may be nothing to read.
      rest.fill(tile.offsets[0]);
      std::copy_n(tile.offsets, tile.count, rest.begin());
      tile.offsets = rest.data();
    }
    compute(tile);
    tile.out += step * tile.out_stride;
  }
}

/// Width of a panel that begins where so many outputs are left.
std::int64_t width_of_panel(std::int64_t outputs_left) {
  const Tiles& tile = tiles();
  return outputs_left > tile.lanes ? tile.lanes * tile.pixel_vectors : tile.lanes;
}

/// Weights of some rows of a kernel, laid out for Tiles::pixels(): panels of outputs, and there
/// [row][weight of the row][output], with zeros for outputs that are not there.
class PackedKernel {
 public:
  /// A row has `run` weights for each output; `weight_at(row, k, output)` reads them.
  template <typename WeightAt>
  PackedKernel(std::int64_t rows, std::int64_t run, std::int64_t outputs, WeightAt weight_at)
      : rows_(rows), run_(run) {
    while (padded_outputs_ < outputs) {
      widths_.push_back(width_of_panel(outputs - padded_outputs_));
      padded_outputs_ += widths_.back();
    }
    weights_.assign(static_cast<std::size_t>(rows * run * padded_outputs_), 0.0F);
    float* to = weights_.data();
    std::int64_t first = 0;
    for (const std::int64_t width : widths_) {
      const std::int64_t count = std::min(width, outputs - first);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t k = 0; k < run; ++k, to += width) {
          for (std::int64_t o = 0; o < count; ++o) to[o] = weight_at(row, k, first + o);
        }
      }
      first += width;
    }
  }

  /// Floats of a pixel of the result.
  std::int64_t padded_outputs() const { return padded_outputs_; }

  /// Writes padded_outputs() sums for each pixel of the view, `out_stride` apart.
  void run(const PixelView& view, float* out, std::int64_t out_stride) const {
    const float* weights = weights_.data();
    for (const std::int64_t width : widths_) {
      const std::int64_t rows_at_once =
          std::clamp<std::int64_t>(kSliceFloats / (run_ * width), 1, rows_);
      for (std::int64_t row = 0; row < rows_; row += rows_at_once) {
        PixelTile tile{.base = view.base + row * view.row_step,
                       .rows = std::min(rows_at_once, rows_ - row),
                       .row_step = view.row_step,
                       .run = run_,
                       .weights = weights + row * run_ * width,
                       .out = out,
                       .out_stride = out_stride,
                       .first = row == 0,
                       .last = false};
        compute_panel(view, width, tile);
      }
      weights += rows_ * run_ * width;
      out += width;
    }
  }

 private:
  /// Weights that stay in the nearest cache while the pixels go by.
  static constexpr std::int64_t kSliceFloats = std::int64_t{6} * 1024;

  std::int64_t rows_, run_;
  std::int64_t padded_outputs_ = 0;
  std::vector<std::int64_t> widths_;
  std::vector<float> weights_;
};

std::vector<std::int64_t> pixel_offsets(std::int64_t rows, std::int64_t width,
                                        std::int64_t row_step, std::int64_t step) {
  std::vector<std::int64_t> offsets;
  offsets.reserve(static_cast<std::size_t>(rows * width));
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < width; ++x) offsets.push_back(y * row_step + x * step);
  }
  return offsets;
}

/// Weights [outputs, channels, 3, 3] of a tensor.
struct Weights {
  explicit Weights(const at::Tensor& weight)
      : data(weight.data_ptr<float>()), outputs(weight.size(0)), channels(weight.size(1)) {}
  float at(std::int64_t output, std::int64_t channel, std::int64_t row, std::int64_t column) const {
    return data[((output * channels + channel) * kTaps + row) * kTaps + column];
  }
  const float* data;
  std::int64_t outputs, channels;
};

/// A 3x3 kernel with a stride of 1 by Winograd's F(2x2, 3x3): 16 products give four results, which
/// would take 36. Height and width are even, channels and outputs fill vectors.
class WinogradKernel {
 public:
  static bool takes(const Frame& frame) {
    return frame.height % 2 == 0 && frame.width % 2 == 0 && frame.channels % tiles().lanes == 0;
  }

  /// `weight_at(row, column, channel, output)` reads the weights.
  template <typename WeightAt>
  WinogradKernel(const Frame& frame, std::int64_t outputs, WeightAt weight_at)
      : frame_(frame),
        outputs_(outputs),
        at_once_(at::divup(std::max<std::int64_t>(kBlock / std::max(frame.channels, outputs), 1),
                           tiles().pixel_rows) *
                 tiles().pixel_rows),
        offsets_(pixel_offsets(1, at_once_, 0, frame.channels)),
        weights_(static_cast<std::size_t>(kSquareProducts * frame.channels * outputs)) {
    at::parallel_for(0, frame.channels, at::divup(kGrain, outputs),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t c = begin; c < end; ++c) lay_out(c, weight_at);
                     });
  }

  /// Floats of memory that run() takes.
  std::int64_t scratch_floats() const {
    return kSquareProducts * at_once_ * (frame_.channels + outputs_);
  }

  /// Writes an image without gaps.
  void run(const float* frame, float* image, float* scratch) const {
    const ChannelLoops& loops = tiles().channel_loops;
    float* const products = scratch + kSquareProducts * at_once_ * frame_.channels;
    const std::int64_t all = frame_.height * frame_.width / 4;
    for (std::int64_t first = 0; first < all; first += at_once_) {
      const Squares squares{.in_row = frame_.width / 2,
                            .first = first,
                            .count = std::min(at_once_, all - first),
                            .pitch = std::min(at_once_, all - first)};
      loops.factors(squares, frame_.channels, frame, frame_.row_step(), scratch);
      for (std::int64_t product = 0; product < kSquareProducts; ++product) {
        multiply(product, scratch, squares.count, products);
      }
      loops.results(squares, outputs_, products, image, frame_.width * outputs_);
    }
  }

 private:
  /// Squares at a time, times their channels: they stay in the cache between three passes.
  static constexpr std::int64_t kBlock = 768;
  /// Weights that are not worth another thread.
  static constexpr std::int64_t kGrain = 1024;

  // Sums over the channels for one of the products of some squares.
  void multiply(std::int64_t product, const float* factors, std::int64_t count,
                float* products) const {
    const PixelView view{.base = factors + product * count * frame_.channels,
                         .offsets = offsets_.data(),
                         .count = count};
    const float* weights = weights_.data() + product * frame_.channels * outputs_;
    float* const out = products + product * count * outputs_;
    for (std::int64_t o = 0; o < outputs_;) {
      const std::int64_t width = width_of_panel(outputs_ - o);
      compute_panel(view, width,
                    {.base = view.base,
                     .run = frame_.channels,
                     .weights = weights,
                     .out = out + o,
                     .out_stride = outputs_,
                     .last = false});
      weights += frame_.channels * width;
      o += width;
    }
  }

  // The weights of a channel as factors, [product][panel][channel][output of the panel].
  template <typename WeightAt>
  void lay_out(std::int64_t c, WeightAt weight_at) {
    for (std::int64_t first = 0; first < outputs_;) {
      const std::int64_t width = width_of_panel(outputs_ - first);
      for (std::int64_t o = 0; o < width; ++o) {
        float* const place = weights_.data() + first * frame_.channels + c * width + o;
        std::array<std::array<float, kTaps>, 4> rows{};
        for (std::size_t x = 0; x < kTaps; ++x) {
          const auto column = static_cast<std::int64_t>(x);
          const auto factors =
              factors_of(weight_at(0, column, c, first + o), weight_at(1, column, c, first + o),
                         weight_at(2, column, c, first + o));
          for (std::size_t y = 0; y < 4; ++y) rows[y][x] = factors[y];
        }
        for (std::size_t y = 0; y < 4; ++y) {
          const auto factors = factors_of(rows[y][0], rows[y][1], rows[y][2]);
          for (std::size_t x = 0; x < 4; ++x) {
            place[static_cast<std::int64_t>(4 * y + x) * frame_.channels * outputs_] = factors[x];
          }
        }
      }
      first += width;
    }
  }

  static std::array<float, 4> factors_of(float a, float b, float c) {
    return {a, 0.5F * (a + b + c), 0.5F * (a - b + c), c};
  }

  Frame frame_;
  std::int64_t outputs_, at_once_;
  std::vector<std::int64_t> offsets_;
  std::vector<float> weights_;
};

/// The convolution of a framed image.
class ForwardKernel {
 public:
  ForwardKernel(const Frame& frame, const Size& out, std::int64_t stride, const Weights& weights)
      : row_step_(frame.row_step()) {
    if (stride == 1 && WinogradKernel::takes(frame)) {
      winograd_.emplace(frame, weights.outputs,
                        [&](std::int64_t row, std::int64_t column, std::int64_t c, std::int64_t o) {
                          return weights.at(o, c, row, column);
                        });
      return;
    }
    packed_.emplace(kTaps, kTaps * weights.channels, weights.outputs,
                    [&](std::int64_t row, std::int64_t k, std::int64_t o) {
                      return weights.at(o, k % weights.channels, row, k / weights.channels);
                    });
    offsets_ =
        pixel_offsets(out.height, out.width, stride * frame.row_step(), stride * frame.channels);
  }

  std::int64_t scratch_floats() const { return winograd_ ? winograd_->scratch_floats() : 0; }

  void run(const float* frame, float* out, float* scratch) const {
    if (winograd_) return winograd_->run(frame, out, scratch);
    packed_->run({.base = frame,
                  .offsets = offsets_.data(),
                  .count = static_cast<std::int64_t>(offsets_.size()),
                  .row_step = row_step_},
                 out, packed_->padded_outputs());
  }

 private:
  std::optional<WinogradKernel> winograd_;
  std::optional<PackedKernel> packed_;
  std::vector<std::int64_t> offsets_;
  std::int64_t row_step_;
};

/// The gradient of a convolution's input from a framed gradient of its output. With a stride of 2
/// an even row meets the kernel's middle row, an odd one its last and its first, and so do columns:
/// these four phases of an image have kernels of their own.
class BackwardKernel {
 public:
  BackwardKernel(const Frame& gradient, std::int64_t stride, const Weights& weights)
      : stride_(stride), gradient_(gradient) {
    if (stride == 1 && WinogradKernel::takes(gradient) && weights.channels % tiles().lanes == 0) {
      winograd_.emplace(gradient, weights.channels,
                        [&](std::int64_t row, std::int64_t column, std::int64_t o, std::int64_t c) {
                          return weights.at(o, c, kTaps - 1 - row, kTaps - 1 - column);
                        });
      pixel_floats_ = weights.channels;
      return;
    }
    if (stride == 1) {
      add_phase({2, 1, 0}, {2, 1, 0}, 0, 0, weights);
      offsets_ =
          pixel_offsets(gradient.height, gradient.width, gradient.row_step(), gradient.channels);
      return;
    }
    const std::vector<std::int64_t> even{1}, odd{2, 0};
    for (const std::int64_t y : {0, 1}) {
      for (const std::int64_t x : {0, 1}) {
        add_phase(y == 0 ? even : odd, x == 0 ? even : odd, y, x, weights);
      }
    }
    offsets_ = pixel_offsets(1, gradient.width, 0, gradient.channels);
  }

  /// Floats of a pixel of the result: its channels, and others that have no meaning.
  std::int64_t pixel_floats() const { return pixel_floats_; }
  std::int64_t floats() const {
    return gradient_.height * gradient_.width * stride_ * stride_ * pixel_floats();
  }

  std::int64_t scratch_floats() const { return winograd_ ? winograd_->scratch_floats() : 0; }

  void run(const float* gradient, float* out, float* scratch) const {
    if (winograd_) return winograd_->run(gradient, out, scratch);
    if (stride_ == 1) {
      phases_[0].packed.run(view(gradient), out, pixel_floats());
      return;
    }
    const std::int64_t row_floats = gradient_.width * stride_ * pixel_floats();
    for (const Phase& phase : phases_) {
      for (std::int64_t y = 0; y < gradient_.height; ++y) {
        phase.packed.run(view(gradient + (y + 1) * gradient_.row_step() + gradient_.channels),
                         out + (y * stride_ + phase.y) * row_floats + phase.x * pixel_floats(),
                         stride_ * pixel_floats());
      }
    }
  }

 private:
  struct Phase {
    std::int64_t y, x;
    PackedKernel packed;
  };

  void add_phase(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns,
                 std::int64_t y, std::int64_t x, const Weights& weights) {
    const std::int64_t outputs = weights.outputs;
    const auto row_count = static_cast<std::int64_t>(rows.size());
    const auto run = static_cast<std::int64_t>(columns.size()) * outputs;
    phases_.push_back({y, x,
                       PackedKernel(row_count, run, weights.channels,
                                    [&](std::int64_t row, std::int64_t k, std::int64_t c) {
                                      return weights.at(
                                          k % outputs, c, rows[static_cast<std::size_t>(row)],
                                          columns[static_cast<std::size_t>(k / outputs)]);
                                    })});
    pixel_floats_ = phases_.back().packed.padded_outputs();
  }

  PixelView view(const float* base) const {
    return {.base = base,
            .offsets = offsets_.data(),
            .count = static_cast<std::int64_t>(offsets_.size()),
            .row_step = gradient_.row_step()};
  }

  std::int64_t stride_;
  Frame gradient_;
  std::int64_t pixel_floats_ = 0;
  std::optional<WinogradKernel> winograd_;
  std::vector<Phase> phases_;
  std::vector<std::int64_t> offsets_;
};

/// The gradient of a convolution's weights over some images, with a stride of 1 by the products of
/// WinogradKernel: those of an image's 4x4 pixels and of their results' 2x2 gradients are summed,
/// and become weights at the end.
class WinogradWeightKernel {
 public:
  /// With fewer channels the factors take as long as the products save.
  static bool takes(const Frame& image, const Frame& gradient) {
    constexpr std::int64_t kFewestChannels = 32;
    return WinogradKernel::takes(image) && image.channels >= kFewestChannels &&
           gradient.channels >= kFewestChannels;
  }

  WinogradWeightKernel(const Frame& image, const Frame& gradient)
      : image_(image),
        gradient_(gradient),
        capacity_(std::max<std::int64_t>(kBlock / std::max(image.channels, gradient.channels), 1)) {
  }

  /// Floats of a sum, [product][output][channel].
  std::int64_t floats() const { return kSquareProducts * gradient_.channels * image_.channels; }
  std::int64_t scratch_floats() const {
    return kSquareProducts * capacity_ * (gradient_.channels + image_.channels);
  }

  /// Squares whose factors are in memory, not yet multiplied.
  struct Open {
    float* scratch = nullptr;
    std::int64_t count = 0;
  };

  void add(const float* image, const float* gradient, Open& open, float* to) const {
    const ChannelLoops& loops = tiles().channel_loops;
    const std::int64_t all = gradient_.height * gradient_.width / 4;
    for (std::int64_t first = 0; first < all;) {
      const Squares squares{.in_row = gradient_.width / 2,
                            .first = first,
                            .count = std::min(capacity_ - open.count, all - first),
                            .pitch = capacity_};
      loops.factors(squares, image_.channels, image, image_.row_step(),
                    open.scratch + open.count * image_.channels);
      loops.gradient_factors(squares, gradient_.channels, gradient + gradient_.first(),
                             gradient_.row_step(),
                             gradients_of(open) + open.count * gradient_.channels);
      open.count += squares.count;
      first += squares.count;
      if (open.count == capacity_) finish(open, to);
    }
  }

  /// Adds the products of what is in memory.
  void finish(Open& open, float* to) const {
    const ChannelLoops& loops = tiles().channel_loops;
    const std::int64_t lanes = tiles().lanes;
    WeightTile tile{.rows = 1,
                    .width = open.count,
                    .gradient_step = gradient_.channels,
                    .image_step = image_.channels,
                    .to_stride = image_.channels};
    for (std::int64_t product = 0; product < kSquareProducts && open.count > 0; ++product) {
      const float* const images = open.scratch + product * capacity_ * image_.channels;
      const float* const gradients = gradients_of(open) + product * capacity_ * gradient_.channels;
      float* const sums = to + product * gradient_.channels * image_.channels;
      for (std::int64_t c = 0; c < image_.channels;) {
        const bool is_wide = image_.channels - c >= 2 * lanes;
        for (std::int64_t o = 0; o < gradient_.channels; o += tiles().rows) {
          tile.gradients = gradients + o;
          tile.images = images + c;
          tile.to = sums + o * image_.channels + c;
          (is_wide ? loops.weight_panel : loops.narrow_weight_panel)(tile);
        }
        c += is_wide ? 2 * lanes : lanes;
      }
    }
    open.count = 0;
  }

  /// Writes the weights of an output, [channel][3][3], from its sums.
  void write(const float* sums, std::int64_t output, float* to) const {
    const std::int64_t step = gradient_.channels * image_.channels;
    for (std::int64_t c = 0; c < image_.channels; ++c, to += kTaps * kTaps) {
      const float* const from = sums + output * image_.channels + c;
      std::array<std::array<float, 4>, kTaps> rows{};
      for (std::int64_t x = 0; x < 4; ++x) {
        const auto column = weights_of(from[x * step], from[(4 + x) * step], from[(8 + x) * step],
                                       from[(12 + x) * step]);
        for (std::size_t y = 0; y < kTaps; ++y) rows[y][static_cast<std::size_t>(x)] = column[y];
      }
      for (std::size_t y = 0; y < kTaps; ++y) {
        const auto row = weights_of(rows[y][0], rows[y][1], rows[y][2], rows[y][3]);
        std::copy_n(row.begin(), kTaps, to + static_cast<std::int64_t>(y) * kTaps);
      }
    }
  }

 private:
  /// Squares in memory, times their channels: products take as long as their sums' way to memory.
  static constexpr std::int64_t kBlock = 2048;

  float* gradients_of(const Open& open) const {
    return open.scratch + kSquareProducts * capacity_ * image_.channels;
  }

  static std::array<float, kTaps> weights_of(float a, float b, float c, float d) {
    return {a + 0.5F * (b + c), 0.5F * (b - c), 0.5F * (b + c) + d};
  }

  Frame image_, gradient_;
  std::int64_t capacity_;
};

/// The gradient of a convolution's weights over some images, [output][kernel row][kernel
/// column][channel].
class DirectWeightKernel {
 public:
  DirectWeightKernel(const Frame& image, const Frame& gradient, std::int64_t stride)
      : image_(image), gradient_(gradient), stride_(stride), run_(kTaps * image.channels) {}

  std::int64_t floats() const { return gradient_.channels * kTaps * run_; }

  /// Writes the weights of an output, [channel][3][3], from its sums.
  void write(const float* sums, std::int64_t output, float* to) const {
    const float* const from = sums + output * kTaps * run_;
    for (std::int64_t c = 0; c < image_.channels; ++c) {
      for (std::int64_t k = 0; k < kTaps * kTaps; ++k) *to++ = from[k * image_.channels + c];
    }
  }

  void add(const float* image, const float* gradient, float* to) const {
    const std::int64_t block = std::max<std::int64_t>(kBlockPixels / gradient_.width, 1);
    for (std::int64_t y = 0; y < gradient_.height; y += block) {
      add_rows(image + y * stride_ * image_.row_step(),
               gradient + gradient_.first() + y * gradient_.row_step(),
               std::min(block, gradient_.height - y), to);
    }
  }

 private:
  /// Pixels that are gone through for one tile: what tiles side by side see of them stays in the
  /// nearest cache.
  static constexpr std::int64_t kBlockPixels = 128;
  static constexpr std::int64_t kMostTileFloats = 512;

  void add_rows(const float* image, const float* gradient, std::int64_t rows, float* to) const {
    const Tiles& kinds = tiles();
    WeightTile tile{.rows = rows,
                    .width = gradient_.width,
                    .gradient_row_step = gradient_.row_step(),
                    .gradient_step = gradient_.channels,
                    .image_row_step = stride_ * image_.row_step(),
                    .image_step = stride_ * image_.channels};
    for (std::int64_t row = 0; row < kTaps; ++row) {
      for (std::int64_t column = 0; column < run_; column += kinds.columns) {
        tile.images = image + row * image_.row_step() + column;
        const std::int64_t columns = std::min(kinds.columns, run_ - column);
        for (std::int64_t o = 0; o < gradient_.channels; o += kinds.rows) {
          tile.gradients = gradient + o;
          add_tile(tile, columns, to + (o * kTaps + row) * run_ + column);
        }
      }
    }
  }

  void add_tile(WeightTile tile, std::int64_t columns, float* to) const {
    const Tiles& kinds = tiles();
    tile.to_stride = kTaps * run_;
    tile.to = to;
    if (columns == kinds.columns) return kinds.channel_loops.weight_tile(tile);
    std::array<float, kMostTileFloats> whole{};
    tile.to = whole.data();
    tile.to_stride = kinds.columns;
    kinds.channel_loops.weight_tile(tile);
    for (std::int64_t i = 0; i < kinds.rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        to[i * kTaps * run_ + j] += whole[static_cast<std::size_t>(i * kinds.columns + j)];
      }
    }
  }

  Frame image_, gradient_;
  std::int64_t stride_, run_;
};

/// One of the two.
class WeightKernel {
 public:
  WeightKernel(const Frame& image, const Frame& gradient, std::int64_t stride)
      : direct_(image, gradient, stride) {
    if (stride == 1 && WinogradWeightKernel::takes(image, gradient)) {
      winograd_.emplace(image, gradient);
    }
  }

  std::int64_t floats() const { return winograd_ ? winograd_->floats() : direct_.floats(); }
  std::int64_t scratch_floats() const { return winograd_ ? winograd_->scratch_floats() : 0; }

  using Open = WinogradWeightKernel::Open;
  void add(const float* image, const float* gradient, Open& open, float* to) const {
    if (winograd_) return winograd_->add(image, gradient, open, to);
    direct_.add(image, gradient, to);
  }
  void finish(Open& open, float* to) const {
    if (winograd_) winograd_->finish(open, to);
  }
  void write(const float* sums, std::int64_t output, float* to) const {
    if (winograd_) return winograd_->write(sums, output, to);
    direct_.write(sums, output, to);
  }

 private:
  DirectWeightKernel direct_;
  std::optional<WinogradWeightKernel> winograd_;
};

/// Images whose share of a weight's gradient is summed on its own: the shares are added up in their
/// order, whatever threads made them.
constexpr std::int64_t kImagesOfShare = 8;

at::Tensor weight_of_shares(const WeightKernel& kernel, std::vector<float>& shares,
                            const at::Tensor& weight) {
  const std::int64_t size = kernel.floats();
  const auto count = static_cast<std::int64_t>(shares.size()) / size;
  constexpr std::int64_t kGrain = 1 << 14;
  at::parallel_for(0, size, kGrain, [&](std::int64_t begin, std::int64_t end) {
    float* const sum = shares.data();
    for (std::int64_t share = 1; share < count; ++share) {
      const float* const more = sum + share * size;
      for (std::int64_t i = begin; i < end; ++i) sum[i] += more[i];
    }
  });
  at::Tensor result = at::empty(weight.sizes(), weight.options());
  float* const to = result.data_ptr<float>();
  const std::int64_t outputs = weight.size(0);
  const std::int64_t output_floats = weight.numel() / outputs;
  at::parallel_for(0, outputs, at::divup(kGrain, output_floats),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t o = begin; o < end; ++o) {
                       kernel.write(shares.data(), o, to + o * output_floats);
                     }
                   });
  return result;
}

template <typename Body>
void for_images(std::int64_t batch, Body body) {
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) body(n);
  });
}

at::Tensor empty_images(const Size& size, const at::Tensor& like) {
  return at::empty({size.batch, size.channels, size.height, size.width}, like.options(),
                   at::MemoryFormat::ChannelsLast);
}

/// Lines of a normalisation, for the values that came before it.
class Normalisation {
 public:
  Normalisation(const NormalisedConvolution& layer, const NormalisedImages& images)
      : mean_(images.mean), shift_(layer.beta) {
    const float* const inverse = images.inverse_deviation.data_ptr<float>();
    const float* const gamma = layer.gamma.data_ptr<float>();
    for (std::int64_t c = 0; c < images.mean.numel(); ++c) scale_.push_back(inverse[c] * gamma[c]);
  }
  ChannelLines lines() const {
    return {
        .mean = mean_.data_ptr<float>(), .scale = scale_.data(), .shift = shift_.data_ptr<float>()};
  }

 private:
  at::Tensor mean_, shift_;
  std::vector<float> scale_;
};

ChannelGradientLines lines_of(const GradientLineValues& values) {
  return {.scale = values.scale.data(),
          .offset = values.offset.data(),
          .slope = values.slope.data(),
          .mean = values.mean.data()};
}

// --- What convolutions read: functions that fill a frame's image. ---

auto plain(const at::Tensor& images) {
  const Size size(images);
  return [size, from = images.data_ptr<float>(), step = Frame(size).row_step()](std::int64_t n,
                                                                                float* to) {
    const std::int64_t row = size.width * size.channels;
    const float* next = from + n * size.floats();
    for (std::int64_t y = 0; y < size.height; ++y, next += row, to += step) {
      std::memcpy(to, next, static_cast<std::size_t>(row) * sizeof(float));
    }
  };
}

auto normalised_and_active(const at::Tensor& convolved, const Normalisation& norm) {
  const Size size(convolved);
  return [size, &norm, from = convolved.data_ptr<float>(), step = Frame(size).row_step()](
             std::int64_t n, float* to) {
    tiles().channel_loops.normalise(size.rows(), from + n * size.floats(), norm.lines(), nullptr,
                                    /*relu=*/true, to, step);
  };
}

/// The gradient after a ReLU (or none, where `output` is null), brought through it and the
/// normalisation before it.
auto through_norm(const at::Tensor& gradient, const float* output, const at::Tensor& convolved,
                  const GradientLineValues& values) {
  const Size size(convolved);
  return [=, &values, dy = gradient.data_ptr<float>(), x = convolved.data_ptr<float>(),
          step = Frame(size).row_step()](std::int64_t n, float* to) {
    const std::int64_t place = n * size.floats();
    tiles().channel_loops.through_norm(size.rows(), dy + place,
                                       output == nullptr ? nullptr : output + place, x + place,
                                       lines_of(values), to, step);
  };
}

/// The convolution of images that `fill(image, frame)` gives, and its moments.
template <typename Fill>
NormalisedImages normalised_images(const Size& in, const NormalisedConvolution& layer,
                                   std::int64_t stride, Fill fill) {
  Size out = in;
  out.height /= stride;
  out.width /= stride;
  out.channels = layer.weight.size(0);
  const Frame frame(in);
  const ForwardKernel kernel(frame, out, stride, Weights(layer.weight));
  NormalisedImages images{.convolved = empty_images(out, layer.weight)};
  float* const to = images.convolved.data_ptr<float>();
  ImageSums moments(out.batch, out.channels);
  at::parallel_for(0, in.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    FrameMemory memory(frame.floats() + kernel.scratch_floats());
    float* const framed = memory.take_zeros(frame.floats());
    float* const scratch = memory.take(kernel.scratch_floats());
    for (std::int64_t n = begin; n < end; ++n) {
      fill(n, framed + frame.first());
      float* const image = to + n * out.floats();
      kernel.run(framed, image, scratch);
      const std::size_t place = moments.place(n, 0);
      tiles().channel_loops.moments(out.rows(), image, &moments.sums[place],
                                    &moments.products[place]);
    }
  });
  finish_moments(out.pixels(), moments, layer, images);
  return images;
}

/// One pass over the images for both gradients of a convolution. `fill_gradient` and `fill_image`
/// give what comes from above and what the convolution read; `take(image, gradient, pixel floats,
/// framed image)` is given the gradient of what it read. Returns the gradient of the weights.
template <typename FillGradient, typename FillImage, typename Take>
at::Tensor convolution_backward(const Size& in, const Size& out, const at::Tensor& weight,
                                std::int64_t stride, FillGradient fill_gradient,
                                FillImage fill_image, bool input_gradient_wanted, Take take) {
  const Frame image_frame(in), gradient_frame(out);
  const WeightKernel weight_kernel(image_frame, gradient_frame, stride);
  const BackwardKernel backward(gradient_frame, stride, Weights(weight));
  const std::int64_t share_count = at::divup(in.batch, kImagesOfShare);
  std::vector<float> shares(static_cast<std::size_t>(share_count * weight_kernel.floats()));
  at::parallel_for(0, share_count, 1, [&](std::int64_t begin, std::int64_t end) {
    FrameMemory memory(image_frame.floats() + gradient_frame.floats() + backward.floats() +
                       backward.scratch_floats() + weight_kernel.scratch_floats());
    float* const image = memory.take_zeros(image_frame.floats());
    float* const gradient = memory.take_zeros(gradient_frame.floats());
    float* const result = memory.take(backward.floats());
    float* const scratch = memory.take(backward.scratch_floats());
    WeightKernel::Open open{.scratch = memory.take(weight_kernel.scratch_floats())};
    for (std::int64_t share = begin; share < end; ++share) {
      float* const sums = shares.data() + share * weight_kernel.floats();
      const std::int64_t last = std::min((share + 1) * kImagesOfShare, in.batch);
      for (std::int64_t n = share * kImagesOfShare; n < last; ++n) {
        fill_gradient(n, gradient + gradient_frame.first());
        fill_image(n, image + image_frame.first());
        weight_kernel.add(image, gradient, open, sums);
        if (!input_gradient_wanted) continue;
        backward.run(gradient, result, scratch);
        take(n, result, backward.pixel_floats(), image + image_frame.first());
      }
      weight_kernel.finish(open, sums);
    }
  });
  return weight_of_shares(weight_kernel, shares, weight);
}

/// The sums that finish_gradients() takes, of the gradient after a ReLU.
ImageSums sums_of_active(const at::Tensor& output_gradient, const at::Tensor& output,
                         const NormalisedImages& images) {
  const Size size(output);
  ImageSums sums(size.batch, size.channels);
  const float* const dy = output_gradient.data_ptr<float>();
  const float* const y = output.data_ptr<float>();
  const float* const x = images.convolved.data_ptr<float>();
  for_images(size.batch, [&](std::int64_t n) {
    const std::int64_t image = n * size.floats();
    const std::size_t place = sums.place(n, 0);
    tiles().channel_loops.gradient_sums(size.rows(), dy + image, y + image, x + image,
                                        images.mean.data_ptr<float>(), &sums.sums[place],
                                        &sums.products[place]);
  });
  return sums;
}

/// A shortcut that pools two by two pixels, or none, and whose channels lie among others.
struct Shortcut {
  Shortcut(const Size& in_, const Size& out_, std::int64_t stride_)
      : in(in_), out(out_), stride(stride_), zeros_before((out.channels - in.channels) / 2) {}
  bool is_input() const { return stride == 1 && in.channels == out.channels; }

  /// An image of the output's size.
  void write(const float* from, float* to) const {
    std::fill_n(to, out.floats(), 0.0F);
    for (std::int64_t y = 0; y < out.height; ++y) {
      for (std::int64_t x = 0; x < out.width; ++x) {
        const float* const pixel = from + (y * in.width + x) * stride * in.channels;
        float* const place = to + (y * out.width + x) * out.channels + zeros_before;
        if (stride == 1) {
          std::copy_n(pixel, in.channels, place);
          continue;
        }
        const float* const below = pixel + in.width * in.channels;
        for (std::int64_t c = 0; c < in.channels; ++c) {
          place[c] =
              (pixel[c] + pixel[in.channels + c] + below[c] + below[in.channels + c]) * 0.25F;
        }
      }
    }
  }

  /// Adds what comes back through the shortcut to the gradient of an image.
  void add_backward(const float* dy, const float* y, float* to) const {
    const float share = stride == 1 ? 1.0F : 0.25F;
    for (std::int64_t row = 0; row < in.height; ++row) {
      for (std::int64_t column = 0; column < in.width; ++column, to += in.channels) {
        const std::int64_t place =
            (row / stride * out.width + column / stride) * out.channels + zeros_before;
        for (std::int64_t c = 0; c < in.channels; ++c) {
          to[c] += y[place + c] <= 0.0F ? 0.0F : dy[place + c] * share;
        }
      }
    }
  }

  Size in, out;
  std::int64_t stride, zeros_before;
};

at::Tensor add_shortcut(const at::Tensor& input, const NormalisedConvolution& layer,
                        const NormalisedImages& images, std::int64_t stride) {
  const Size out(images.convolved);
  const Shortcut shortcut(Size(input), out, stride);
  at::Tensor output = empty_images(out, input);
  const Normalisation norm(layer, images);
  const float* const from = input.data_ptr<float>();
  const float* const convolved = images.convolved.data_ptr<float>();
  float* const to = output.data_ptr<float>();
  for_images(out.batch, [&](std::int64_t n) {
    const float* addend = from + n * shortcut.in.floats();
    float* const image = to + n * out.floats();
    if (!shortcut.is_input()) {
      shortcut.write(addend, image);
      addend = image;
    }
    tiles().channel_loops.normalise(out.rows(), convolved + n * out.floats(), norm.lines(), addend,
                                    /*relu=*/true, image, out.width * out.channels);
  });
  return output;
}

bool is_plain_input(const at::Tensor& input) {
  return input.dim() == 4 && input.device().is_cpu() && input.scalar_type() == at::kFloat &&
         input.numel() > 0 && is_in_order(input);
}

}  // namespace

bool is_in_order(const at::Tensor& images) {
  return images.dim() == 4 && !images.is_contiguous() &&
         images.is_contiguous(at::MemoryFormat::ChannelsLast);
}

bool takes(const at::Tensor& input, std::int64_t outputs, std::int64_t stride) {
  const std::int64_t lanes = tiles().lanes;
  return is_plain_input(input) && (stride == 1 || stride == 2) && input.size(1) % lanes == 0 &&
         outputs % lanes == 0 && outputs >= input.size(1) && input.size(2) % stride == 0 &&
         input.size(3) % stride == 0;
}

bool layer_takes(const at::Tensor& input, std::int64_t outputs) {
  return is_plain_input(input) && outputs % tiles().lanes == 0;
}

LayerForward normalised_layer(const at::Tensor& input, const NormalisedConvolution& layer) {
  LayerForward forward;
  forward.layer = normalised_images(Size(input), layer, /*stride=*/1, plain(input));
  const Size size(forward.layer.convolved);
  forward.output = empty_images(size, input);
  const Normalisation norm(layer, forward.layer);
  const float* const from = forward.layer.convolved.data_ptr<float>();
  float* const to = forward.output.data_ptr<float>();
  for_images(size.batch, [&](std::int64_t n) {
    tiles().channel_loops.normalise(size.rows(), from + n * size.floats(), norm.lines(), nullptr,
                                    /*relu=*/true, to + n * size.floats(),
                                    size.width * size.channels);
  });
  return forward;
}

LayerBackward normalised_layer_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                        const LayerForward& forward,
                                        const NormalisedConvolution& layer,
                                        bool input_gradient_wanted) {
  LayerBackward result;
  const Size in(input), out(forward.output);
  const GradientLineValues lines =
      finish_gradients(out.pixels(), sums_of_active(output_gradient, forward.output, forward.layer),
                       layer, forward.layer, result.layer);
  if (input_gradient_wanted) result.input = empty_images(in, input);
  result.layer.weight = convolution_backward(
      in, out, layer.weight, /*stride=*/1,
      through_norm(output_gradient, forward.output.data_ptr<float>(), forward.layer.convolved,
                   lines),
      plain(input), input_gradient_wanted,
      [&](std::int64_t n, const float* gradient, std::int64_t pixel_floats, const float*) {
        float* to = result.input.data_ptr<float>() + n * in.floats();
        for (std::int64_t i = 0; i < in.pixels(); ++i, to += in.channels) {
          std::copy_n(gradient + i * pixel_floats, in.channels, to);
        }
      });
  return result;
}

UnitForward residual_unit(const at::Tensor& input, const NormalisedConvolution& first,
                          const NormalisedConvolution& second, std::int64_t stride) {
  UnitForward forward;
  forward.first = normalised_images(Size(input), first, stride, plain(input));
  const at::Tensor& middle = forward.first.convolved;
  const Normalisation norm(first, forward.first);
  forward.second =
      normalised_images(Size(middle), second, /*stride=*/1, normalised_and_active(middle, norm));
  forward.output = add_shortcut(input, second, forward.second, stride);
  return forward;
}

UnitBackward residual_unit_backward(const at::Tensor& output_gradient, const at::Tensor& input,
                                    const UnitForward& forward, const NormalisedConvolution& first,
                                    const NormalisedConvolution& second, std::int64_t stride) {
  UnitBackward result;
  const Size in(input), out(forward.output);
  const float* const dy = output_gradient.data_ptr<float>();
  const float* const y = forward.output.data_ptr<float>();
  const GradientLineValues second_lines = finish_gradients(
      out.pixels(), sums_of_active(output_gradient, forward.output, forward.second), second,
      forward.second, result.second);

  // Gradient that reaches the first normalisation's result, after its ReLU.
  const at::Tensor middle = empty_images(out, input);
  ImageSums middle_sums(out.batch, out.channels);
  const Normalisation first_norm(first, forward.first);
  const float* const x = forward.first.convolved.data_ptr<float>();
  const std::int64_t frame_step = Frame(out).row_step();
  result.second.weight = convolution_backward(
      out, out, second.weight, /*stride=*/1,
      through_norm(output_gradient, y, forward.second.convolved, second_lines),
      normalised_and_active(forward.first.convolved, first_norm), /*input_gradient_wanted=*/true,
      [&](std::int64_t n, const float* gradient, std::int64_t, const float* active) {
        const std::int64_t image = n * out.floats();
        const std::size_t place = middle_sums.place(n, 0);
        tiles().channel_loops.mask(out.rows(), gradient, active, frame_step, x + image,
                                   forward.first.mean.data_ptr<float>(),
                                   middle.data_ptr<float>() + image, &middle_sums.sums[place],
                                   &middle_sums.products[place]);
      });
  const GradientLineValues first_lines =
      finish_gradients(out.pixels(), middle_sums, first, forward.first, result.first);

  result.input = empty_images(in, input);
  const Shortcut shortcut(in, out, stride);
  result.first.weight = convolution_backward(
      in, out, first.weight, stride,
      through_norm(middle, nullptr, forward.first.convolved, first_lines), plain(input),
      /*input_gradient_wanted=*/true,
      [&](std::int64_t n, const float* gradient, std::int64_t, const float*) {
        float* const to = result.input.data_ptr<float>() + n * in.floats();
        const std::int64_t place = n * out.floats();
        if (shortcut.is_input()) {
          tiles().channel_loops.add_masked(in.floats(), gradient, dy + place, y + place, to);
          return;
        }
        std::copy_n(gradient, in.floats(), to);
        shortcut.add_backward(dy + place, y + place, to);
      });
  return result;
}

}  // namespace muster::kernels::channels_last
