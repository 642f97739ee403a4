#pragma once

#include <c10/core/Device.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// The devices of these names, "cpu" or "cuda:0"; "cuda" is the first GPU. Without names: every GPU
/// of the machine, or the CPU where there is none. Throws InvalidArgument for an invalid name
/// or a device that is not there, also where CUDA_VISIBLE_DEVICES names it, saying what is there;
/// `where` is what named it.
std::vector<c10::Device> resolve_devices(const std::vector<std::string>& names,
                                         std::string_view where = "RunConfig: devices");

/// "cpu, cpu", "cuda:0 (NVIDIA H200)": for logs.
std::string describe(std::span<const c10::Device> devices);

/// How the libraries of GPUs choose their kernels, in all of the process. Deterministic: those that
/// give the same bits every time, in whole float32. Else they are tried out and the fastest stays,
/// and float32 products may be made of shorter numbers (TF32). To be called before the first
/// matrix product.
void choose_gpu_kernels(bool deterministic);

}  // namespace muster
