#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {
namespace {

/// Where all make each step together.
class SyncPsStrategy final : public PsStrategy {
 public:
  SyncPsStrategy(const RunConfig& config, const ParameterServerOptions& options)
      : PsStrategy(config, options) {}

  std::string describe() const override {
    const std::string backups =
        config_.cluster.backup_replicas == 0
            ? std::string()
            : fmt::format(
                  "; a step is made without the last {} replicas, and the weights depend on which",
                  config_.cluster.backup_replicas);
    return fmt::format("parameter server, synchronous: {} tasks train, {} hold the variables{}",
                       config_.cluster.task.num_worker_replicas,
                       config_.cluster.task.num_ps_replicas, backups);
  }
  void end(std::int64_t step, int signal) override { membership_.end(step, signal); }
  int leave(bool early) override { return membership_.leave(early); }

 private:
  RunContract terms_of_run(RunContract own) const override {
    return terms_with_backups(std::move(own), config_.cluster.backup_replicas);
  }
  void log_terms(const RunContract& terms) const override {
    log::info("SyncReplicasV2: replicas_to_aggregate={}; total_num_replicas={}",
              terms.replicas - config_.cluster.backup_replicas, terms.replicas);
  }
  Progress progress() const override;
  std::optional<StepResult> push(std::int64_t step, PartialSums own) override;
  void pull_slots() override {
    if (has_settled_) return;
    ask_for_slots();
    take_slots();
  }
  bool servers_are_at_its_step() const override { return !has_settled_; }
  bool is_sent_state(const Source& source) const override {
    return std::ranges::find(source.to, group_->rank()) != source.to.end();
  }
  void on_generation() override {
    sequence_ = 0;
    has_settled_ = false;
  }
  std::vector<std::size_t> servers_that_made_it();

  /// Messages of steps in this generation.
  std::int64_t sequence_ = 0;
  /// Whether this chief stops without the step that it asked for, and has the slots of the one
  /// before.
  bool has_settled_ = false;
};

Progress SyncPsStrategy::progress() const {
  if (!has_state_) return {.step = -1};
  const RunSnapshot own = participant_->snapshot();
  return {own.step, own.skipped_batches};
}

// For a chief that stops without waiting for the step: takes the slots that belong to its values.
// Servers answer while they wait for gradients, and make a step together. Those that made it before
// they were asked send the values first: the servers that are returned, whose slots come behind. If
// there are any, the step is taken as ever.
std::vector<std::size_t> SyncPsStrategy::servers_that_made_it() {
  ask_for_slots();
  std::vector<std::size_t> servers;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    if (!has_slots(server)) continue;
    const auto type = group_->await(server_rank(server), "the slots");
    if (!type) {
      throw Interrupted(StopSignals::received(),
                        "stopped by signal {} while waiting for {}: the slots",
                        StopSignals::received(), server_name(server));
    }
    if (*type == kKind<SlotPiece>.number) {
      take_slots_of(server);
    } else {
      servers.push_back(server);
    }
  }
  return servers;
}

std::optional<StepResult> SyncPsStrategy::push(std::int64_t step, PartialSums own) {
  if (!membership_.check()) return std::nullopt;
  const StepNotes notes = notes_of(*participant_);
  const std::int64_t sequence = sequence_++;
  for (std::size_t server = 0; server < layout_->servers(); ++server) {
    PartialSums part{.present = own.present, .examples = own.examples, .losses = own.losses};
    for (const auto& [node, sum] : own.sums) {
      auto& mine = part.sums[node];
      if (!sum) continue;
      mine.emplace();
      mine->flat = sum->flat;
      for (std::size_t table = 0; table < sum->rows.size(); ++table) {
        mine->rows.push_back(layout_->rows_of(server, table, sum->rows[table]));
      }
    }
    StepNotes said = notes;
    if (server != 0) said.buffers.clear();
    group_->send(server_rank(server), step_gradients(step, sequence, part, said, group_->replicas(),
                                                     layout_->flat(server)));
  }
  const std::string what = fmt::format("the values after step {}", step + 1);
  std::vector<std::size_t> owing_slots;
  if (!group_->await(server_rank(0), what)) {
    if (group_->ended() || !config_.is_chief()) return std::nullopt;
    owing_slots = servers_that_made_it();
    has_settled_ = owing_slots.empty();
    if (has_settled_) return std::nullopt;
  }
  auto values = take_answers(what, notes.buffers);
  if (!values) return std::nullopt;
  for (const std::size_t server : owing_slots) take_slots_of(server);
  StepResult result = result_of(values->front().outcome);
  result.positions = std::move(values->front().positions);
  // Others may have made steps without this task.
  if (config_.cluster.backup_replicas > 0) result.step = values->front().step;
  return result;
}

}  // namespace

std::unique_ptr<Strategy> make_sync_strategy(const RunConfig& config,
                                             const ParameterServerOptions& options) {
  return std::make_unique<SyncPsStrategy>(config, options);
}

}  // namespace muster::internal
