#pragma once

namespace muster::kernels {

/// Whether this build has kernels to put in the place of libtorch's own.
bool has_libtorch_kernels();

/// Puts our convolution, batch normalisation and 2x2 max-pooling for float32 on the CPU in the
/// place of libtorch's, for the whole process and any model, or gives libtorch its own back. They
/// exist where a measurement shows them to be faster (docs/performance.md): on arm64, where oneDNN
/// is switched off with it. They give the same bits for any number of threads. Whatever they do not
/// take goes to libtorch's as before. Safe to call from any thread, but not while a model runs.
void use_libtorch_kernels(bool ours);

/// What use_libtorch_kernels() chose last.
bool uses_libtorch_kernels();

}  // namespace muster::kernels
