#pragma once

#include <string_view>

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

 private:
  /// Whether ours were in use on this thread before, where scopes do not ask other threads.
  [[maybe_unused]] bool before_ = false;
};

/// Whether ours are in use: false outside of scopes.
bool uses_libtorch_kernels();

/// Order in memory of the images for which residual units (residual_unit.h) are faster than
/// libtorch's layers on this processor, as was measured (docs/performance.md).
enum class UnitOrder { kNone, kContiguous, kChannelsLast };

/// The order in the scope of this thread; kNone outside of scopes, and where libtorch's kernels are
/// wanted.
UnitOrder residual_unit_order();

/// The loops that a scope with our kernels trains residual units by, where all other layers stay
/// libtorch's: "avx2". Empty where there are none, and where all of our kernels are used.
std::string_view residual_unit_loops();

}  // namespace muster::kernels
