#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "muster/serving/front/latency_buckets.h"

namespace muster::serving {

/// Counts of what a front has done, for its metrics. Any thread may call.
class FrontCounts {
 public:
  void answered(int status, std::chrono::nanoseconds taken);
  void retried(const std::string& reason);
  /// A process of a node has ended, `reason` as in "was killed by SIGKILL".
  void node_ended(const std::string& reason);
  /// A node gets no requests any more, until it answers again or is replaced.
  void ejected(const std::string& reason);
  void set_waiting(std::size_t requests);
  /// By state: "up", "starting", "out", "draining".
  void set_nodes(std::map<std::string, std::size_t> by_state);

  /// Requests that were answered so far.
  std::uint64_t answers() const;
  /// How long they took, waiting for a node included.
  LatencyBuckets latencies() const;

  /// As Prometheus reads them.
  std::string page() const;

 private:
  mutable std::mutex mutex_{};
  std::map<int, std::uint64_t> statuses_{};
  std::map<std::string, std::uint64_t> retries_{};
  std::map<std::string, std::uint64_t> ends_{};
  std::map<std::string, std::uint64_t> ejections_{};
  std::map<std::string, std::size_t> nodes_{};
  std::size_t waiting_ = 0;
  std::uint64_t answers_ = 0;
  LatencyBuckets latencies_{};
};

}  // namespace muster::serving
