#include "muster/nn/kernels/inference_convolution.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "muster/base/error.h"
#include "muster/nn/kernels/scratch_internal.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

/// Weights of a panel that are gone through for all pixels of a block before the next: with them
/// and a block the nearest cache is full.
constexpr std::int64_t kSliceFloats = 6 * 1024;
/// Padded rows of an image that are looked at together.
constexpr std::int64_t kBlockFloats = 6 * 1024;
/// A block has this many rows of the output, if the image has: rows between blocks are copied
/// twice.
constexpr std::int64_t kMinBlockRows = 4;
/// And this many pixels: weights are read once for each block.
constexpr std::int64_t kMinBlockPixels = 32;
/// Multiplications that are not worth another thread.
constexpr std::int64_t kGrain = 1 << 18;
/// The same for the rows of a request, which other requests are beside: a thread that waits for
/// another to be woken has lost more than it can win.
constexpr std::int64_t kGrainOfRows = 1 << 23;
/// The most pixels that a tile of any processor takes.
constexpr std::size_t kMaxPixelRows = 16;
/// The most outputs of a panel of any processor.
constexpr std::int64_t kMaxPanelFloats = 32;

std::int64_t panel_width(std::int64_t outputs) {
  const Tiles& tile = tiles();
  return outputs > tile.lanes ? tile.lanes * tile.pixel_vectors : tile.lanes;
}

}  // namespace

InferenceConvolution::InferenceConvolution(const at::Tensor& filter, const at::Tensor& bias)
    : height_(filter.size(0)),
      width_(filter.size(1)),
      channels_(filter.size(2)),
      outputs_(filter.size(3)) {
  if (filter.numel() == 0) throw InvalidArgument("a filter of no weights cannot be laid out");
  const std::int64_t depth = height_ * width_ * channels_;
  std::int64_t columns = 0;
  for (std::int64_t first = 0; first < outputs_; first += panels_.back().width) {
    panels_.push_back({first, panel_width(outputs_ - first), depth * columns});
    columns += panels_.back().width;
  }
  weights_ = at::zeros({depth * columns}, at::kFloat);
  bias_ = at::zeros({columns}, at::kFloat);
  const at::Tensor from = filter.contiguous();
  const float* const source = from.data_ptr<float>();
  for (const Panel& panel : panels_) {
    float* to = weights_.data_ptr<float>() + panel.place;
    const std::int64_t count = std::min(panel.width, outputs_ - panel.first);
    for (std::int64_t k = 0; k < depth; ++k, to += panel.width) {
      std::copy_n(source + k * outputs_ + panel.first, count, to);
    }
  }
  if (bias.defined()) bias_.narrow(0, 0, outputs_).copy_(bias);
}

std::int64_t InferenceConvolution::laid_out_bytes(std::int64_t weights, std::int64_t outputs) {
  if (outputs <= 0) return 0;
  std::int64_t columns = 0;
  while (columns < outputs) columns += panel_width(outputs - columns);
  return weights / outputs * columns * static_cast<std::int64_t>(sizeof(float));
}

std::array<std::int64_t, 4> InferenceConvolution::output_sizes(
    at::IntArrayRef images, const InferenceOptions& options) const {
  const auto places = [&](std::size_t i, std::int64_t kernel) {
    const std::int64_t room = images[i + 1] + options.before[i] + options.after[i] - kernel;
    return room < 0 ? 0 : room / options.stride[i] + 1;
  };
  return {images[0], places(0, height_), places(1, width_), outputs_};
}

/// One run: images are cut into blocks of whole rows of the output, which threads share.
class InferenceConvolution::Call {
 public:
  Call(const InferenceConvolution& layer, at::IntArrayRef images, const InferenceOptions& options)
      : layer_(layer),
        options_(options),
        in_height_(images[1]),
        in_width_(images[2]),
        out_(layer.output_sizes(images, options)),
        is_padded_(options.before != std::array<std::int64_t, 2>{} ||
                   options.after != std::array<std::int64_t, 2>{}),
        row_floats_((in_width_ + (is_padded_ ? options.before[1] + options.after[1] : 0)) *
                    layer.channels_),
        run_(layer.width_ * layer.channels_) {
    const std::int64_t fitting = kBlockFloats / std::max<std::int64_t>(row_floats_, 1);
    const std::int64_t rows = (fitting - layer_.height_) / options_.stride[0] + 1;
    const std::int64_t most = std::max<std::int64_t>(out_[1], 1);
    const std::int64_t width = std::max<std::int64_t>(out_[2], 1);
    const std::int64_t least = std::max(kMinBlockRows, at::divup(kMinBlockPixels, width));
    block_rows_ = std::clamp(rows, std::min(least, most), most);
    blocks_ = at::divup(most, block_rows_);
    // Blocks of one size.
    block_rows_ = at::divup(most, blocks_);
  }

