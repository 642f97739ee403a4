#pragma once

#include <cstdint>
#include <optional>

#include "muster/distribution/membership/group_internal.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/train/engine/run_membership.h"

namespace muster::internal {

/// The RunMembership of a task that trains in a cluster, as far as all strategies have it alike.
class ClusterMembership : public RunMembership {
 public:
  ClusterMembership(const RunConfig& config, const PeerOptions& options)
      : config_(config), tasks_(config, options), has_state_(config.is_chief()) {}

  /// The participant outlives it.
  void attach(Participant& participant) { participant_ = &participant; }
  std::optional<std::int64_t> last_step() final { return tasks_.last_step(); }
  ReplicaRange replicas() const final { return group_->replicas(); }
  void announce_end() final { tasks_.announce_end(); }
  void end(std::int64_t step, int signal) override { tasks_.end(step, signal); }
  int leave(bool early) final { return tasks_.leave(early); }

  const RunConfig& config() const { return config_; }
  Membership& tasks() { return tasks_; }
  const Membership& tasks() const { return tasks_; }
  /// The current one, after the first synchronize().
  Group& group() const { return *group_; }
  Participant& participant() const { return *participant_; }
  /// Whether this process holds a state of the run. The chief does, from whom it begins.
  bool has_state() const { return has_state_; }

 protected:
  void set_group(Group& group) { group_ = &group; }
  /// This process has come to the state of the run.
  void note_state() { has_state_ = true; }

 private:
  const RunConfig config_;
  Membership tasks_;
  Group* group_ = nullptr;
  Participant* participant_ = nullptr;
  bool has_state_;
};

}  // namespace muster::internal
