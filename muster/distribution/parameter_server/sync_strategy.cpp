#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/distribution/parameter_server/ps_strategy_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster::internal {
namespace {

/// Tasks that make each step together.
class SyncMembership final : public PsMembership {
 public:
  SyncMembership(const RunConfig& config, const ParameterServerOptions& options)
      : PsMembership(config, options) {}

 private:
  RunContract terms_of_run(RunContract own) const override {
    return terms_with_backups(std::move(own), config().cluster.backup_replicas);
  }
  void log_terms(const RunContract& terms) const override {
    log::info("SyncReplicasV2: replicas_to_aggregate={}; total_num_replicas={}",
              terms.replicas - config().cluster.backup_replicas, terms.replicas);
  }
  Progress progress() const override {
    if (!has_state()) return {.step = -1};
    const RunSnapshot own = participant().snapshot();
    return {own.step, own.skipped_batches};
  }
  bool is_sent_state(const Source& source) const override {
    return std::ranges::find(source.to, group().rank()) != source.to.end();
  }
};

/// Gradients of all tasks become one update, on all servers or on none.
class SyncReduction final : public PsReduction {
 public:
  SyncReduction(const ParameterServerOptions& options, PsMembership& membership)
      : PsReduction(options, membership) {}

  void end_generation() override {
    PsReduction::end_generation();
    sequence_ = 0;
    has_settled_ = false;
  }

 private:
  std::optional<StepResult> push(std::int64_t step, PartialSums own) override;
  void pull_slots() override {
    if (has_settled_) return;
    servers().ask_for_slots();
    servers().take_slots();
  }
  bool servers_are_at_its_step() const override { return !has_settled_; }
  std::vector<std::size_t> servers_that_made_it();

  /// Messages of steps in this generation.
  std::int64_t sequence_ = 0;
  /// Whether this chief stops without the step that it asked for, and has the slots of the one
  /// before.
  bool has_settled_ = false;
};

// For a chief that stops without waiting for the step: takes the slots that belong to its values.
// Servers answer while they wait for gradients, and make a step together. Those that made it before
// they were asked send the values first: the servers that are returned, whose slots come after. If
// there are any, the step is taken as usual.
std::vector<std::size_t> SyncReduction::servers_that_made_it() {
  servers().ask_for_slots();
  std::vector<std::size_t> made_it;
  for (std::size_t server = 0; server < servers().count(); ++server) {
    if (!servers().has_slots(server)) continue;
    const auto type = group().await(servers().rank(server), "the slots");
    if (!type) {
      throw Interrupted(StopSignals::received(),
                        "stopped by signal {} while waiting for {}: the slots",
                        StopSignals::received(), servers().name(server));
    }
    if (*type == kKind<SlotPiece>.number) {
      servers().take_slots_of(server);
    } else {
      made_it.push_back(server);
    }
  }
  return made_it;
}

std::optional<StepResult> SyncReduction::push(std::int64_t step, PartialSums own) {
  if (!tasks().check()) return std::nullopt;
  const StepNotes notes = notes_of(participant());
  const std::int64_t sequence = sequence_++;
  for (std::size_t server = 0; server < servers().count(); ++server) {
    PartialSums part{.present = own.present, .examples = own.examples, .losses = own.losses};
    for (const auto& [node, sum] : own.sums) {
      auto& mine = part.sums[node];
      if (!sum) continue;
      mine.emplace();
      mine->flat = sum->flat;
      for (std::size_t table = 0; table < sum->rows.size(); ++table) {
        mine->rows.push_back(servers().layout().rows_of(server, table, sum->rows[table]));
      }
    }
    StepNotes said = notes;
    if (server != 0) said.buffers.clear();
    servers().send(server, step_gradients(step, sequence, part, said, group().replicas(),
                                          servers().layout().flat(server)));
  }
  const std::string what = fmt::format("the values after step {}", step + 1);
  std::vector<std::size_t> owing_slots;
  if (!group().await(servers().rank(0), what)) {
    if (group().ended() || !config().is_chief()) return std::nullopt;
    owing_slots = servers_that_made_it();
    has_settled_ = owing_slots.empty();
    if (has_settled_) return std::nullopt;
  }
  auto values = servers().take_answers(what, notes.buffers);
  if (!values) return std::nullopt;
  for (const std::size_t server : owing_slots) servers().take_slots_of(server);
  StepResult result = result_of(values->front().outcome);
  result.positions = std::move(values->front().positions);
  // Others may have made steps without this task.
  if (config().cluster.backup_replicas > 0) result.step = values->front().step;
  return result;
}

std::string describe_sync(const RunConfig& config) {
  const std::string backups =
      config.cluster.backup_replicas == 0
          ? std::string()
          : fmt::format(
                "; a step is made without the last {} replicas, and the weights depend on which",
                config.cluster.backup_replicas);
  return fmt::format("parameter server, synchronous: {} tasks train, {} hold the variables{}",
                     config.cluster.task.num_worker_replicas, config.cluster.task.num_ps_replicas,
                     backups);
}

}  // namespace

std::unique_ptr<Strategy> make_sync_strategy(const RunConfig& config,
                                             const ParameterServerOptions& options) {
  auto membership = std::make_unique<SyncMembership>(config, options);
  auto reduction = std::make_unique<SyncReduction>(options, *membership);
  return make_ps_strategy(describe_sync(config), std::move(membership), std::move(reduction));
}

}  // namespace muster::internal
