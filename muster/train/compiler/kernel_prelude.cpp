#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/train/compiler/kernel_source.h"

namespace muster::compiler {
namespace {

// Types without their headers, which the run-time compiler has not.
constexpr const char* kPrelude = R"(
typedef unsigned short u16;
typedef unsigned int u32;
#ifdef MUSTER_ON_HOST
#include <math.h>
#include <string.h>
#define MUSTER_HOST 1
#define MUSTER_KERNEL extern "C" void
#define MUSTER_SHARED static
#define MUSTER_INLINE static inline
struct Place { long x, y; };
static Place block_index;
static const Place thread_at = {0, 0};
#define MUSTER_THREADS 1
static void wait_for_block() {}
static float float_of(u32 bits) { float value; memcpy(&value, &bits, 4); return value; }
static u32 bits_of(float value) { u32 bits; memcpy(&bits, &value, 4); return bits; }
static u16 round_bf16(float x) {
  if (x != x) return 0x7fc0;
  u32 bits = bits_of(x);
  return (u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static float float_of_half(u16 h) { _Float16 value; memcpy(&value, &h, 2); return (float)value; }
static u16 half_of(float x) { _Float16 value = (_Float16)x; u16 h; memcpy(&h, &value, 2); return h; }
static float sum_of_warp(float x) { return x; }
static float sum_of_warps(float x, int) { return x; }
static float max_of_warps(float x, int) { return x; }
static float max_of(float x, float y) { return y > x || y != y ? y : x; }
static float quick_inverse(float x) { return 1.0f / x; }
#define MUSTER_LANES 1
#else
#define MUSTER_HOST 0
#define MUSTER_KERNEL extern "C" __global__ void __launch_bounds__(MUSTER_THREADS)
#define MUSTER_SHARED __shared__
#define MUSTER_INLINE static __device__ __forceinline__
struct Place { int x, y; };
#define block_index blockIdx
#define thread_at threadIdx
#define wait_for_block __syncthreads
#define float_of __uint_as_float
#define bits_of __float_as_uint
MUSTER_INLINE u16 round_bf16(float x) { u16 r; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
MUSTER_INLINE float float_of_half(u16 h) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h)); return r; }
MUSTER_INLINE u16 half_of(float x) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x)); return r; }
MUSTER_INLINE float quick_inverse(float x) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
// Always the same trees.
MUSTER_INLINE float max_of(float x, float y) { return y > x || y != y ? y : x; }
MUSTER_INLINE float sum_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
MUSTER_INLINE float max_of_warp(float x) {
  for (int step = 16; step > 0; step /= 2) x = max_of(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
// Over as many neighbouring warps; all threads of the block take part.
MUSTER_INLINE float sum_of_warps(float x, int warps) {
  x = sum_of_warp(x);
  if (warps == 1) return x;
  __shared__ float of_warp[MUSTER_THREADS / 32];
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) of_warp[warp] = x;
  __syncthreads();
  x = 0.0f;
  for (int i = 0; i < warps; ++i) x += of_warp[warp / warps * warps + i];
  __syncthreads();
  return x;
}
MUSTER_INLINE float max_of_warps(float x, int warps) {
  x = max_of_warp(x);
  if (warps == 1) return x;
  __shared__ float of_warp[MUSTER_THREADS / 32];
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) of_warp[warp] = x;
  __syncthreads();
  x = of_warp[warp / warps * warps];
  for (int i = 1; i < warps; ++i) x = max_of(x, of_warp[warp / warps * warps + i]);
  __syncthreads();
  return x;
}
#define MUSTER_LANES 32
#endif
// Formula 7.1.26 of Abramowitz and Stegun, within 1.5e-7, and Taylor's polynomial below a half,
// where that would be many of its digits: less work than erff, and its exponential is that of a
// normal density, which GELU's way back takes as well.
MUSTER_INLINE float erf_of(float x) {
  const float t = quick_inverse(1.0f + 0.3275911f * fabsf(x));
  const float polynomial =
      ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t +
       0.254829592f) * t;
  const float far = copysignf(1.0f - polynomial * expf(-(x * x)), x);
  const float s = x * x;
  const float near = x * (((((-0.000854833f * s + 0.005223978f) * s - 0.026866171f) * s +
       0.112837917f) * s - 0.376126389f) * s + 1.128379167f);
  return fabsf(x) < 0.5f ? near : far;
}
struct f32 { float raw; };
struct bf16 { u16 raw; };
struct f16 { u16 raw; };
struct flag { unsigned char raw; };
MUSTER_INLINE float get(f32 x) { return x.raw; }
MUSTER_INLINE float get(bf16 x) { return float_of((u32)x.raw << 16); }
MUSTER_INLINE float get(f16 x) { return float_of_half(x.raw); }
MUSTER_INLINE float get(flag x) { return x.raw ? 1.0f : 0.0f; }
MUSTER_INLINE void put(f32& to, float x) { to.raw = x; }
MUSTER_INLINE void put(bf16& to, float x) { to.raw = round_bf16(x); }
MUSTER_INLINE void put(f16& to, float x) { to.raw = half_of(x); }
MUSTER_INLINE void put(flag& to, float x) { to.raw = x != 0.0f; }
template <typename T, int N> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Some { T at[N]; };
)";

}  // namespace

const char* element_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "f32";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "f16";
    case at::kBool:
      return "flag";
    default:
      throw Internal("a program has no values of type {}", c10::toString(type));
  }
}

std::string kernel_prelude(std::int64_t threads) {
  return fmt::format("#ifndef MUSTER_ON_HOST\n#define MUSTER_THREADS {}\n#endif\n{}", threads,
                     kPrelude);
}

}  // namespace muster::compiler
