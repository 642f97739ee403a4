#pragma once

#include <memory>
#include <vector>

namespace muster {

/// Load of one GPU.
struct GpuLoad {
  /// Number of the device, as the driver counts them.
  unsigned index = 0;
  double busy_percent = 0;
  double memory_bytes = 0;
  double watts = 0;
};

/// The GPUs that this process may use (CUDA_VISIBLE_DEVICES), read by NVML, which is opened when
/// this is made. Without NVML there are none. Belongs to one thread.
class GpuUse {
 public:
  GpuUse();
  ~GpuUse();
  GpuUse(const GpuUse&) = delete;
  GpuUse& operator=(const GpuUse&) = delete;

  /// Values that the driver does not tell are 0.
  std::vector<GpuLoad> read() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
