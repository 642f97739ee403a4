#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "muster/train/engine/checkpoint_source.h"
#include "muster/train/engine/local_participant.h"
#include "muster/train/engine/stepper.h"
#include "muster/train/engine/train_run.h"

namespace muster {

/// A run of training by gradients: a local part, a strategy that connects it with other processes,
/// a stepper, and a source of checkpoints.
class GradientRun final : public TrainRun {
 public:
  GradientRun(const EstimatorOptions& options, const RunContext& context, const InputFn& input_fn,
              RunSetup setup);
  ~GradientRun() override;

  double loss() override { return stepper_->loss(); }
  const EstimatorSpec& spec() const override { return stepper_->spec(); }
  std::int64_t step_examples() const override { return stepper_->examples(); }
  std::map<std::string, double> learning_rates() const override;
  std::vector<NamedTensor> variables() const override { return local_.state.variables(); }

  void open_input() override { local_.open_inputs(); }
  void log_begin() const override;
  StepOutcome make_step(Session& session) override;
  void gather() override;
  CheckpointContent content() const override { return source_.content(); }
  std::optional<int> leave(bool early) override;
  void end(int signal) override;

  std::shared_ptr<Model> current_model() { return local_.state.towers().current_model(); }

 private:
  void synchronize();

  LocalRun local_;
  const std::unique_ptr<Strategy> strategy_;
  LocalParticipant participant_;
  CheckpointSource source_;
  /// Last, since what it captured may hold the strategy's connections between devices.
  const std::unique_ptr<Stepper> stepper_;
};

/// Joins the cluster and restores the latest checkpoint.
std::unique_ptr<GradientRun> make_gradient_run(const EstimatorOptions& options,
                                               const RunContext& context, const InputFn& input_fn);

}  // namespace muster
