#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

/// The loops of flat_kernels_internal.h over tensors: contiguous float32 ones on the CPU through
/// them, split over ATen's threads, those of another device through ATen.
namespace muster::internal {

/// A thread's least share: small enough to share out, large enough that waking a thread pays.
inline constexpr std::int64_t kGrainElements = 1 << 15;

void add_scaled(float factor, const at::Tensor& source, const at::Tensor& target);
void scale(float factor, const at::Tensor& values);
void clamp(float limit, const at::Tensor& values);
void move_average(float rate, const at::Tensor& values, const at::Tensor& average);
void swap_values(const at::Tensor& first, const at::Tensor& second);
double sum_of_squares(const at::Tensor& values);

}  // namespace muster::internal
