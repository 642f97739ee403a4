#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace muster::internal {

/// Work for a stream, by which two processes share memory of one GPU. A word and memory may be
/// another process's. Where `*stop`, in memory of the host, is not 0, none of it writes anything.
/// All return CUDA's error of the launch.

/// Waits until the word has this value, or `*stop` is not 0.
cudaError_t launch_wait(const unsigned* word, unsigned value, const unsigned* stop,
                        cudaStream_t stream);
/// Copies, for all who wait for a word that is set later.
cudaError_t launch_copy(void* to, const void* from, std::size_t bytes, const unsigned* stop,
                        cudaStream_t stream);
/// Sets the first word, then the second: who sees the second has the first, and all copies before.
cudaError_t launch_set(unsigned* first, unsigned first_value, unsigned* second,
                       unsigned second_value, const unsigned* stop, cudaStream_t stream);

}  // namespace muster::internal
