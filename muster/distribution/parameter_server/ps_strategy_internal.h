#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/parameter_server.h"
#include "muster/distribution/parameter_server/ps_layout_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/distribution/parameter_server/server_parts_internal.h"

namespace muster::internal {

/// The side of those that train, whatever kind of servers hold the variables: how they come to the
/// state of the run, and get the slots.
class PsStrategy : public Strategy {
 public:
  void check(const EstimatorOptions& options) const final;
  RunContract join(const RunContract& own) final;
  void attach(Participant& participant) final;
  void synchronize() final;
  std::optional<std::int64_t> last_step() final { return membership_.last_step(); }
  ReplicaRange replicas() const final { return group_->replicas(); }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) final;
  void fetch_slots() final;
  std::shared_ptr<CheckpointParts> begin_parts(std::int64_t step) final;
  void announce_end() final { membership_.announce_end(); }

 protected:
  PsStrategy(const RunConfig& config, const ParameterServerOptions& options)
      : config_(config),
        part_bytes_(options.part_bytes),
        membership_(config, options.peers),
        has_state_(config.is_chief()) {}

  /// How far the values of this task are, as others are to know it; -1 for no values.
  virtual Progress progress() const = 0;
  /// Whether the servers send this task their values at the beginning of a generation.
  virtual bool is_sent_state(const Source& source) const = 0;
  /// What these servers must be told of beside the terms of any run.
  virtual RunContract terms_of_run(RunContract own) const = 0;
  /// Logs what the terms of the run mean for these servers.
  virtual void log_terms(const RunContract& /*terms*/) const {}
  /// Hands over what this process has, and has the variables' next values written.
  virtual std::optional<StepResult> push(std::int64_t step, PartialSums own) = 0;
  /// Asks for the slots, and has them written.
  virtual void pull_slots() = 0;
  /// Whether servers have the values of the step that this chief is at, and of no other.
  virtual bool servers_are_at_its_step() const = 0;
  /// A generation has begun, with the state of the run.
  virtual void on_generation() {}

  std::size_t server_rank(std::size_t server) const { return group_->plan().trainers + server; }
  const std::string& server_name(std::size_t server) const {
    return group_->plan().members[server_rank(server)].task;
  }
  /// The server's next answer, with these buffers or none; nothing when the run has ended.
  std::optional<Values> take_answer(std::size_t server, const std::string& what,
                                    const std::vector<at::Tensor>& buffers);
  /// One from every server, written to the variables when all are there.
  std::optional<std::vector<Values>> take_answers(const std::string& what,
                                                  const std::vector<at::Tensor>& buffers);
  /// The part of an answer that a task goes on from.
  static RunSnapshot snapshot_of(const Values& values);
  /// What all servers have, written to the variables; nothing when the run has ended.
  std::optional<RunSnapshot> take_state();
  void ask_for_slots(bool without_parts = false);
  void take_slots();
  /// `without_parts` as it was asked for.
  void take_slots_of(std::size_t server, bool without_parts = false);
  /// Whether the server has any that are not empty.
  bool has_slots(std::size_t server) const;

  const RunConfig config_;
  /// As ParameterServerOptions has it.
  const std::uint64_t part_bytes_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  Participant* participant_ = nullptr;
  const Variables* variables_ = nullptr;
  std::optional<PsLayout> layout_;
  /// Whether this process is in the run, or the chief, from whom the run begins.
  bool has_state_;

 private:
  bool join_state(const Source& source);
  bool can_have_parts();
  bool do_servers_see_folder();

  /// Whether it has been in a generation.
  bool was_in_run_ = false;
  /// Whether the slots here are those of the variables' values.
  bool has_slots_ = false;
  std::optional<ServerParts> server_parts_;
  /// Whether servers see model_dir, once they were asked in this generation.
  std::optional<bool> is_folder_shared_;
  /// Of the last checkpoint in parts.
  std::weak_ptr<CheckpointParts> parts_;
};

/// Where all make each step together, with or without RunConfig::cluster.backup_replicas.
std::unique_ptr<Strategy> make_sync_strategy(const RunConfig& config,
                                             const ParameterServerOptions& options);
/// Where RunConfig::cluster.sync is false: this task's gradients become an update of their own, and
/// the task goes on with what the servers have then.
std::unique_ptr<Strategy> make_async_strategy(const RunConfig& config,
                                              const ParameterServerOptions& options);

}  // namespace muster::internal
