#pragma once

#include <cstdint>

namespace muster::kernels {

/// What dot() goes over: `count` pieces of `length`, as far apart as the steps say.
struct DotPieces {
  std::int64_t length = 0;
  std::int64_t count = 1;
  std::int64_t a_step = 0;
  std::int64_t b_step = 0;
};

/// The two inner loops that products and convolutions are made of, compiled for one kind of
/// processor. The order in which the terms of an element are added is fixed by their number
/// alone, so that neither the place of a tile nor threads show in the bits.
struct Tiles {
  const char* name;
  /// A tile of outer() has this many rows and columns.
  std::int64_t rows;
  std::int64_t columns;
  /// dot() takes this many rows and columns, and sums in so many lanes.
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
  /// a[i][q] * b[j][q], and so again for every further piece. Reads whole vectors: up to 15 floats
  /// past `length`, which must be there, and be 0 in a and finite in b.
  void (*dot)(const DotPieces& pieces, const float* const* a, const float* const* b, float* sums);
};

/// The best for the processor this runs on. MUSTER_CPU_TILES=NAME asks for another, for tests.
const Tiles& tiles();

// Each is there where the compiler can make it.
extern const Tiles kBaselineTiles;
extern const Tiles kAvx2Tiles;
extern const Tiles kAvx512Tiles;

}  // namespace muster::kernels
