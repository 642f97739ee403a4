#include <cuda_runtime_api.h>

#include <cstddef>
#include <variant>

#include "muster/nn/optim/cuda_update_internal.h"
#include "muster/nn/optim/update_rules_internal.h"

namespace muster::internal {
namespace {

constexpr int kThreads = 256;
constexpr int kPerThread = 4;
static_assert(kThreads * kPerThread == kCudaBlockElements);

// Every block comes to the same answer by itself: none waits for another, and the one that notes
// the step changes nothing that the others decide by.
__device__ bool is_held_back(const CudaUpdate& u) {
  if (u.losses == nullptr) return false;
  bool bad = false;
  for (int i = 0; i < u.loss_count; ++i) bad |= !isfinite(u.losses[i]);
  const bool was_bad = *u.bad_step != 0;
  if (bad && !was_bad && blockIdx.x == 0 && threadIdx.x == 0) *u.bad_step = *u.step + 1;
  return bad || was_bad;
}

__device__ double sum_of_warp(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, distance);
  }
  return value;
}

// In one fixed order.
__device__ void store_sum_of_block(double value, double* sums) {
  __shared__ double warps[kThreads / 32];
  value = sum_of_warp(value);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (double warp : warps) sum += warp;
    sums[blockIdx.x] = sum;
  }
}

__device__ double squares_of(const float (&values)[kPerThread]) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

__device__ void load(const float* from, float (&to)[kPerThread]) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
}

__device__ void store(const float (&from)[kPerThread], float* to) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
}

__device__ std::int64_t first_element() {
  return (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kPerThread;
}

__device__ bool is_decayed(const CudaUpdate& u, std::int64_t element) {
  return u.decayed != nullptr && u.decayed[element / kCudaGroupElements] != 0;
}

template <typename Rule>
__device__ void step_of(const Rule& rule, float& w, float g, float* slots) {
  if constexpr (Rule::kSlots == 0) step(rule, w, g);
  if constexpr (Rule::kSlots == 1) step(rule, w, g, slots[0]);
  if constexpr (Rule::kSlots == 2) step(rule, w, g, slots[0], slots[1]);
  if constexpr (Rule::kSlots == 3) step(rule, w, g, slots[0], slots[1], slots[2]);
}

template <typename Rule>
__global__ void __launch_bounds__(kThreads) update_kernel(const CudaUpdate u) {
  constexpr int kSlots = static_cast<int>(Rule::kSlots);
  const std::int64_t first = first_element();
  const bool inside = first < u.count;
  const bool held_back = is_held_back(u);
  float w[kPerThread] = {};
  double squares = 0;
  if (inside) {
    load(u.values + first, w);
    const bool decayed = is_decayed(u, first);
    if (decayed) squares = squares_of(w);
    if (!held_back) {
      const Rule rule = *static_cast<const Rule*>(u.constants);
      float g[kPerThread];
      float slots[kPerThread][kSlots == 0 ? 1 : kSlots];
      load(u.gradients + first, g);
      for (int s = 0; s < kSlots; ++s) {
        float slot[kPerThread];
        load(u.slots[s] + first, slot);
        for (int i = 0; i < kPerThread; ++i) slots[i][s] = slot[i];
      }
      for (int i = 0; i < kPerThread; ++i) {
        if (decayed) g[i] += u.decay * w[i];
        step_of(rule, w[i], g[i], slots[i]);
      }
      store(w, u.values + first);
      for (int s = 0; s < kSlots; ++s) {
        float slot[kPerThread];
        for (int i = 0; i < kPerThread; ++i) slot[i] = slots[i][s];
        store(slot, u.slots[s] + first);
      }
    }
  }
  if (u.squares != nullptr) store_sum_of_block(squares, u.squares);
}

__global__ void __launch_bounds__(kThreads) decay_kernel(const CudaUpdate u, float* gradients) {
  const std::int64_t first = first_element();
  double squares = 0;
  if (first < u.count && is_decayed(u, first)) {
    float w[kPerThread];
    float g[kPerThread];
    load(u.values + first, w);
    load(gradients + first, g);
    squares = squares_of(w);
    for (int i = 0; i < kPerThread; ++i) g[i] += u.decay * w[i];
    store(g, gradients + first);
  }
  if (u.squares != nullptr) store_sum_of_block(squares, u.squares);
}

unsigned blocks_of(const CudaUpdate& update) {
  return static_cast<unsigned>((update.count + kCudaBlockElements - 1) / kCudaBlockElements);
}

using Kernel = void (*)(const CudaUpdate);

// In the order of UpdateRule's alternatives.
template <typename Rules>
struct KernelsOf;
template <typename... Rules>
struct KernelsOf<std::variant<Rules...>> {
  static constexpr Kernel kKernels[] = {update_kernel<Rules>...};
};

}  // namespace

bool cuda_update(const CudaUpdate& update, void* stream) {
  if (update.count == 0) return true;
  const Kernel kernel = KernelsOf<UpdateRule>::kKernels[update.rule];
  kernel<<<blocks_of(update), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(update);
  return cudaPeekAtLastError() == cudaSuccess;
}

bool cuda_add_decay(const CudaUpdate& update, float* gradients, void* stream) {
  if (update.count == 0) return true;
  decay_kernel<<<blocks_of(update), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(update,
                                                                                      gradients);
  return cudaPeekAtLastError() == cudaSuccess;
}

}  // namespace muster::internal
