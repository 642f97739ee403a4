#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/thread_pool.h"
#include "muster/estimator/run_config.h"
#include "muster/estimator/tree_sum.h"
#include "muster/features/batch.h"
#include "muster/model/model.h"
#include "muster/model/module_variables.h"
#include "muster/optim/variables.h"

namespace muster {

class Head;

/// Makes a model with its variables; called once for each tower, and for evaluation and prediction.
using ModelFactory = std::function<std::shared_ptr<Model>()>;

/// The names and kinds that Variables take over from a module's.
AdoptOptions adopt_options(const std::vector<ModuleVariable>& variables);

struct TowerOptions {
  std::int64_t replicas = 1;
  /// How many replicas run at the same time.
  int concurrent = 1;
  int threads_per_replica = 1;
  std::uint64_t seed = 0;
  ComputeType precision = ComputeType::kFloat32;
  /// Whether discard() may be called.
  bool may_discard = false;
  /// Whether other processes run some of the replicas, now these and now those.
  bool shared = false;
};

/// The replicas [first, last).
struct ReplicaRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  std::int64_t size() const { return last - first; }
  bool contains(std::int64_t replica) const { return replica >= first && replica < last; }
  bool operator==(const ReplicaRange&) const = default;
};

/// What some replicas of one step gave.
struct StepParts {
  /// Over the largest parts of the tree that they make up; still times the loss scale.
  TreeSum<Gradients>::Parts sums{};
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// One for each replica of the run, undefined for those of others and those without a batch;
  /// detached, not scaled.
  std::vector<at::Tensor> losses{};
  /// What the model of the first of them that had a batch returned.
  EstimatorSpec spec{};
};

/// What the replicas of one step gave.
struct StepGradients {
  /// The mean over the replicas that had a batch, summed in the fixed tree; still times the loss
  /// scale.
  Gradients mean{};
  std::int64_t present = 0;
  std::int64_t examples = 0;
  /// One a replica, undefined for those without a batch; detached, not scaled.
  std::vector<at::Tensor> losses{};
  /// What the model of replica 0 returned, or of the first that had a batch.
  EstimatorSpec spec{};
};

/// The mean of a step all of whose replicas are in `parts`, at least one of them with a batch. The
/// sum's memory becomes the mean's.
StepGradients mean_of(StepParts parts);

/// Adds the gradients of one replica or part to those of the one before it; rows that both touched
/// are added as left + right.
void add_gradients(Gradients& into, const Gradients& from);

/// The replicas that one process runs: modules that share the process's variables, side by side or
/// in turn. How many run at a time changes no bit of the result. Belongs to the loop's thread.
class Towers {
 public:
  Towers(const ModelFactory& factory, const Head* head, TowerOptions options);
  ~Towers();
  Towers(const Towers&) = delete;
  Towers& operator=(const Towers&) = delete;

  /// The values that all towers share. Buffers are those of replica 0.
  const Variables& variables() const { return *variables_; }
  /// The same variables with their layout in checkpoints.
  std::span<const ModuleVariable> module_variables() const { return module_variables_; }
  const TowerOptions& options() const { return options_; }

  /// Forward and backward of every one of these replicas that has a batch. There is a place for
  /// each replica of the run in `batches`; those of others are not looked at. The result's tensors
  /// are reused by the next call.
  StepParts run(std::span<std::optional<Batch>> batches, ReplicaRange replicas, std::int64_t step,
                double loss_scale);

  /// After the update: the buffers that replica 0's forward changed are those that count from here
  /// on.
  void commit();
  /// Instead of the update: buffers are as they were before the step.
  void discard();
  /// Those of replica 0, as its last forward left them. Where another process runs it, its buffers
  /// are copied into these before commit().
  const std::vector<at::Tensor>& buffers() const;

  /// A model with values of its own, as the factory makes it, seeded: for evaluation.
  static std::shared_ptr<Model> make_model(const ModelFactory& factory, std::uint64_t seed);

 private:
  struct Tower;
  struct Outcome;
  struct Step;

  Outcome run_replica(Tower& tower, std::int64_t replica, const Batch& batch, const Step& step);
  Tower& tower_of(std::size_t lane, std::int64_t replica);
  void run_lane(std::size_t lane, Step& step);
  void run_lanes(Step& step);
  void report(Step& step, std::int64_t replica, Outcome outcome);
  void reset_buffers(Tower& tower);
  Gradients copy_of(const Gradients& gradients);

  const Head* head_;
  TowerOptions options_;
  /// The first is replica 0's, whose buffers are the process's.
  std::vector<std::unique_ptr<Tower>> towers_;
  std::vector<ModuleVariable> module_variables_;
  std::optional<Variables> variables_;
  /// Buffers as the last step left them: what every replica but 0 starts from.
  std::vector<at::Tensor> kept_buffers_;
  /// Flat gradients that are not in use.
  std::vector<at::Tensor> free_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace muster
