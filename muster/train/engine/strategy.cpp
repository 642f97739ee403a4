#include "muster/train/engine/strategy.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint_parts.h"

namespace muster {
namespace {

class LocalMembership final : public RunMembership {
 public:
  RunContract join(const RunContract& own) override {
    replicas_ = {0, own.replicas};
    return own;
  }
  void synchronize() override {}
  ReplicaRange replicas() const override { return replicas_; }
  void end(std::int64_t /*step*/, int /*signal*/) override {}
  int leave(bool /*early*/) override { return 0; }

 private:
  ReplicaRange replicas_;
};

class LocalReduction final : public GradientReduction {
 public:
  void attach(Participant& participant) { participant_ = &participant; }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override {
    return participant_->update(step, std::move(own));
  }

 private:
  Participant* participant_ = nullptr;
};

class LocalStrategy final : public Strategy {
 public:
  std::string describe() const override { return "local: one process runs all replicas"; }
  void attach(Participant& participant) override { reduction_.attach(participant); }
  RunMembership& membership() override { return membership_; }
  GradientReduction& reduction() override { return reduction_; }

 private:
  LocalMembership membership_;
  LocalReduction reduction_;
};

}  // namespace

std::optional<StepResult> Participant::update_held(std::int64_t /*step*/, PartialSums /*total*/,
                                                   const JoinNorms& /*join*/) {
  throw Internal("gradients are divided in a run whose participant updates all of them");
}

HeldParts& Participant::held_parts() {
  throw Internal("a process that holds all slots is asked for a part of them");
}

std::shared_ptr<CheckpointParts> GradientReduction::begin_parts(std::int64_t /*step*/) {
  return nullptr;
}

std::optional<StepResult> GradientReduction::step_on_device(std::int64_t step,
                                                            std::span<const std::optional<Batch>>,
                                                            const GiveStep&) {
  throw Internal("step {} is to be made on a device, and there is an obstacle to it", step);
}

std::unique_ptr<Strategy> make_local_strategy() { return std::make_unique<LocalStrategy>(); }

}  // namespace muster
