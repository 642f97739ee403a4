#pragma once

#include <cstdint>

namespace muster::kernels {

/// A matrix of float32 in memory, with any strides: a transposed one has them exchanged.
struct MatrixView {
  const float* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

/// Rows of `columns` floats, one after the other.
inline MatrixView row_major(const float* data, std::int64_t columns) { return {data, columns, 1}; }

enum class Into { kReplace, kAdd };

/// c = a * b, or c += a * b, for a [m, k], b [k, n] and c [m, n] with rows `c_stride` floats apart.
/// Uses ATen's threads. The bits are the same for any number of them, which those of a BLAS are
/// not.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView a, MatrixView b, float* c,
          std::int64_t c_stride, Into into);

}  // namespace muster::kernels