  std::int64_t block_floats() const {
    return is_padded_ ? ((block_rows_ - 1) * options_.stride[0] + layer_.height_) * row_floats_ : 0;
  }
  std::int64_t block_pixels() const { return block_rows_ * out_[2]; }
  /// Room for the sums of a panel that is not whole.
  std::int64_t rest_floats() const {
    const Panel& last = layer_.panels_.back();
    return last.first + last.width > layer_.outputs_ ? block_rows_ * out_[2] * last.width : 0;
  }

  /// In this thread alone.
  void compute_here(const float* from, const float* addend, float* to) {
    set_tensors(from, addend, to);
    for (std::int64_t item = 0; item < out_[0] * blocks_; ++item) {
      compute_block(item, [&](const auto& panel_of) {
        for (std::size_t p = 0; p < layer_.panels_.size(); ++p) {
          panel_of(static_cast<std::int64_t>(p));
        }
      });
    }
  }

  /// By as many threads as ATen has, where it is worth them.
  void compute(const float* from, const float* addend, float* to) {
    set_tensors(from, addend, to);
    const std::int64_t items = out_[0] * blocks_;
    const auto panels = static_cast<std::int64_t>(layer_.panels_.size());
    const std::int64_t cost = block_rows_ * out_[2] * run_ * layer_.height_ * layer_.outputs_;
    if (items == 1) {
      compute_block(0, [&](const auto& panel_of) {
        at::parallel_for(0, panels, std::max<std::int64_t>(kGrain * panels / cost, 1),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t p = begin; p < end; ++p) panel_of(p);
                         });
      });
      return;
    }
    at::parallel_for(0, items, std::max<std::int64_t>(kGrain / cost, 1),
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t item = begin; item < end; ++item) {
                         compute_block(item, [&](const auto& panel_of) {
                           for (std::int64_t p = 0; p < panels; ++p) panel_of(p);
                         });
                       }
                     });
  }

 private:
  void set_tensors(const float* from, const float* addend, float* to) {
    from_ = from;
    addend_ = addend;
    to_ = to;
    set_offsets();
  }

  // Where the pixels of a whole block see the image.
  void set_offsets() {
    offsets_.reserve(static_cast<std::size_t>(block_pixels()));
    const std::int64_t step = options_.stride[1] * layer_.channels_;
    for (std::int64_t y = 0; y < block_rows_; ++y) {
      for (std::int64_t x = 0; x < out_[2]; ++x) {
        offsets_.push_back(y * options_.stride[0] * row_floats_ + x * step);
      }
    }
  }

  template <typename ForPanels>
  void compute_block(std::int64_t item, const ForPanels& for_panels) const {
    thread_local Scratch padded;
    const std::int64_t image = item / blocks_;
    const std::int64_t first_row = item % blocks_ * block_rows_;
    const std::int64_t rows = std::min(block_rows_, out_[1] - first_row);
    const float* const whole = from_ + image * in_height_ * in_width_ * layer_.channels_;
    const float* base = whole + first_row * options_.stride[0] * row_floats_;
    if (is_padded_) {
      float* const copy = padded.floats(static_cast<std::size_t>(block_floats()));
      copy_rows(whole, first_row * options_.stride[0] - options_.before[0],
                (rows - 1) * options_.stride[0] + layer_.height_, copy);
      base = copy;
    }
    const std::int64_t pixels = rows * out_[2];
    const std::int64_t place = (image * out_[1] + first_row) * out_[2] * layer_.outputs_;
    for_panels([&, this](std::int64_t p) {
      compute_panel(layer_.panels_[static_cast<std::size_t>(p)], base, pixels, place);
    });
  }

  // Rows of the image from `y` on, with zeros around.
  void copy_rows(const float* image, std::int64_t y, std::int64_t rows, float* to) const {
    const std::int64_t left = options_.before[1] * layer_.channels_;
    const std::int64_t inside = in_width_ * layer_.channels_;
    for (const std::int64_t end = y + rows; y < end; ++y, to += row_floats_) {
      if (y < 0 || y >= in_height_) {
        std::fill_n(to, row_floats_, 0.0F);
        continue;
      }
      std::fill_n(to, left, 0.0F);
      std::memcpy(to + left, image + y * inside, static_cast<std::size_t>(inside) * sizeof(float));
      std::fill_n(to + left + inside, row_floats_ - left - inside, 0.0F);
    }
  }

  void compute_panel(const Panel& panel, const float* base, std::int64_t pixels,
                     std::int64_t place) const {
    const std::int64_t outputs = layer_.outputs_;
    const bool is_whole = panel.first + panel.width <= outputs;
    PixelTile tile{.row_step = row_floats_,
                   .run = run_,
                   .bias = layer_.bias_.data_ptr<float>() + panel.first,
                   .relu = options_.relu};
    if (is_whole) {
      tile.out = to_ + place + panel.first;
      tile.out_stride = outputs;
      tile.addend = addend_ == nullptr ? nullptr : addend_ + place + panel.first;
      compute_slices(panel, tile, base, pixels);
      return;
    }
    thread_local Scratch rest;
    tile.out = rest.floats(static_cast<std::size_t>(rest_floats()));
    tile.out_stride = panel.width;
    tile.relu = options_.relu && addend_ == nullptr;
    compute_slices(panel, tile, base, pixels);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::int64_t o = panel.first; o < outputs; ++o) {
        const std::int64_t at = place + pixel * outputs + o;
        float value = tile.out[pixel * panel.width + o - panel.first];
        if (addend_ != nullptr) {
          value += addend_[at];
          if (options_.relu && value <= 0.0F) value = 0;
        }
        to_[at] = value;
      }
    }
  }

  // The weights in slices: whole rows of the kernel, or parts of one.
  void compute_slices(const Panel& panel, PixelTile tile, const float* base,
                      std::int64_t pixels) const {
    const std::int64_t most = std::max<std::int64_t>(kSliceFloats / panel.width, 1);
    const float* weights = layer_.weights_.data_ptr<float>() + panel.place;
    const std::int64_t rows_at_once = std::max<std::int64_t>(most / run_, 1);
    for (std::int64_t row = 0; row < layer_.height_; row += rows_at_once) {
      tile.rows = std::min(rows_at_once, layer_.height_ - row);
      // Few pixels go through all weights once in any case.
      const std::int64_t part = run_ <= most || pixels <= tiles().pixel_rows ? run_ : most;
      for (std::int64_t k = 0; k < run_; k += part) {
        tile.run = std::min(part, run_ - k);
        tile.weights = weights;
        tile.first = row == 0 && k == 0;
        tile.last = row + tile.rows == layer_.height_ && k + tile.run == run_;
        weights += tile.rows * tile.run * panel.width;
        compute_tiles(panel, tile, base + row * row_floats_ + k, pixels);
      }
    }
  }

  void compute_tiles(const Panel& panel, PixelTile tile, const float* base,
                     std::int64_t pixels) const {
    const Tiles& kinds = tiles();
    const auto compute = panel.width == kinds.lanes ? kinds.narrow_pixels : kinds.pixels;
    const std::int64_t step = kinds.pixel_rows;
    tile.base = base;
    std::array<std::int64_t, kMaxPixelRows> rest{};
    for (std::int64_t pixel = 0; pixel < pixels; pixel += step) {
      tile.offsets = offsets_.data() + pixel;
      tile.count = std::min(step, pixels - pixel);
      if (tile.count < step) {
        // A tile reads whole ones: after the last pixel of an image there may be nothing to read.
        rest.fill(tile.offsets[0]);
        std::copy_n(tile.offsets, tile.count, rest.begin());
        tile.offsets = rest.data();
      }
      compute(tile);
      tile.out += step * tile.out_stride;
      if (tile.addend != nullptr) tile.addend += step * tile.out_stride;
    }
  }

  const InferenceConvolution& layer_;
  const InferenceOptions options_;
  const std::int64_t in_height_, in_width_;
  const std::array<std::int64_t, 4> out_;
  const bool is_padded_;
  const std::int64_t row_floats_, run_;
  std::int64_t block_rows_ = 1, blocks_ = 1;
  std::vector<std::int64_t> offsets_;
  const float* from_ = nullptr;
  const float* addend_ = nullptr;
  float* to_ = nullptr;
};

