#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/budget_internal.h"
#include "muster/saved_model/executor/plan_internal.h"
#include "muster/saved_model/executor/value.h"
#include "muster/saved_model/graph/tensor_value.h"

namespace muster::executor {

/// A plan once more, for requests of some rows: its steps compute in an arena, by kernels that take
/// some nanoseconds to call. It gives what the plan gives, to the bit, or nothing: then the plan is
/// to be run, which says what is wrong with a request that is. Immutable except for a counter; may
/// be run from several threads at once.
class ArenaPlan {
 public:
  /// Nothing where a step has no kernel for arenas. Needs the attributes of the plan's nodes.
  /// `tables_stay`: no signature of the model fills tables.
  static std::unique_ptr<const ArenaPlan> make(const Plan& plan, bool tables_stay);

 private:
  friend class ArenaRun;

  struct Step {
    ArenaKernel kernel{};
    std::vector<ArenaCall::Number> inputs{};
    ArenaCall::Number output = 0;
  };

  ArenaPlan() = default;
  std::optional<ArenaCall::Number> number_of(const Plan::Source& source);
  bool add_constant(const Slot& slot);
  ArenaOp bridged(const Plan& plan, const Plan::Step& step);
  bool add_step(const Plan& plan, const Plan::Step& step, bool tables_stay);

  std::size_t arguments_ = 0;
  std::size_t values_ = 0;
  /// Number of the plan's operations, those that were fused among them.
  std::int64_t operations_ = 0;
  /// Steps that run by the operations' own kernels.
  std::size_t bridges_ = 0;
  std::vector<Step> steps_{};
  std::vector<ArenaCall::Number> fetches_{};
  /// By the number of the plan's constant; what it keeps alive, and what the steps read.
  std::vector<Value> held_{};
  std::vector<std::vector<std::string_view>> words_{};
  std::vector<ArenaValue> constants_{};
  /// The first value of each of the plan's places, and how many there are.
  std::vector<std::pair<ArenaCall::Number, std::size_t>> places_{};
  /// How often in a row it gave nothing: one that never does is not asked again.
  mutable std::atomic<int> misses_ = 0;
};

/// One run of an ArenaPlan. It and what it gives belong to the thread, until that makes another.
class ArenaRun {
 public:
  explicit ArenaRun(const ArenaPlan& plan);
  ~ArenaRun();
  ArenaRun(const ArenaRun&) = delete;
  ArenaRun& operator=(const ArenaRun&) = delete;

  /// The arguments in their order. False for one that arenas do not take.
  bool add(const Value& value);
  /// Its bytes fill its shape.
  bool add(const graph::TensorValue& value);

  /// Whether there are results.
  bool run(Budget& budget);

  Value result(std::size_t fetch) const;
  graph::TensorValue tensor_result(std::size_t fetch) const;

 private:
  ArenaValue* next_argument();
  bool add_strings(std::span<const std::string> strings, std::span<const std::int64_t> shape);
  bool run_steps(Budget& budget);
  const ArenaValue& fetched(std::size_t fetch) const;

  const ArenaPlan& plan_;
  Arena& arena_;
  ArenaValue* values_;
  std::size_t added_ = 0;
};

}  // namespace muster::executor
