#include <cuda_runtime_api.h>

#include "muster/nn/model/cuda_dropout_internal.h"

namespace muster::internal {
namespace {

constexpr int kThreads = 256;
/// A Philox block has 128 bits, which decide over 8 values.
constexpr int kValuesInBlock = 8;

struct Words {
  std::uint32_t w[4];
};

// As base/random.cpp has it; a test holds the two together.
__device__ Words philox_words(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  Words c{{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
           static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c.w[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c.w[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

__device__ std::uint64_t key_of(const DropoutDraw& draw) {
  const std::uint64_t scope = draw.scope_on_device == nullptr ? draw.scope : *draw.scope_on_device;
  const Words words = philox_words(scope, draw.layer, draw.number);
  return words.w[0] | (static_cast<std::uint64_t>(words.w[1]) << 32);
}

__global__ void __launch_bounds__(kThreads)
    mask_kernel(DropoutDraw draw, std::uint32_t dropped, std::int64_t count, std::uint8_t* mask) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = block * kValuesInBlock;
  if (first >= count) return;
  const Words words = philox_words(key_of(draw), static_cast<std::uint64_t>(block), 0);
  for (int i = 0; i < kValuesInBlock && first + i < count; ++i) {
    const std::uint32_t bits = (words.w[i / 2] >> (16 * (i % 2))) & 0xFFFF;
    mask[first + i] = bits < dropped ? 0 : 1;
  }
}

}  // namespace

bool cuda_dropout_mask(const DropoutDraw& draw, std::uint32_t dropped_of_65536, std::int64_t count,
                       std::uint8_t* mask, void* stream) {
  if (count == 0) return true;
  const std::int64_t blocks = (count + kValuesInBlock - 1) / kValuesInBlock;
  const auto grid = static_cast<unsigned>((blocks + kThreads - 1) / kThreads);
  mask_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(draw, dropped_of_65536,
                                                                        count, mask);
  return cudaPeekAtLastError() == cudaSuccess;
}

}  // namespace muster::internal
