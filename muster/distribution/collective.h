#pragma once

#include <memory>
#include <string>

#include "muster/estimator/run_config.h"
#include "muster/estimator/strategy.h"

namespace muster {

struct CollectiveOptions {
  /// Tasks prove with it that they belong to the run; empty: none is needed.
  std::string secret{};
  /// Tells runs of one cluster apart; empty: the addresses of the cluster's tasks.
  std::string run_id{};
  /// Gradients of more bytes than this are summed in slices, one for each task, instead of sent
  /// whole to every task. The result is the same to the bit.
  std::int64_t slice_above = 256 * 1024;
};

/// Every task has a copy of the variables; gradients are exchanged between all, and every task
/// makes the same update. Tasks may come and go: their replicas move, and the weights stay those of
/// an undisturbed run. The chief knows who takes part; when it is lost the others wait for it for
/// RunConfig::join_timeout.
std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options = {});

}  // namespace muster
