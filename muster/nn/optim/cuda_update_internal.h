#pragma once

#include <cstdint>

/// Updates of flat device memory, one pass each. Seen by nvcc and by our C++ alike: plain pointers,
/// no libtorch. Bits are those of flat_kernels_internal.h, except for powers.
namespace muster::internal {

/// Elements that one block of threads updates.
constexpr std::int64_t kCudaBlockElements = 1024;
/// Variables begin at multiples of this many elements.
constexpr std::int64_t kCudaGroupElements = 16;

/// All pointers are to device memory.
struct CudaUpdate {
  /// Index among the alternatives of UpdateRule.
  int rule = 0;
  /// The rule itself.
  const void* constants = nullptr;
  /// A multiple of kCudaGroupElements, as the pointers below are of its bytes.
  std::int64_t count = 0;
  float* values = nullptr;
  const float* gradients = nullptr;
  float* slots[3] = {};
  /// Whether weight decay is for the elements: a byte for each group. Null: for none.
  const unsigned char* decayed = nullptr;
  float decay = 0;
  /// The sum of the squares of the decayed elements before the update, one for each block. May be
  /// null.
  double* squares = nullptr;
  /// Unless one of these is not finite now, or `bad_step` says that one was: then nothing changes,
  /// and bad_step is the first such step plus 1. Null: always.
  const float* losses = nullptr;
  int loss_count = 0;
  const std::int64_t* step = nullptr;
  std::int64_t* bad_step = nullptr;
};

/// Gives the update to the stream. False when CUDA refuses it.
bool cuda_update(const CudaUpdate& update, void* stream);
/// The same for the part of the decay alone: it is added to `gradients`, and the rule is not looked
/// at.
bool cuda_add_decay(const CudaUpdate& update, float* gradients, void* stream);

}  // namespace muster::internal
