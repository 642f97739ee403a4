#pragma once

#include <memory>

#include "muster/distribution/peer_options.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/strategy.h"

namespace muster {

struct CollectiveOptions {
  PeerOptions peers{};
  /// Gradients of more bytes than this are summed in slices, one for each task, instead of sent
  /// whole. The result is the same to the bit.
  std::int64_t slice_above = std::int64_t{256} << 10;
  /// Slices travel in pieces of this many elements: while one is on its way the one before is
  /// added.
  std::int64_t slice_piece = std::int64_t{256} << 10;
  /// Slices travel as bfloat16, which are half of the bytes. The weights then depend on the layout.
  /// The same for all tasks.
  bool compresses_slices = false;
  /// For tests: tasks without GPUs sum as tasks with GPUs do, over connections of their own in the
  /// place of NCCL.
  bool host_counts_as_device = false;
};

/// Every task has a copy of the variables; gradients are summed over all by recursive doubling, in
/// which a task speaks with about log2 of all, and every task makes the same update. Tasks whose
/// variables are on GPUs sum there, over NCCL, or by memory where all share one GPU. Tasks may come
/// and go: their replicas move, and the weights stay those of an undisturbed run. The chief knows
/// who takes part; when it is lost the others wait for it for RunConfig::cluster.join_timeout.
std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options = {});

}  // namespace muster
