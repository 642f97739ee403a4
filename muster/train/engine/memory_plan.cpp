#include "muster/train/engine/memory_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/nn/optim/slot_count.h"

namespace muster {
namespace {

constexpr std::size_t kVariablesNamed = 3;
/// Tasks that the error tells the effect of.
constexpr std::int64_t kSuggestedShards = 4;

std::uint64_t share_of(std::uint64_t bytes, std::int64_t shards) {
  const auto count = static_cast<std::uint64_t>(shards);
  return (bytes + count - 1) / count;
}

// How often there are gradients of all dense variables in a step: of each replica that runs, and of
// the parts of their sum (TreeSum). The sum over tasks comes on top.
std::int64_t flat_gradients(const MemoryLayout& layout) {
  const auto replicas = static_cast<std::uint64_t>(layout.replicas);
  const auto stages = static_cast<std::int64_t>(std::bit_width(replicas - 1));
  const std::int64_t parts =
      layout.replicas > 1 ? std::min(layout.replicas, stages + layout.lanes) : 0;
  return layout.lanes + parts;
}

std::string largest_of(const MemoryPlan& plan) {
  std::vector<std::string> names;
  for (const MemoryPlan::Variable& variable : plan.variables) {
    if (names.size() == kVariablesNamed) break;
    names.push_back(fmt::format("{} {}", variable.name, in_binary_units(variable.bytes)));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// With this, the state would take so much.
std::string remedy(const EstimatorOptions& options, const std::vector<ModuleVariable>& variables,
                   const MemoryLayout& with, std::string_view words) {
  return fmt::format("{} ({})", words,
                     in_binary_units(plan_memory(options, variables, with).all()));
}

std::vector<std::string> remedies(const EstimatorOptions& options,
                                  const std::vector<ModuleVariable>& variables,
                                  const MemoryLayout& layout) {
  std::vector<std::string> found;
  MemoryLayout sharded = layout;
  sharded.shards = std::max(2 * layout.shards, kSuggestedShards);
  sharded.is_shared = true;
  found.push_back(remedy(options, variables, sharded,
                         fmt::format("divide slots and averages between {} tasks, --sharding "
                                     "optimizer",
                                     sharded.shards)));
  MemoryLayout one_lane = layout;
  one_lane.lanes = 1;
  if (layout.lanes > 1) {
    found.push_back(
        remedy(options, variables, one_lane, "run one replica at a time, --concurrent-replicas 1"));
  }
  EstimatorOptions without_averages = options;
  without_averages.moving_average.reset();
  if (options.moving_average) {
    found.push_back(remedy(without_averages, variables, layout, "leave out the moving averages"));
  }
  EstimatorOptions without_slots = options;
  without_slots.optimizer = sgd({.learning_rate = 0.1});
  found.push_back(remedy(without_slots, variables, layout,
                         "take an optimizer with fewer slots, down to sgd, which has none"));
  MemoryLayout unsaved = layout;
  unsaved.saves = false;
  if (layout.saves && layout.shards == 1) {
    found.push_back(remedy(options, variables, unsaved, "train without checkpoints"));
  }
  return found;
}

}  // namespace

std::string in_binary_units(std::uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < kUnits.size(); ++unit) amount /= 1024;
  return fmt::format("{:.{}f} {}", amount, unit == 0 ? 0 : 1, kUnits[unit]);
}

MemoryPlan plan_memory(const EstimatorOptions& options,
                       const std::vector<ModuleVariable>& variables, const MemoryLayout& layout) {
  MemoryPlan plan;
  const std::int64_t flats = flat_gradients(layout);
  for (const ModuleVariable& variable : variables) {
    const auto bytes = static_cast<std::uint64_t>(variable.tensor.nbytes());
    plan.values += bytes;
    std::uint64_t all = bytes;
    if (variable.trainable) {
      const std::int64_t shards = variable.sparse ? 1 : layout.shards;
      const std::uint64_t slots = share_of(
          sizeof(float) * slot_elements(options.optimizer, variable.name, variable.tensor.sizes()),
          shards);
      const std::uint64_t averages = options.moving_average ? share_of(bytes, shards) : 0;
      const std::uint64_t summed =
          layout.is_shared ? share_of(bytes, layout.divides_gradients ? layout.shards : 1) : 0;
      const std::uint64_t gradients =
          variable.sparse ? 0 : bytes * static_cast<std::uint64_t>(flats) + summed;
      plan.slots += slots;
      plan.averages += averages;
      plan.gradients += gradients;
      if (layout.saves) plan.copy += share_of(bytes, shards) + slots + averages;
      all += slots + averages + gradients;
    } else if (layout.saves) {
      plan.copy += bytes;
    }
    plan.variables.push_back({variable.name, all});
  }
  std::ranges::stable_sort(plan.variables, std::ranges::greater{}, &MemoryPlan::Variable::bytes);
  return plan;
}

void check_memory(const EstimatorOptions& options, const std::vector<ModuleVariable>& variables,
                  const MemoryLayout& layout, std::uint64_t limit) {
  const MemoryPlan plan = plan_memory(options, variables, layout);
  const std::string parts = fmt::format(
      "values {}, slots {}, averages {}, gradients {}, the copy that checkpoints are written from "
      "{}",
      in_binary_units(plan.values), in_binary_units(plan.slots), in_binary_units(plan.averages),
      in_binary_units(plan.gradients), in_binary_units(plan.copy));
  log::debug("the state of the run takes {}: {}", in_binary_units(plan.all()), parts);
  if (plan.all() <= limit) return;
  throw ResourceExhausted(
      "the state of this run takes {}, and this process may use {} of memory: {}, and activations "
      "on top; the largest variables, with what belongs to them: {}. What makes it smaller: {}",
      in_binary_units(plan.all()), in_binary_units(limit), parts, largest_of(plan),
      fmt::join(remedies(options, variables, layout), "; "));
}

}  // namespace muster
