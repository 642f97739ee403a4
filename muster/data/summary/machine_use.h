#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/summary/gpu_use.h"

namespace muster {

/// Names and values that are written as scalars.
using NamedValues = std::vector<std::pair<std::string, double>>;

/// Use that this process makes of its host: processors, memory, disk and GPUs, and what goes
/// through the network of the host, since the last read. Belongs to one thread.
class MachineUse {
 public:
  /// Begins to count.
  MachineUse();

  /// By name: "machine/processors" and so on, see docs/guides/console.md. Values that the host does
  /// not tell are missing.
  NamedValues read();

 private:
  struct Counters {
    std::chrono::steady_clock::time_point at{};
    double processor_seconds = 0;
    /// Ticks of all processors of the host; 0: not known.
    std::uint64_t host_ticks = 0;
    std::uint64_t host_idle_ticks = 0;
    /// Negative where they are not known.
    double disk_read_bytes = -1;
    double disk_written_bytes = -1;
    double network_received_bytes = -1;
    double network_sent_bytes = -1;
  };
  static Counters count();

  GpuUse gpus_{};
  Counters last_ = count();
};

}  // namespace muster