std::int64_t InferenceConvolution::scratch_bytes(at::IntArrayRef images,
                                                 const InferenceOptions& options) const {
  const Call call(*this, images, options);
  return (call.block_floats() + call.rest_floats()) * static_cast<std::int64_t>(sizeof(float)) +
         call.block_pixels() * static_cast<std::int64_t>(sizeof(std::int64_t));
}

at::Tensor InferenceConvolution::run(const at::Tensor& images, const InferenceOptions& options,
                                     const at::Tensor& addend) const {
  at::Tensor output = at::empty(output_sizes(images.sizes(), options), images.options());
  run_into(images, options, addend, output);
  return output;
}

void InferenceConvolution::run_into(const at::Tensor& images, const InferenceOptions& options,
                                    const at::Tensor& addend, const at::Tensor& output) const {
  if (output.numel() == 0) return;
  const at::Tensor from = images.contiguous();
  const at::Tensor added = addend.defined() ? addend.contiguous() : addend;
  const float* const more = added.defined() ? added.data_ptr<float>() : nullptr;
  Call(*this, from.sizes(), options)
      .compute(from.data_ptr<float>(), more, output.data_ptr<float>());
}

void InferenceConvolution::multiply_row(const float* pixel, bool relu, const float* addend,
                                        float* output) const {
  const Tiles& kinds = tiles();
  const std::int64_t wide = kinds.lanes * kinds.pixel_vectors;
  alignas(64) std::array<float, (kRowPanels + 1) * kMaxPanelFloats> sums;
  const float* const weights = weights_.data_ptr<float>();
  const float* const bias = bias_.data_ptr<float>();
  for (std::size_t first = 0; first < panels_.size();) {
    RowPanels panels{.wide = weights + panels_[first].place};
    const std::int64_t begin = panels_[first].first;
    while (first < panels_.size() && panels_[first].width == wide &&
           panels.wide_count < kRowPanels) {
      ++panels.wide_count;
      ++first;
    }
    // Only the last one is narrow, if it is not of the same width as the others.
    if (first < panels_.size() && panels_[first].width != wide) {
      panels.narrow = weights + panels_[first].place;
      ++first;
    }
    kinds.row(channels_, pixel, panels, sums.data());
    const std::int64_t end = first < panels_.size() ? panels_[first].first : outputs_;
    for (std::int64_t o = begin; o < end; ++o) {
      float value = sums[static_cast<std::size_t>(o - begin)] + bias[o];
      if (addend != nullptr) value += addend[o];
      output[o] = relu && value <= 0.0F ? 0.0F : value;
    }
  }
}

void InferenceConvolution::multiply(const float* pixels, std::int64_t rows, bool relu,
                                    const float* addend, float* output) const {
  if (rows == 0) return;
  const Tiles& kinds = tiles();
  if (rows < kinds.pixel_rows - 1 && kinds.lanes * kinds.pixel_vectors <= kMaxPanelFloats) {
    for (std::int64_t i = 0; i < rows; ++i) {
      multiply_row(pixels + i * channels_, relu,
                   addend == nullptr ? nullptr : addend + i * outputs_, output + i * outputs_);
    }
    return;
  }
  const std::array<std::int64_t, 4> image{1, rows, 1, channels_};
  Call call(*this, image, {.relu = relu});
  if (rows * channels_ * outputs_ < kGrainOfRows) {
    call.compute_here(pixels, addend, output);
  } else {
    call.compute(pixels, addend, output);
  }
}

}  // namespace muster::kernels
