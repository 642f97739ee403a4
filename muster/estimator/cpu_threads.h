#pragma once

#include <string>

namespace muster {

/// Sets how many threads the kernels called from this thread use: ATen's own and OpenBLAS's, which
/// at::set_num_threads does not reach. Many kernels change bits with this number, so it is part of
/// the arithmetic. OpenBLAS has one number for the process.
void set_cpu_threads(int threads);

/// What the arithmetic stands on, for comparing two processes: libtorch's version, CPU capability,
/// BLAS core.
std::string arithmetic_fingerprint();

}  // namespace muster
