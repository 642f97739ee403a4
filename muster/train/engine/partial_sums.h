#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/nn/device/gpu.h"
#include "muster/nn/model/estimator_spec.h"
#include "muster/nn/optim/variables.h"
#include "muster/train/engine/tree_sum.h"

namespace muster {

/// The replicas [first, last).
struct ReplicaRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const { return last - first; }
  bool contains(std::int64_t replica) const { return replica >= first && replica < last; }
  bool operator==(const ReplicaRange&) const = default;
};

/// Results of some replicas of one step: all of the run's, or those of one process.
struct PartialSums {
  /// Sums of gradients over the largest parts of the tree that the replicas make up; still times
  /// the loss scale.
  TreeSum<Gradients>::Parts sums{};
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// One for each replica of the run, undefined for those of others and those without a batch;
  /// detached, not scaled.
  std::vector<at::Tensor> losses{};
  /// Spec that the model of the first of them that had a batch returned.
  EstimatorSpec spec{};
  /// By piece (gradient_buckets()), where a device makes them one after the other: where in its
  /// work each is whole. Empty: the thread's stream has all of them.
  std::span<const DeviceMark> marks{};
};

/// The mean gradients of the replicas that had a batch, still times the loss scale. All replicas of
/// the step are in `total`, at least one of them with a batch. The sum's memory becomes the mean's.
Gradients take_mean(PartialSums& total);

/// Adds the gradients of one replica or part to those of the one before it; rows that both touched
/// are added as left + right.
void add_gradients(Gradients& into, const Gradients& from);

}  // namespace muster
