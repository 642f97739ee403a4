#pragma once

#include <cstdint>

#include "muster/nn/kernels/channel_loops_internal.h"

namespace muster::kernels {

/// Weights of one side of a kernel of 3x3.
constexpr std::int64_t kTaps = 3;

/// Planes of an image that a 3x3 kernel goes over: channel c begins at c * floats, its row y at
/// y * columns after that.
struct PlaneShape {
  std::int64_t channels = 0;
  std::int64_t floats = 0;
  std::int64_t columns = 0;
};

/// Extent of taps(): the rows of some images, whose gradients and planes lie as far apart as
/// the steps say.
struct TapShape {
  std::int64_t images = 1;
  std::int64_t gradient_step = 0;
  std::int64_t plane_step = 0;
  std::int64_t height = 0;
  /// A multiple of kTapLanes.
  std::int64_t width = 0;
  std::int64_t plane_columns = 0;
};
constexpr std::int64_t kTapLanes = 4;

/// Tile that pixels() computes: some outputs of up to Tiles::pixel_rows pixels of an image whose
/// channels lie side by side.
struct PixelTile {
  /// The first weight of pixel i meets base[offsets[i]]; there are pixel_rows offsets, also
  /// where fewer pixels count, and all that they lead to is read.
  const float* base = nullptr;
  const std::int64_t* offsets = nullptr;
  std::int64_t count = 0;
  /// Rows of a kernel, so far apart in the image, with this many weights side by side.
  std::int64_t rows = 1;
  std::int64_t row_step = 0;
  std::int64_t run = 0;
  /// [row][weight of the run][output of the panel].
  const float* weights = nullptr;
  /// The outputs of pixel i are at out + i * out_stride, whole vectors of them.
  float* out = nullptr;
  std::int64_t out_stride = 0;
  /// Whether sums begin here, or are added to those in `out`.
  bool first = true;
  /// Whether they end here: then bias, addend (where there is one, as far apart as `out`) and ReLU
  /// follow.
  bool last = true;
  const float* bias = nullptr;
  const float* addend = nullptr;
  bool relu = false;
};

/// Weights that row() multiplies one pixel by: panels of pixel_vectors vectors of outputs, and one
/// of a single vector, or null. Each has the weights of its outputs side by side, channel by
/// channel.
struct RowPanels {
  const float* wide = nullptr;
  std::int64_t wide_count = 0;
  const float* narrow = nullptr;
};
constexpr std::int64_t kRowPanels = 4;

/// The inner loops that products and convolutions are made of, compiled for one kind of
/// processor. The order in which the terms of an element are added is fixed by their number
/// alone, so that neither the place of a tile nor threads show in the bits.
struct Tiles {
  const char* name;
  /// A tile of outer() has this many rows and columns.
  std::int64_t rows;
  std::int64_t columns;
  /// dot() takes this many rows and columns, and sums in this many lanes.
  std::int64_t dot_rows;
  std::int64_t dot_columns;
  std::int64_t lanes;

  /// c[i][j] = (add ? c[i][j] : 0) + sum over k of a[k * rows + i] * b[b_offsets[k] + j]. Rows of c
  /// are `c_stride` floats apart. Nothing needs to be aligned.
  void (*outer)(std::int64_t depth, const float* a, const float* b, const std::int64_t* b_offsets,
                float* c, std::int64_t c_stride, bool add);
  /// The same with packed b: row k begins at b + k * columns.
  void (*outer_packed)(std::int64_t depth, const float* a, const float* b, float* c,
                       std::int64_t c_stride, bool add);
  /// sums[(i * dot_columns + j) * lanes + l] += sum over q = l, l + lanes, ... below `length` of
  /// a[i][q] * b[j][q]. Reads whole vectors: up to 15 floats past `length`, which must be there,
  /// and be 0 in a and finite in b.
  void (*dot)(std::int64_t length, const float* const* a, const float* const* b, float* sums);

  /// outer() with the weights of 3x3 kernels in a, [channel][kernel row][kernel column][row], and
  /// without looking up where each of them begins, which costs a fifth of the time.
  void (*outer_3x3)(const PlaneShape& shape, const float* a, const float* b, float* c,
                    std::int64_t c_stride);
  /// taps() takes the gradients of this many outputs.
  std::int64_t tap_rows;
  /// sums[i * kTaps + j] = sum over images and their pixels p of gradient i at p times the plane at
  /// p's place + j. Gradients lie vector by vector side by side: [image][pixel / kTapLanes][i]
  /// [kTapLanes].
  void (*taps)(const TapShape& shape, const float* gradients, const float* plane, float* sums);

  /// pixels() takes this many pixels, for panels of pixel_vectors times `lanes` outputs;
  /// narrow_pixels() as many pixels, for panels of `lanes` outputs.
  std::int64_t pixel_rows;
  std::int64_t pixel_vectors;
  void (*pixels)(const PixelTile& tile);
  void (*narrow_pixels)(const PixelTile& tile);

  /// The sums that pixels() has for one pixel of `depth` channels, before the bias, of up to
  /// kRowPanels panels one after the other and the narrow one after them: one pixel would fill an
  /// eighth of a tile.
  void (*row)(std::int64_t depth, const float* pixel, const RowPanels& panels, float* sums);

  ChannelLoops channel_loops;
};

/// The best for the processor this runs on. MUSTER_CPU_TILES=NAME asks for another, for tests.
const Tiles& tiles();

// Each is there where the compiler can make it.
extern const Tiles kBaselineTiles;
extern const Tiles kAvx2Tiles;
extern const Tiles kAvx512Tiles;

}  // namespace muster::kernels
