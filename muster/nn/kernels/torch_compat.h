#pragma once

/// The differences between the versions of libtorch that muster builds with, 1.13 to 2.11, in one
/// place.

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <map>
#include <optional>
#include <vector>

#define MUSTER_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||         \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if MUSTER_TORCH_AT_LEAST(2, 2)
#include <ATen/ops/_foreach_copy.h>
#endif

namespace muster::compat {

/// Kernels that give the same bits every time, or an error where there is none.
inline void use_deterministic_algorithms(bool on) {
  at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
#if MUSTER_TORCH_AT_LEAST(2, 2)
  // Newer versions also fill fresh memory in this mode, which only slows correct programs down.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
#endif
}

/// Copies each tensor into the one at its place in `to`. Many small ones on a GPU are one piece of
/// work for each of their types, where libtorch can.
inline void copy_all(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
#if MUSTER_TORCH_AT_LEAST(2, 2)
  struct Lists {
    std::vector<at::Tensor> from, to;
  };
  std::map<at::ScalarType, Lists> by_type;
  for (std::size_t i = 0; i < from.size(); ++i) {
    Lists& lists = by_type[from[i].scalar_type()];
    lists.from.push_back(from[i]);
    lists.to.push_back(to[i]);
  }
  for (auto& [type, lists] : by_type) at::_foreach_copy_(lists.to, lists.from);
#else
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
#endif
}

/// Whether an AutocastScope for CPU tensors is open on this thread.
inline bool autocast_is_on_for_cpu() {
#if MUSTER_TORCH_AT_LEAST(2, 4)
  return at::autocast::is_autocast_enabled(at::kCPU);
#else
  return at::autocast::is_cpu_enabled();
#endif
}

/// The type of an AutocastScope for this device that is open on this thread, or nothing.
inline std::optional<at::ScalarType> autocast_type(at::DeviceType device) {
#if MUSTER_TORCH_AT_LEAST(2, 4)
  if (!at::autocast::is_autocast_enabled(device)) return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
#else
  if (device == at::kCPU) {
    if (!at::autocast::is_cpu_enabled()) return std::nullopt;
    return at::autocast::get_autocast_cpu_dtype();
  }
  if (!at::autocast::is_enabled()) return std::nullopt;
  return at::autocast::get_autocast_gpu_dtype();
#endif
}

/// Products and convolutions on this thread in a shorter type, until the end of the scope.
class AutocastScope {
 public:
  AutocastScope(bool on, at::DeviceType device, at::ScalarType type) : on_(on), device_(device) {
    if (!on_) return;
#if MUSTER_TORCH_AT_LEAST(2, 4)
    was_enabled_ = at::autocast::is_autocast_enabled(device_);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, type);
#else
    if (device_ == at::kCPU) {
      was_enabled_ = at::autocast::is_cpu_enabled();
      at::autocast::set_cpu_enabled(true);
      at::autocast::set_autocast_cpu_dtype(type);
    } else {
      was_enabled_ = at::autocast::is_enabled();
      at::autocast::set_enabled(true);
      at::autocast::set_autocast_gpu_dtype(type);
    }
#endif
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!on_) return;
    // Casts of weights are cached inside the scope and must not outlive a step's weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
#if MUSTER_TORCH_AT_LEAST(2, 4)
    at::autocast::set_autocast_enabled(device_, was_enabled_);
#else
    if (device_ == at::kCPU) {
      at::autocast::set_cpu_enabled(was_enabled_);
    } else {
      at::autocast::set_enabled(was_enabled_);
    }
#endif
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool on_;
  at::DeviceType device_;
  bool was_enabled_ = false;
};

}  // namespace muster::compat
