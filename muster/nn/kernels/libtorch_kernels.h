#pragma once

namespace muster::kernels {

/// Whether this build has kernels to put instead of libtorch's own.
bool has_libtorch_kernels();

/// While one lives, any model computes with our convolution, batch normalisation and 2x2
/// max-pooling for float32 on the CPU (`ours`), or with libtorch's. Ours exist where a measurement
/// shows them to be faster (docs/performance.md): on arm64, where oneDNN is off meanwhile. They
/// give the same bits for any number of threads. Whatever they do not take goes to libtorch's as
/// before.
///
/// libtorch has one choice for the whole process, so scopes that choose alike live side by side,
/// and one that chooses otherwise waits until they are gone: what a run computes does not depend on
/// other runs of the process. A scope is opened for a forward and a backward pass, not for
/// longer. Throws FailedPrecondition inside a scope of the same thread that chose otherwise.
class KernelScope {
 public:
  explicit KernelScope(bool ours);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;
};

/// Whether ours are in use: false outside of scopes.
bool uses_libtorch_kernels();

}  // namespace muster::kernels
