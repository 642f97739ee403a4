#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/nn/model/module_variables.h"

namespace muster {

/// Libraries and kernels that decide the numbers of this process. Which BLAS is loaded is the
/// system's choice at run time.
struct Arithmetic {
  std::string libtorch{};
  std::string cpu_capability{};
  /// "OpenBLAS 0.3.21", or the file that matrix products come from.
  std::string blas{};
  /// The kind of processor that OpenBLAS chose its kernels for; empty for another BLAS.
  std::string blas_core{};
  /// The reference implementation, many times slower than OpenBLAS.
  bool reference_blas = false;
  /// Whether muster's CPU kernels stand in for libtorch's (nn/kernels/libtorch_kernels.h).
  bool own_kernels = false;
  /// Loops of muster's residual units where these alone stand in for libtorch's layers, or nothing.
  std::string residual_units{};

  /// One line, for comparing two processes: equal lines give equal bits.
  std::string fingerprint() const;
};

/// Arithmetic of a run with this value of RunConfig::reproducibility.own_cpu_kernels.
Arithmetic numerics_fingerprint(bool own_cpu_kernels);

/// How many threads a process takes where it is not told: one a processor that it may use, or the
/// least that OMP_NUM_THREADS, MKL_NUM_THREADS and OPENBLAS_NUM_THREADS name.
int default_cpu_threads();

/// How many of `most` threads the steps of a model with these variables are worth, by how often an
/// example multiplies with each: small layers are computed before a second thread has begun. It
/// does not depend on the batch, so a run and its resumes decide alike.
int threads_for_model(std::span<const ModuleVariable> variables, int most);

/// How many threads an update of this many elements is worth: those that wait for each other in
/// every small operation take longer than one that does all.
int update_threads(std::int64_t elements);

/// Sets how many threads the kernels called from this thread use: ATen's own and OpenBLAS's, which
/// at::set_num_threads does not reach. Many kernels change bits with this number, so it is part of
/// the arithmetic. OpenBLAS has one number for the process.
void set_cpu_threads(int threads);

/// The same for this thread alone: set_cpu_threads() also sets it for threads that begin later. It
/// costs so little that every batch of a server may have its own number.
void use_cpu_threads(int threads);

}  // namespace muster
