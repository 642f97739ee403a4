#pragma once

/// Names by which the kernels of this folder use a device, on CUDA. platform_emulated.h gives the same
/// names on a CPU; a file that includes kernels includes one of the two first.

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define MUSTER_DEVICE __device__ __forceinline__
#define MUSTER_KERNEL(threads, blocks_of_a_multiprocessor) \
  __global__ void __launch_bounds__(threads, blocks_of_a_multiprocessor)
#define MUSTER_UNROLL _Pragma("unroll")
#define MUSTER_PRAGMA(text) _Pragma(#text)
#define MUSTER_UNROLL_BY(count) MUSTER_PRAGMA(unroll count)

namespace muster::device {

MUSTER_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
MUSTER_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }
MUSTER_DEVICE int block_row() { return static_cast<int>(blockIdx.y); }
MUSTER_DEVICE int block_count() { return static_cast<int>(gridDim.x); }
MUSTER_DEVICE void sync_threads() { __syncthreads(); }

MUSTER_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return memory;
}

/// Returns when the kernels before this one on the stream have ended and their memory can be read.
MUSTER_DEVICE void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Lets the next kernel of the stream begin with what needs nothing of this one.
MUSTER_DEVICE void let_next_kernel_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

MUSTER_DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffU, value, mask);
}

MUSTER_DEVICE void atomic_add(long long* sum, long long value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
}
MUSTER_DEVICE void atomic_mark(int* flag) { atomicOr(flag, 1); }

/// Four 8x8 matrices of bf16 from shared memory: lane i names row i % 8 of matrix i / 8.
MUSTER_DEVICE void load_matrices(std::uint32_t (&to)[4], const std::uint16_t* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
MUSTER_DEVICE void load_matrices_transposed(std::uint32_t (&to)[4], const std::uint16_t* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// sum += a * b: 16x16 by 16x8, bf16 with float32 sums.
MUSTER_DEVICE void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two floats as bf16, the first in the low half.
MUSTER_DEVICE std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
/// The same with negative values at 0. NaN stays.
MUSTER_DEVICE std::uint32_t pack_relu(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
MUSTER_DEVICE float low_half(std::uint32_t both) { return __uint_as_float(both << 16); }
MUSTER_DEVICE float high_half(std::uint32_t both) { return __uint_as_float(both & 0xffff0000U); }

MUSTER_DEVICE long long round_to_integer(float value) { return __float2ll_rn(value); }
MUSTER_DEVICE float reciprocal_square_root(float value) { return rsqrtf(value); }
MUSTER_DEVICE float fused_multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
MUSTER_DEVICE float not_a_number() { return __int_as_float(0x7fffffff); }

}  // namespace muster::device
