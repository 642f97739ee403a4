#pragma once

// Included once by each of the files tiles_*.cpp, which are compiled for different processors:
// nothing in here may have external linkage, or the linker could take the wrong one.
#include <cstdint>

#include "muster/nn/kernels/channel_loops_template_internal.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

/// `kBytes` is the size of a vector register; a tile has kRows rows of kVectors vectors.
template <int kBytes, int kRows, int kVectors, int kDotRows, int kDotColumns>
struct TileLoops {
  static constexpr int kLanes = kBytes / 4;
  static constexpr int kColumns = kLanes * kVectors;
  /// NEON multiplies by one lane of a register, others by a number that is loaded into all lanes.
#if defined(__aarch64__)
  static constexpr bool kMultipliesByLane = kRows % kLanes == 0;
#else
  static constexpr bool kMultipliesByLane = false;
#endif
  typedef float Vector __attribute__((vector_size(kBytes), aligned(4), may_alias));

  static Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
  static void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

  typedef Vector Sums[kRows][kVectors];

  static __attribute__((always_inline)) void add_products(const float* a, const float* b,
                                                          Sums& sums) {
    Vector columns[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) columns[j] = load(b + j * kLanes);
    if constexpr (kMultipliesByLane) {
      Vector rows[kRows / kLanes];
#pragma GCC unroll 8
      for (int i = 0; i < kRows / kLanes; ++i) rows[i] = load(a + i * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) {
          sums[i][j] += rows[i / kLanes][i % kLanes] * columns[j];
        }
      }
    } else {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int j = 0; j < kVectors; ++j) sums[i][j] += a[i] * columns[j];
      }
    }
  }

  static __attribute__((always_inline)) void write(const Sums& sums, float* c,
                                                   std::int64_t c_stride, bool add) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        float* const place = c + i * c_stride + j * kLanes;
        store(place, add ? load(place) + sums[i][j] : sums[i][j]);
      }
    }
  }

  template <typename RowOf>
  static __attribute__((always_inline)) void outer_loop(std::int64_t depth, const float* a,
                                                        RowOf row_of, float* c,
                                                        std::int64_t c_stride, bool add) {
    Sums sums = {};
    for (std::int64_t k = 0; k < depth; ++k, a += kRows) add_products(a, row_of(k), sums);
    write(sums, c, c_stride, add);
  }

  static void outer(std::int64_t depth, const float* a, const float* b,
                    const std::int64_t* b_offsets, float* c, std::int64_t c_stride, bool add) {
    outer_loop(
        depth, a, [b, b_offsets](std::int64_t k) { return b + b_offsets[k]; }, c, c_stride, add);
  }

  static void outer_packed(std::int64_t depth, const float* a, const float* b, float* c,
                           std::int64_t c_stride, bool add) {
    outer_loop(
        depth, a, [b](std::int64_t k) { return b + k * kColumns; }, c, c_stride, add);
  }

  static void dot(std::int64_t length, const float* const* a, const float* const* b,
                  float* totals) {
    Vector sums[kDotRows][kDotColumns];
#pragma GCC unroll 16
    for (int i = 0; i < kDotRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kDotColumns; ++j)
        sums[i][j] = load(totals + (i * kDotColumns + j) * kLanes);
    }
    for (std::int64_t q = 0; q < length; q += kLanes) {
      Vector columns[kDotColumns];
#pragma GCC unroll 8
      for (int j = 0; j < kDotColumns; ++j) columns[j] = load(b[j] + q);
#pragma GCC unroll 16
      for (int i = 0; i < kDotRows; ++i) {
        const Vector row = load(a[i] + q);
#pragma GCC unroll 8
        for (int j = 0; j < kDotColumns; ++j) sums[i][j] += row * columns[j];
      }
    }
    // Unrolled too: a loop would want the sums in memory, and the loop above with them.
