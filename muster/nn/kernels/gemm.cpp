#include "muster/nn/kernels/gemm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "muster/base/error.h"
#include "muster/nn/kernels/scratch_internal.h"
#include "muster/nn/kernels/tiles_internal.h"

namespace muster::kernels {
namespace {

/// Terms that are added before a tile goes back to memory: panels of this many rows of b stay in
/// the first-level cache. Part of the arithmetic.
constexpr std::int64_t kDepth = 256;
/// Rows of a that are packed at a time, to stay in the second-level cache.
constexpr std::int64_t kRows = 192;
/// Products below this many multiply-adds do not pay for a second thread.
constexpr std::int64_t kWorkPerThread = 1 << 18;

// kWidth rows of the view, interleaved: to[k * kWidth + i] = view(i, k), 0 beyond `count`. They are
// rows of a or, transposed, columns of b.
template <std::int64_t kWidth>
void pack(MatrixView view, std::int64_t count, std::int64_t depth, float* to) {
  if (view.row_stride == 1 && count == kWidth) {
    for (std::int64_t k = 0; k < depth; ++k) {
      std::memcpy(to + k * kWidth, view.data + k * view.column_stride, kWidth * sizeof(float));
    }
    return;
  }
  for (std::int64_t i = 0; i < kWidth; ++i) {
    const float* const from = view.data + i * view.row_stride;
    if (i >= count) {
      for (std::int64_t k = 0; k < depth; ++k) to[k * kWidth + i] = 0;
    } else {
      for (std::int64_t k = 0; k < depth; ++k) to[k * kWidth + i] = from[k * view.column_stride];
    }
  }
}

void pack_panel(MatrixView view, std::int64_t count, std::int64_t depth, std::int64_t width,
                float* to) {
  switch (width) {
    case 4:
      return pack<4>(view, count, depth, to);
    case 8:
      return pack<8>(view, count, depth, to);
    case 12:
      return pack<12>(view, count, depth, to);
    case 24:
      return pack<24>(view, count, depth, to);
    case 48:
      return pack<48>(view, count, depth, to);
    default:
      throw Internal("no panel of width {}", width);
  }
}

MatrixView moved(MatrixView view, std::int64_t rows, std::int64_t columns) {
  return {view.data + rows * view.row_stride + columns * view.column_stride, view.row_stride,
          view.column_stride};
}

/// One thread's part: all of its rows and columns, block by block of depth.
class Part {
 public:
  Part(std::int64_t m, std::int64_t n, std::int64_t k) : m_(m), n_(n), k_(k), tile_(tiles()) {
    thread_local Scratch scratch;
    const std::int64_t depth = std::min(k, kDepth);
    const std::int64_t a_rows = at::divup(std::min(m, kRows), tile_.rows) * tile_.rows;
    a_ = scratch.floats(
        static_cast<std::size_t>(depth * (a_rows + tile_.columns) + tile_.rows * tile_.columns));
    b_ = a_ + depth * a_rows;
    edge_ = b_ + depth * tile_.columns;
  }

  void run(MatrixView a, MatrixView b, float* c, std::int64_t c_stride, Into into) const {
    for (std::int64_t k = 0; k < k_; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, k_ - k);
      const bool add = into == Into::kAdd || k > 0;
      for (std::int64_t i = 0; i < m_; i += kRows) {
        block(std::min(kRows, m_ - i), depth, moved(a, i, k), moved(b, k, 0), c + i * c_stride,
              c_stride, add);
      }
    }
  }

 private:
  void block(std::int64_t rows, std::int64_t depth, MatrixView a, MatrixView b, float* c,
             std::int64_t c_stride, bool add) const {
    for (std::int64_t i = 0; i < rows; i += tile_.rows) {
      pack_panel(moved(a, i, 0), std::min(tile_.rows, rows - i), depth, tile_.rows, a_ + i * depth);
    }
    for (std::int64_t j = 0; j < n_; j += tile_.columns) {
      const std::int64_t columns = std::min(tile_.columns, n_ - j);
      pack_panel(moved(b, 0, j).transposed(), columns, depth, tile_.columns, b_);
      for (std::int64_t i = 0; i < rows; i += tile_.rows) {
        tile(std::min(tile_.rows, rows - i), columns, depth, a_ + i * depth, c + i * c_stride + j,
             c_stride, add);
      }
    }
  }

  void tile(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a, float* c,
            std::int64_t c_stride, bool add) const {
    if (rows == tile_.rows && columns == tile_.columns) {
      tile_.outer_packed(depth, a, b_, c, c_stride, add);
      return;
    }
    tile_.outer_packed(depth, a, b_, edge_, tile_.columns, /*add=*/false);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        const float sum = edge_[i * tile_.columns + j];
        float& place = c[i * c_stride + j];
        place = add ? place + sum : sum;
      }
    }
  }

  std::int64_t m_, n_, k_;
  const Tiles& tile_;
  float* a_;
  float* b_;
  float* edge_;
};

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView a, MatrixView b, float* c,
          std::int64_t c_stride, Into into) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (std::int64_t i = 0; i < m && into == Into::kReplace; ++i) {
      std::fill_n(c + i * c_stride, n, 0.0F);
    }
    return;
  }
  const std::int64_t work = m * n * k;
  const std::int64_t threads =
      at::in_parallel_region()
          ? 1
          : std::clamp<std::int64_t>(work / kWorkPerThread, 1, at::get_num_threads());
  if (threads == 1) {
    Part(m, n, k).run(a, b, c, c_stride, into);
    return;
  }
  // Whole tiles of the longer side for each thread.
  const bool by_rows = m >= n;
  const std::int64_t unit = by_rows ? tiles().rows : tiles().columns;
  const std::int64_t units = at::divup(by_rows ? m : n, unit);
  at::parallel_for(0, units, at::divup(units, threads), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * unit;
    if (by_rows) {
      Part(std::min(end * unit, m) - first, n, k)
          .run(moved(a, first, 0), b, c + first * c_stride, c_stride, into);
    } else {
      Part(m, std::min(end * unit, n) - first, k)
          .run(a, moved(b, 0, first), c + first, c_stride, into);
    }
  });
}

}  // namespace muster::kernels
