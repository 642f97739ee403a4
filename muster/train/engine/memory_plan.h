#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/nn/model/module_variables.h"
#include "muster/train/engine/train_options.h"

namespace muster {

/// Layout of a run, as far as the memory of a process depends on it.
struct MemoryLayout {
  /// Tasks that divide slots and averages; 1: there are none.
  std::int64_t shards = 1;
  /// Whether those tasks divide the sum of gradients, too.
  bool divides_gradients = false;
  /// Whether gradients of other tasks are added.
  bool is_shared = false;
  /// Replicas that run at one time, and those of the run.
  std::int64_t lanes = 1;
  std::int64_t replicas = 1;
  /// Whether this process writes checkpoints, from a copy.
  bool saves = true;
};

/// Bytes that the state of a run takes in a process, before any of it is there. Activations, inputs
/// and libraries come on top.
struct MemoryPlan {
  std::uint64_t values = 0;
  std::uint64_t slots = 0;
  std::uint64_t averages = 0;
  std::uint64_t gradients = 0;
  /// The copy that a checkpoint is written from while steps go on.
  std::uint64_t copy = 0;
  /// Variables with all that belongs to them, largest first.
  struct Variable {
    std::string name;
    std::uint64_t bytes = 0;
  };
  std::vector<Variable> variables{};

  std::uint64_t all() const { return values + slots + averages + gradients + copy; }
};

MemoryPlan plan_memory(const EstimatorOptions& options,
                       const std::vector<ModuleVariable>& variables, const MemoryLayout& layout);

/// Throws ResourceExhausted where the state takes more than `limit` bytes: with its parts, the
/// largest variables, and what would make it fit.
void check_memory(const EstimatorOptions& options, const std::vector<ModuleVariable>& variables,
                  const MemoryLayout& layout, std::uint64_t limit);

/// "1.5 GiB"
std::string in_binary_units(std::uint64_t bytes);

}  // namespace muster
