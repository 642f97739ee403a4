#pragma once

#include <cstdint>

namespace muster::kernels {

/// Pixels of an image, row by row, with their channels side by side. There are whole vectors of
/// channels in them.
struct PixelRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

/// y = (x - mean) * scale + shift, for every channel.
struct ChannelLines {
  const float* mean = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
};

/// dx = scale * (dy - offset - slope * (x - mean)), for every channel.
struct ChannelGradientLines {
  const float* scale = nullptr;
  const float* offset = nullptr;
  const float* slope = nullptr;
  const float* mean = nullptr;
};

/// Sum of a tile of a weight's gradient over some pixels. A pixel of `gradients` has the outputs of
/// the tile side by side, one of `images` what the weights of a kernel's row see.
struct WeightTile {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  const float* gradients = nullptr;
  std::int64_t gradient_row_step = 0;
  std::int64_t gradient_step = 0;
  const float* images = nullptr;
  std::int64_t image_row_step = 0;
  std::int64_t image_step = 0;
  /// Rows of the result are so far apart.
  float* to = nullptr;
  std::int64_t to_stride = 0;
};

/// Squares of 2x2 results of a 3x3 convolution, and of the 4x4 pixels that they see. They are
/// numbered row by row; these are `count` from number `first` on.
struct Squares {
  std::int64_t in_row = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  /// Squares that lie between those of a product and those of the next.
  std::int64_t pitch = 0;
};
/// Products that give a square, for each pair of a channel and an output.
constexpr std::int64_t kSquareProducts = 16;

/// Loops between the convolutions of a residual unit, for images whose channels lie side by
/// side, compiled for one kind of processor. Images lie without gaps where no step is named;
/// `frame` is one with rows `frame_step` floats apart. Sums are [channel], and their order depends
/// on the number of pixels alone.
struct ChannelLoops {
  /// to = line(from) + addend, then ReLU if asked for. `addend` may be null.
  void (*normalise)(const PixelRows& pixels, const float* from, const ChannelLines& lines,
                    const float* addend, bool relu, float* to, std::int64_t to_step);
  /// Sums of the values, and of the squares of their distances from their own mean.
  void (*moments)(const PixelRows& pixels, const float* from, double* sums, double* squares);
  /// Sums of g and of g * (x - mean), where g is dy as far as y is active.
  void (*gradient_sums)(const PixelRows& pixels, const float* dy, const float* y, const float* x,
                        const float* mean, double* sums, double* products);
  /// frame = line(dy as far as y is active, x). All of dy counts where y is null.
  void (*through_norm)(const PixelRows& pixels, const float* dy, const float* y, const float* x,
                       const ChannelGradientLines& lines, float* frame, std::int64_t frame_step);
  /// to = dy as far as the frame is active, with the sums of gradient_sums().
  void (*mask)(const PixelRows& pixels, const float* dy, const float* frame,
               std::int64_t frame_step, const float* x, const float* mean, float* to, double* sums,
               double* products);
  /// to = from + (dy as far as y is active).
  void (*add_masked)(std::int64_t floats, const float* from, const float* dy, const float* y,
                     float* to);
  /// Winograd's F(2x2, 3x3): factors of the products from a frame with these channels, [product]
  /// [square][channel].
  void (*factors)(const Squares& squares, std::int64_t channels, const float* frame,
                  std::int64_t frame_step, float* to);
  /// The same from the gradients of the results, for the gradient of the weights: `frame` begins at
  /// its image.
  void (*gradient_factors)(const Squares& squares, std::int64_t outputs, const float* frame,
                           std::int64_t frame_step, float* to);
  /// The results from sums of products, [product][square][output], into an image with rows
  /// `to_step` floats apart.
  void (*results)(const Squares& squares, std::int64_t outputs, const float* products, float* to,
                  std::int64_t to_step);
  /// Adds to a tile of Tiles::rows outputs and Tiles::columns weights.
  void (*weight_tile)(const WeightTile& tile);
  /// Adds to a tile of Tiles::rows outputs and two vectors of weights, or one.
  void (*weight_panel)(const WeightTile& tile);
  void (*narrow_weight_panel)(const WeightTile& tile);
};

}  // namespace muster::kernels
