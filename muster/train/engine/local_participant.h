#pragma once

#include <optional>
#include <vector>

#include "muster/train/engine/local_run.h"

namespace muster {

/// The run of this process as its strategy sees it. Belongs to the loop's thread.
class LocalParticipant final : public Participant, public HeldParts {
 public:
  /// The run outlives it.
  explicit LocalParticipant(LocalRun& run) : run_(run) {}

  const Variables& run_variables() const override { return run_.state.towers().variables(); }
  const Updater& run_updater() const override { return run_.state.updater(); }
  const std::vector<at::Tensor>& buffers() const override { return run_.state.towers().buffers(); }
  InputPositions positions() override { return run_.inputs.positions_now(run_.mine); }
  StepResult update(std::int64_t step, PartialSums total) override;
  std::optional<StepResult> update_held(std::int64_t step, PartialSums total,
                                        const JoinNorms& join) override;
  StepResult prepare_local_gradients(PartialSums& own) override;
  double decay_loss() const override;
  RunSnapshot snapshot() override;
  void restore_snapshot(const RunSnapshot& from) override { run_.restore_snapshot(from); }
  void roll_back_to_checkpoint() override { run_.roll_back_or_begin_again(); }
  HeldParts& held_parts() override { return *this; }

  void hold(const FlatRange& range) override { run_.state.hold(range); }
  std::vector<TensorPart> held() const override { return run_.state.held(); }
  ReadSaved last_saved() override;
  EncodedTensors encoded() const override { return run_.state.encoded_held(); }

  /// Computes decay_loss() of the step that is being made now, and not when the strategy asks.
  void compute_decay_loss_ahead() { decay_loss_ahead_ = weight_decay(); }

 private:
  double weight_decay() const;
  std::optional<SquareSums> norms_of(const Gradients& mean, const JoinNorms& join) const;

  LocalRun& run_;
  std::optional<double> decay_loss_ahead_;
};

}  // namespace muster
