#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <typeinfo>

#include "muster/base/torch_fwd.h"
#include "muster/cluster/task_spec_def.h"
#include "muster/estimator/estimator.h"

namespace muster {

/// What a training loop written by hand trains: a module of any kind, and how its gradients become
/// updates.
struct HandWrittenModel {
  /// Makes the module with its first values; called once for each replica that runs at a time.
  std::function<std::shared_ptr<torch::nn::Module>()> module{};
  /// Every trainable variable belongs to the one with the longest prefix of its name, which begins
  /// with "model/".
  OptimizersByPrefix optimizer{};
  ClipOptions clip{};
  WeightDecay weight_decay{};
  NanPolicy nan_policy{};
  std::optional<WarmStartSettings> warm_start{};
};

struct DistributedSessionOptions {
  /// Where checkpoints go, how often, how many replicas there are: model_dir is what TensorLayer
  /// calls checkpoint_dir. Where `devices` names none, modules are on the CPU.
  RunConfig config{};
  /// This process's place in the cluster; not set: config.cluster.task, which RunConfig::from_env()
  /// reads.
  std::optional<TaskSpecDef> task_spec{};
  /// The run ends at this global step; not set: when the input ends, or the loop closes it.
  std::optional<std::int64_t> last_step{};
  Hooks hooks{};
  /// Used by the chief alone.
  Hooks chief_only_hooks{};
  /// The batches of each replica, whose positions are then saved with the weights. Not set: the
  /// loop makes its own, as a function of ReplicaBatch's numbers.
  InputFn input_fn{};
};

/// What a step of one replica is made of.
struct ReplicaBatch {
  std::int64_t replica = 0;
  /// How many the run has: this one's share of the data is part `replica` of `replicas`.
  std::int64_t replicas = 1;
  /// 0, 1, 2, ...: which of this replica's batches it is. A batch that is a function of this and
  /// of `replica` makes a run that is resumed the same as one that never stopped.
  std::int64_t number = 0;
  /// What input_fn gave; empty without one.
  Batch batch{};
};

/// A cluster, checkpoints and hooks for a training loop written by hand:
///
///   DistributedSession session({.module = ..., .optimizer = ...}, {.config = ...});
///   while (!session.should_stop()) {
///     session.run<Net>([&](Net& net, const ReplicaBatch& at) { return loss(net, at); });
///   }
///   session.close();
///
/// All tasks run the same loop. Values come from the chief, or from its checkpoint; every run()
/// makes one step of all replicas, whoever runs them, and the weights are those of one process. A
/// ps holds variables while the constructor runs, and then should_stop(). Belongs to one thread.
class DistributedSession {
 public:
  /// The loss of one replica's batch: a tensor of one element that gradients flow from. It is
  /// called once for each replica of this process, by the thread that calls run() or, where several
  /// replicas run at a time, by threads of the session's while run() waits; twice for one batch
  /// when a task is lost meanwhile.
  using StepFn = std::function<at::Tensor(torch::nn::Module& module, const ReplicaBatch& batch)>;

  /// Joins the cluster. Throws what Estimator::train throws before its first step, and
  /// FailedPrecondition in an evaluator, which does not train.
  DistributedSession(HandWrittenModel model, DistributedSessionOptions options);
  /// Without close() a run that has not ended is left as it is: nothing more is saved, and others
  /// take this task for lost.
  ~DistributedSession();
  DistributedSession(const DistributedSession&) = delete;
  DistributedSession& operator=(const DistributedSession&) = delete;

  /// Whether there are no more steps to make: last_step, the input's end, a hook, a signal, or the
  /// chief ended the run.
  bool should_stop() const;
  /// Makes one step, and saves what is due. The run may end instead: look at should_stop(). Throws
  /// what a step throws (the function's own errors, lost peers, a loss that is not finite), after
  /// which the session is over; FailedPrecondition when it was over before.
  void run(const StepFn& step);
  /// The same for a function of the module's own type. Throws InvalidArgument for another one.
  template <typename Net, typename Step>
  void run(Step step) {
    run([&step](torch::nn::Module& module, const ReplicaBatch& batch) -> at::Tensor {
      auto* net = dynamic_cast<Net*>(&module);
      if (net == nullptr) throw_wrong_module(module, typeid(Net).name());
      return step(*net, batch);
    });
  }

  /// Steps made so far, those of earlier runs too.
  std::int64_t global_step() const;
  /// Of the last step, over all replicas; nothing before the first.
  std::optional<double> loss() const;
  const RunConfig& config() const;
  bool is_chief() const { return config().is_chief(); }
  /// The module with the values as they are between two steps. In a ps there is none: throws
  /// FailedPrecondition.
  torch::nn::Module& module() const;

  /// Ends the run, for all tasks if this is the chief, with a last checkpoint. Throws Interrupted
  /// when a signal ended it, and what went wrong while it ended.
  TrainResult close();

 private:
  [[noreturn]] static void throw_wrong_module(const torch::nn::Module& module, const char* wanted);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
