#pragma once

#include <memory>
#include <optional>

#include "muster/distribution/parameter_server/ps_membership_internal.h"
#include "muster/train/engine/gradient_reduction.h"

namespace muster::internal {

/// Pushes gradients to servers, which update, and pulls values; gets their slots for checkpoints,
/// or has them write these themselves.
class PsReduction : public GradientReduction {
 public:
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) final;
  void fetch_slots() final;
  std::shared_ptr<CheckpointParts> begin_parts(std::int64_t step) final;

  /// The servers may be others from here on.
  virtual void end_generation();

 protected:
  /// The membership outlives it.
  PsReduction(const ParameterServerOptions& options, PsMembership& membership)
      : part_bytes_(options.part_bytes), membership_(membership) {}

  const RunConfig& config() const { return membership_.config(); }
  Membership& tasks() { return membership_.tasks(); }
  Group& group() const { return membership_.group(); }
  Participant& participant() const { return membership_.participant(); }
  PsServers& servers() { return membership_.servers(); }
  const PsServers& servers() const { return membership_.servers(); }

 private:
  /// Hands over what this process has, and has the variables' next values written.
  virtual std::optional<StepResult> push(std::int64_t step, PartialSums own) = 0;
  /// Asks for the slots, and has them written.
  virtual void pull_slots() = 0;
  /// Whether servers have the values of the step that this chief is at, and of no other.
  virtual bool servers_are_at_its_step() const = 0;

  bool can_have_parts();
  bool do_servers_see_folder();

  /// As ParameterServerOptions has it.
  const std::uint64_t part_bytes_;
  PsMembership& membership_;
  /// Whether the slots here are those of the variables' values.
  bool has_slots_ = false;
  /// Whether servers see model_dir, once they were asked in this generation.
  std::optional<bool> is_folder_shared_;
  /// Parts of the last checkpoint that was begun in parts.
  std::weak_ptr<CheckpointParts> parts_;
};

}  // namespace muster::internal
