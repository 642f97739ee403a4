#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <typeinfo>

#include "muster/base/torch_fwd.h"
#include "muster/platform/cluster/task_spec_def.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/estimator/estimator.h"

namespace muster {

/// Model of a training loop written by hand: a module of any kind, and how its gradients become
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

/// Input of a step of one replica.
struct ReplicaBatch {
  std::int64_t replica = 0;
  /// How many the run has: this one's share of the data is part `replica` of `replicas`.
  std::int64_t replicas = 1;
  /// 0, 1, 2, ...: which of this replica's batches it is. A batch that is a function of this and
  /// of `replica` makes a run that is resumed the same as one that never stopped.
  std::int64_t number = 0;
  /// Batch that input_fn returned; empty without one.
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
/// makes one step of all replicas, in whichever task they run, and the weights are those of one
/// process. A ps holds variables while the constructor runs, and then should_stop(). Belongs to one
/// thread.
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
  /// Loss of the last step, over all replicas; nothing before the first.
  std::optional<double> loss() const;
  const RunConfig& config() const;
  bool is_chief() const { return config().is_chief(); }
  /// The module with the values as they are between two steps, on the device that it trains on.
  /// Where the variables are elsewhere a call brings it their values: call it again after a step.
  /// In a ps there is none, nor after a signal that came before the first step: throws
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

struct FollowCheckpointsOptions {
  /// The run's last step: with its checkpoint the following ends. Not set: when the run does.
  std::optional<std::int64_t> last_step{};
  /// Between the begins of two evaluations, at least; the last checkpoint always gets its own.
  std::chrono::seconds throttle_secs{0};
};

/// For an evaluation written by hand, beside a training: calls the function with the newest
/// checkpoint of config.model_dir whenever there is a new one, which is kept while it works. Ends
/// with the last checkpoint: that of last_step, or when the run's chief has said that it is over;
/// or when the function returns false.
///
/// Throws what the function throws; Unavailable when no new checkpoint comes for
/// session_creation_timeout_secs; NotFound when the run ends without one; Interrupted after a
/// signal.
void follow_checkpoints(const RunConfig& config, const FollowCheckpointsOptions& options,
                        const std::function<bool(const Path& checkpoint)>& evaluate);

/// Gives a module the values that a DistributedSession saved of one like it. Throws NotFound,
/// naming what the checkpoint lacks, and InvalidArgument, naming the variable and both shapes; then
/// nothing is changed.
void load_checkpoint(const Path& checkpoint, const std::shared_ptr<torch::nn::Module>& module);

/// For steps that are composed by hand: saves all state of a loop, as tensors() of Variables,
/// Updater and MovingAverage name it, as the checkpoint of `step` in a model folder, and returns
/// its prefix. Readers see all of it or nothing; the newest five are kept. Throws as
/// CheckpointStore::save() does, and InvalidArgument for a name that comes twice.
Path save_checkpoint(const Path& model_dir, std::int64_t step,
                     const std::vector<NamedTensor>& state);

/// Copies the newest whole checkpoint of a model folder into the state and returns its step.
/// Nothing where the folder has none. Throws NotFound, naming what the checkpoint lacks, and
/// InvalidArgument, naming the variable and both shapes; then nothing is changed.
std::optional<std::int64_t> restore_checkpoint(const Path& model_dir,
                                               const std::vector<NamedTensor>& state);

}  // namespace muster
