#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::launch {

/// How many workers a launch may have, both among them.
struct WorkerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;

  bool is_elastic() const { return least < most; }
};

/// "2", or "2:8" for at least 2 and at most 8. Throws InvalidArgument.
WorkerRange parse_worker_range(std::string_view text);

struct ScaleOptions {
  Path log_dir{"runlogs"};
  std::int64_t workers = 0;
  /// How long the launcher may take to hear of it.
  std::chrono::milliseconds timeout{10'000};
};

/// Has the launch that uses this folder start workers, or end some, until there are so many. Throws
/// FailedPrecondition where none runs, or its number of workers is fixed, InvalidArgument for a
/// number outside of its range, DeadlineExceeded when it does not hear of it.
void scale(const ScaleOptions& options);

/// The launcher's side: a file in its folder says how many workers it may have, and another how
/// many are asked for.
class ScaleRequests {
 public:
  ScaleRequests(Path log_dir, const WorkerRange& range);
  ~ScaleRequests();
  ScaleRequests(const ScaleRequests&) = delete;
  ScaleRequests& operator=(const ScaleRequests&) = delete;

  /// Number of workers requested since the last call; nothing without a valid request.
  std::optional<std::int64_t> next();

 private:
  const Path log_dir_;
  const WorkerRange range_;
};

}  // namespace muster::launch
