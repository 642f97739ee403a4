#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/cifar10/flags.h"
#include "examples/cifar10/input.h"
#include "examples/cifar10/network.h"
#include "muster/muster.h"

namespace cifar10 {

/// Who computes what part of a step.
struct Layout {
  /// Where this process's towers are.
  std::vector<std::string> devices{};
  bool on_gpu = false;
  /// Tasks of the cluster that train.
  std::int64_t tasks = 1;
  /// R, over all of them.
  std::int64_t replicas = 1;
  /// Images of a step, of each replica and of all.
  std::int64_t replica_batch = 128;
  std::int64_t step_images = 128;
  /// Between two values of the global step: those of one task where each updates by itself.
  std::int64_t update_images = 128;
};

/// Throws UsageError for more GPUs than `gpus`, those of this machine, other worker counts than the
/// cluster's, and batches that cannot be split over replicas. A ps needs no GPU for its part.
Layout layout_of(const Flags& flags, const muster::TaskEnvironment& task, std::int64_t gpus);

/// The seeds' schedule: the rate falls to 0.1, 0.01 and 0.002 of its first value after 82, 123 and
/// 300 epochs of whole steps.
muster::LearningRate schedule(double learning_rate, std::int64_t epoch_images,
                              std::int64_t step_images);

NetworkOptions network_options(const Flags& flags, const Layout& layout);
TrainingInput training_plan(const Flags& flags, const Layout& layout,
                            std::vector<muster::Path> files, std::int64_t images);
/// The environment's description of the cluster, combined with the flags. Throws UsageError where
/// they contradict each other, and without a folder to write to.
muster::RunConfig run_config(const Flags& flags, const Layout& layout,
                             const muster::RunConfig& environment);

}  // namespace cifar10
