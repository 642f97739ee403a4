#include <algorithm>
#include <cstdint>

#include "muster/distribution/collective/mailbox_kernels_internal.h"

namespace muster::internal {
namespace {

__device__ unsigned load(const unsigned* word) {
  unsigned value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ void store(unsigned* word, unsigned value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

// The host's word is far away, and rarely looked at.
__global__ void wait_kernel(const unsigned* word, unsigned value, const unsigned* stop) {
  constexpr unsigned kBetweenLooks = 64;
  for (unsigned i = 1; load(word) != value; ++i) {
    if (i % kBetweenLooks == 0 && load(stop) != 0) return;
    __nanosleep(40);
  }
}

template <typename Word>
__global__ void copy_kernel(Word* to, const Word* from, std::size_t count, const unsigned* stop) {
  __shared__ bool is_stopped;
  if (threadIdx.x == 0) is_stopped = load(stop) != 0;
  __syncthreads();
  if (is_stopped) return;
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    to[i] = from[i];
  }
}

__global__ void set_kernel(unsigned* first, unsigned first_value, unsigned* second,
                           unsigned second_value, const unsigned* stop) {
  if (load(stop) != 0) return;
  __threadfence_system();
  store(first, first_value);
  __threadfence_system();
  store(second, second_value);
}

template <typename Word>
cudaError_t copy_words(void* to, const void* from, std::size_t bytes, const unsigned* stop,
                       cudaStream_t stream) {
  constexpr std::size_t kThreads = 256;
  // More blocks than a device runs at once only wait for each other.
  constexpr std::size_t kMostBlocks = 528;
  const std::size_t count = bytes / sizeof(Word);
  const auto blocks = std::min((count + kThreads - 1) / kThreads, kMostBlocks);
  copy_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<Word*>(to), static_cast<const Word*>(from), count, stop);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_wait(const unsigned* word, unsigned value, const unsigned* stop,
                        cudaStream_t stream) {
  wait_kernel<<<1, 1, 0, stream>>>(word, value, stop);
  return cudaGetLastError();
}

cudaError_t launch_copy(void* to, const void* from, std::size_t bytes, const unsigned* stop,
                        cudaStream_t stream) {
  const auto places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if ((places | bytes) % sizeof(uint4) == 0) {
    return copy_words<uint4>(to, from, bytes, stop, stream);
  }
  if ((places | bytes) % sizeof(unsigned) == 0) {
    return copy_words<unsigned>(to, from, bytes, stop, stream);
  }
  return copy_words<unsigned char>(to, from, bytes, stop, stream);
}

cudaError_t launch_set(unsigned* first, unsigned first_value, unsigned* second,
                       unsigned second_value, const unsigned* stop, cudaStream_t stream) {
  set_kernel<<<1, 1, 0, stream>>>(first, first_value, second, second_value, stop);
  return cudaGetLastError();
}

}  // namespace muster::internal