#pragma GCC unroll 16
    for (int i = 0; i < kDotRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kDotColumns; ++j)
        store(totals + (i * kDotColumns + j) * kLanes, sums[i][j]);
    }
  }

  static void outer_3x3(const PlaneShape& shape, const float* a, const float* b, float* c,
                        std::int64_t c_stride) {
    Sums sums = {};
    for (std::int64_t channel = 0; channel < shape.channels; ++channel, b += shape.floats) {
      const float* row = b;
      for (int y = 0; y < kTaps; ++y, row += shape.columns) {
#pragma GCC unroll 3
        for (int x = 0; x < kTaps; ++x, a += kRows) add_products(a, row + x, sums);
      }
    }
    write(sums, c, c_stride, /*add=*/false);
  }

  static constexpr int kTapRows = kRows % 8 == 0 ? 8 : 4;
  typedef float TapVector
      __attribute__((vector_size(sizeof(float) * kTapLanes), aligned(4), may_alias));

  static TapVector load_tap(const float* from) { return *reinterpret_cast<const TapVector*>(from); }

  static void store_tap(float* to, TapVector value) { *reinterpret_cast<TapVector*>(to) = value; }

  // {a0 + a1, a2 + a3, b0 + b1, b2 + b3}
  static TapVector add_pairs(TapVector a, TapVector b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
  }

  typedef TapVector TapSums[kTapRows][kTaps];

  static __attribute__((always_inline)) void add_taps(const float* gradient, const float* plane,
                                                      TapSums& sums) {
    TapVector columns[kTaps];
#pragma GCC unroll 3
    for (int j = 0; j < kTaps; ++j) columns[j] = load_tap(plane + j);
#pragma GCC unroll 8
    for (int i = 0; i < kTapRows; ++i) {
      const TapVector of_output = load_tap(gradient + i * kTapLanes);
#pragma GCC unroll 3
      for (int j = 0; j < kTaps; ++j) sums[i][j] += of_output * columns[j];
    }
  }

  static void taps(const TapShape& shape, const float* gradients, const float* plane,
                   float* totals) {
    constexpr int kStep = kTapRows * kTapLanes;
    TapSums sums = {};
    for (std::int64_t n = 0; n < shape.images; ++n) {
      const float* gradient = gradients + n * shape.gradient_step;
      const float* row = plane + n * shape.plane_step;
      for (std::int64_t y = 0; y < shape.height; ++y, row += shape.plane_columns) {
        std::int64_t x = 0;
        // Two at a time: rows are short, and the ends of loops count.
        for (; x + 2 * kTapLanes <= shape.width; x += 2 * kTapLanes, gradient += 2 * kStep) {
          add_taps(gradient, row + x, sums);
          add_taps(gradient + kStep, row + x + kTapLanes, sums);
        }
        for (; x < shape.width; x += kTapLanes, gradient += kStep) {
          add_taps(gradient, row + x, sums);
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTapRows * kTaps; i += 4) {
      const auto sum = [&sums](int k) { return sums[k / kTaps][k % kTaps]; };
      store_tap(totals + i,
                add_pairs(add_pairs(sum(i), sum(i + 1)), add_pairs(sum(i + 2), sum(i + 3))));
    }
  }

  // As many sums as registers hold beside weights and a pixel.
#if defined(__aarch64__)
  static constexpr int kPixelRows = 6;
  static constexpr int kPixelVectors = 4;
#else
  static constexpr int kPixelRows = kBytes == 64 ? 8 : 6;
  static constexpr int kPixelVectors = 2;
#endif

  template <int kWide>
  static void pixels(const PixelTile& tile) {
    const float* from[kPixelRows];
#pragma GCC unroll 8
    for (int i = 0; i < kPixelRows; ++i) from[i] = tile.base + tile.offsets[i];
    Vector sums[kPixelRows][kWide] = {};
    if (!tile.first) {
      // Sums continue as if there had been no end: the bits do not depend on where slices end.
#pragma GCC unroll 8
      for (int i = 0; i < kPixelRows; ++i) {
        if (i >= tile.count) break;
#pragma GCC unroll 4
        for (int j = 0; j < kWide; ++j) {
          sums[i][j] = load(tile.out + i * tile.out_stride + j * kLanes);
        }
      }
    }
    const float* weights = tile.weights;
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const std::int64_t begin = row * tile.row_step;
      for (std::int64_t k = begin; k < begin + tile.run; ++k, weights += kWide * kLanes) {
        Vector columns[kWide];
#pragma GCC unroll 4
        for (int j = 0; j < kWide; ++j) columns[j] = load(weights + j * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kPixelRows; ++i) {
#pragma GCC unroll 4
          for (int j = 0; j < kWide; ++j) sums[i][j] += from[i][k] * columns[j];
        }
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPixelRows; ++i) {
      if (i >= tile.count) break;
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) {
        float* const place = tile.out + i * tile.out_stride + j * kLanes;
        Vector sum = sums[i][j];
        if (tile.last) {
          sum += load(tile.bias + j * kLanes);
          if (tile.addend != nullptr) sum += load(tile.addend + i * tile.out_stride + j * kLanes);
          // NaN stays, as in libtorch's relu.
          if (tile.relu) sum = sum <= 0.0F ? Vector{} : sum;
        }
        store(place, sum);
      }
    }
  }

  template <int kWide, bool kNarrow>
  static void row_of(std::int64_t depth, const float* pixel, const RowPanels& panels, float* sums) {
    constexpr int kWidth = kPixelVectors * kLanes;
    const float* from[kWide + 1];
#pragma GCC unroll 8
    for (int p = 0; p < kWide; ++p) from[p] = panels.wide + p * depth * kWidth;
    Vector wide[kWide + 1][kPixelVectors] = {};
    Vector narrow = {};
    for (std::int64_t k = 0; k < depth; ++k) {
      const float value = pixel[k];
#pragma GCC unroll 8
      for (int p = 0; p < kWide; ++p) {
#pragma GCC unroll 4
        for (int j = 0; j < kPixelVectors; ++j) {
          wide[p][j] += value * load(from[p] + k * kWidth + j * kLanes);
        }
      }
      if constexpr (kNarrow) narrow += value * load(panels.narrow + k * kLanes);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kWide; ++p) {
#pragma GCC unroll 4
      for (int j = 0; j < kPixelVectors; ++j) store(sums + p * kWidth + j * kLanes, wide[p][j]);
    }
    if constexpr (kNarrow) store(sums + kWide * kWidth, narrow);
  }

  static void row(std::int64_t depth, const float* pixel, const RowPanels& panels, float* sums) {
    using Row = void (*)(std::int64_t, const float*, const RowPanels&, float*);
    constexpr Row kRowKinds[2][kRowPanels + 1] = {
        {row_of<0, false>, row_of<1, false>, row_of<2, false>, row_of<3, false>, row_of<4, false>},
        {row_of<0, true>, row_of<1, true>, row_of<2, true>, row_of<3, true>, row_of<4, true>}};
    kRowKinds[panels.narrow == nullptr ? 0 : 1][panels.wide_count](depth, pixel, panels, sums);
  }

  static constexpr Tiles table(const char* name) {
    return {.name = name,
            .rows = kRows,
            .columns = kColumns,
            .dot_rows = kDotRows,
            .dot_columns = kDotColumns,
            .lanes = kLanes,
            .outer = outer,
            .outer_packed = outer_packed,
            .dot = dot,
            .outer_3x3 = outer_3x3,
            .tap_rows = kTapRows,
            .taps = taps,
            .pixel_rows = kPixelRows,
            .pixel_vectors = kPixelVectors,
            .pixels = pixels<kPixelVectors>,
            .narrow_pixels = pixels<1>,
            .row = row,
            .channel_loops = ChannelLoopsOf<kBytes, kRows, kVectors>::table()};
  }
};

}  // namespace
}  // namespace muster::kernels
