#pragma once

// Included once by each of the files tiles_*.cpp, which are compiled for different processors:
// nothing in here may have external linkage, or the linker could take the wrong one.
#include <cstdint>

#include "muster/kernels/tiles_internal.h"

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

  template <typename RowOf>
  static __attribute__((always_inline)) void outer_loop(std::int64_t depth, const float* a,
                                                        RowOf row_of, float* c,
                                                        std::int64_t c_stride, bool add) {
    Vector sums[kRows][kVectors] = {};
    for (std::int64_t k = 0; k < depth; ++k, a += kRows) {
      const float* const b = row_of(k);
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
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        float* const place = c + i * c_stride + j * kLanes;
        store(place, add ? load(place) + sums[i][j] : sums[i][j]);
      }
    }
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

  static void dot(const DotPieces& pieces, const float* const* a, const float* const* b,
                  float* totals) {
    Vector sums[kDotRows][kDotColumns];
#pragma GCC unroll 16
    for (int i = 0; i < kDotRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kDotColumns; ++j)
        sums[i][j] = load(totals + (i * kDotColumns + j) * kLanes);
    }
    for (std::int64_t piece = 0; piece < pieces.count; ++piece) {
      const std::int64_t a_begin = piece * pieces.a_step;
      const std::int64_t b_begin = piece * pieces.b_step;
      for (std::int64_t q = 0; q < pieces.length; q += kLanes) {
        Vector columns[kDotColumns];
#pragma GCC unroll 8
        for (int j = 0; j < kDotColumns; ++j) columns[j] = load(b[j] + b_begin + q);
#pragma GCC unroll 16
        for (int i = 0; i < kDotRows; ++i) {
          const Vector row = load(a[i] + a_begin + q);
#pragma GCC unroll 8
          for (int j = 0; j < kDotColumns; ++j) sums[i][j] += row * columns[j];
        }
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

  static constexpr Tiles table(const char* name) {
    return {name, kRows, kColumns, kDotRows, kDotColumns, kLanes, outer, outer_packed, dot};
  }
};

}  // namespace
}  // namespace muster::kernels
