#include "muster/distribution/parameter_server/step_updates_internal.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/train/engine/arithmetic.h"

namespace muster::internal {

StepUpdates::StepUpdates(ParameterShard& held, const EstimatorOptions& options,
                         const ParameterServerOptions& server_options)
    : held_(held),
      options_(options),
      server_options_(server_options),
      update_(held.variables, held.updater, options.update_rules(),
              held.layout.shard(held.number)) {}

RunContract StepUpdates::terms(RunContract own) const {
  return terms_with_backups(std::move(own), held_.config.cluster.backup_replicas);
}

void StepUpdates::log_end() {
  log::info("the run has ended at step {}", held_.step);
  // The chief has saved it: who trains on from here begins with the checkpoint.
  if (log_ && log_->is_open()) log_->ended(held_.step, held_.skipped_batches);
}

// --------------------------------------------------------------------------------- generations

bool StepUpdates::begin(const Source& source) {
  if (!take_source(source)) return false;
  const bool is_of_before = log_ && log_->run() != held_.membership.log_run();
  if (log_ && (source.go_back || is_of_before || !log_->is_open())) begin_log();
  on_generation();
  return true;
}

bool StepUpdates::take_source(const Source& source) {
  if (source.go_back) {
    held_.take_snapshot(source.rank);
    pending_.reset();
    return true;
  }
  Group& group = *held_.group;
  if (std::ranges::find(source.to, group.rank()) != source.to.end()) {
    if (!catch_up(source)) return false;
  } else if (group.rank() == source.rank) {
    for (const std::size_t to : source.to) {
      if (to < held_.trainers()) continue;
      group.send(to, Norms{.step = held_.step, .squares = {last_squares_}});
    }
  }
  pending_.reset();
  for (const std::size_t to : source.to) {
    if (to < held_.trainers()) group.send(to, held_.state_values());
  }
  return true;
}

// Others have made the step that is pending here: by their norms this task makes it too.
bool StepUpdates::catch_up(const Source& source) {
  const std::string& task = held_.membership.task();
  if (!pending_) {
    // A log may be older than the others' steps when the machine, and not the task alone, failed.
    // Without one, this task went back to a checkpoint in a generation that ended before the
    // others did. Either way it has nothing that is worth a step, and all go back.
    log::warning("{} is at step {}, others are at {}, and {}", task, held_.step,
                 source.progress.step,
                 log_ ? "its log ends before: restarting the log"
                      : "it has no gradients to go on with: all go back to the last checkpoint");
    held_.has_state = false;
    throw PeersChanged("{} has lost its steps", task);
  }
  SquareSums sums(held_.variables);
  auto norms = held_.group->take<Norms>(source.rank, "the norms of the step");
  if (!norms) return false;
  if (norms->squares.values.size() != sums.blocks().size()) {
    throw DataLoss("norms of {} blocks came where {} were due", norms->squares.values.size(),
                   sums.blocks().size());
  }
  sums.blocks() = std::move(norms->squares.values);
  commit(sums);
  return true;
}

// --------------------------------------------------------------------------------- a step

bool StepUpdates::serve_next() {
  auto received = gather();
  if (!received) return false;
  add_up(std::move(*received));
  if (pending_->outcome.present == 0) {
    answer(*pending_);
    pending_.reset();
    return true;
  }
  // Before the others hear of it: who has it in its log can make it whenever it comes back.
  if (log_) log_->prepared(held_.step, held_.skipped_batches, *pending_);
  take_gradients();
  SquareSums sums = pending_->outcome.not_finite.empty() ? update_.norms(held_.gradients)
                                                         : SquareSums(held_.variables);
  if (!exchange_norms(sums)) return false;
  commit(sums);
  answer(*pending_);
  pending_.reset();
  if (log_ && log_->is_due()) begin_log();
  return true;
}

// After this the step can be made.
void StepUpdates::add_up(std::vector<ReceivedStep> received) {
  const std::int64_t replicas = held_.membership.terms().replicas;
  PendingStep pending{.positions = held_.state.inputs};
  pending.positions.resize(static_cast<std::size_t>(replicas));
  for (std::size_t rank = 0; rank < received.size(); ++rank) {
    ReceivedStep& other = received[rank];
    pending.pushes.push_back({held_.group->task(rank), other.replicas.first, other.replicas.last});
    take_positions(other, pending.positions);
    if (!other.buffers.empty()) pending.buffers = other.buffers;
  }
  PartialSums total = add_parts(replicas, {}, std::move(received));
  pending.outcome = {.present = total.present,
                     .examples = total.examples,
                     .losses = total.losses,
                     .not_finite = all_finite(total.losses) ? "" : "loss"};
  if (total.present > 0) pending.mean = take_mean(total);
  pending_ = std::move(pending);
}

// From the mean of the replicas to what the optimizers get, except for what needs the norms of all.
void StepUpdates::take_gradients() {
  if (held_.layout.holds_all(held_.number)) {
    held_.gradients.flat = pending_->mean.flat;
  } else {
    held_.layout.scatter(held_.number, pending_->mean.flat, held_.gradients.flat);
  }
  held_.gradients.rows = pending_->mean.rows;
  if (!pending_->outcome.not_finite.empty()) return;
  update_.prepare(held_.gradients);
}

// Norms of the other servers, by rank. Other messages that come meanwhile are for later steps, or
// of a chief that stops and asks for the slots, which are still those of the step before.
std::optional<std::vector<Norms>> StepUpdates::take_norms() {
  Group& group = *held_.group;
  std::vector<Norms> norms(group.size());
  std::vector<bool> came(group.size(), false);
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    came[rank] = rank < held_.trainers() || rank == group.rank();
  }
  const auto missing = [&] {
    return static_cast<std::size_t>(std::ranges::find(came, false) - came.begin());
  };
  const auto reason = [&] {
    return fmt::format("{}: the norms of step {}", group.task(missing()), held_.step + 1);
  };
  while (missing() < came.size()) {
    auto arrival = group.take_next(group.size(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    auto& [rank, frame] = *arrival;
    if (is_message<Norms>(frame) && !came[rank]) {
      norms[rank] = group.decode_from<Norms>(rank, std::move(frame));
      came[rank] = true;
    } else {
      handle_out_of_band(rank, std::move(frame));
    }
  }
  return norms;
}

// Exchanges what servers need before the step: norms, and that every server has its gradients.
// False when the run has ended.
bool StepUpdates::exchange_norms(SquareSums& sums) {
  Group& group = *held_.group;
  const Norms own{.step = held_.step, .squares = {sums.blocks()}};
  for (std::size_t rank = held_.trainers(); rank < group.size(); ++rank) {
    if (rank != group.rank()) group.send(rank, own);
  }
  const auto norms = take_norms();
  if (!norms) return false;
  std::vector<double>& blocks = sums.blocks();
  for (std::size_t rank = held_.trainers(); rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    const Norms& theirs = (*norms)[rank];
    if (theirs.step != held_.step || theirs.squares.values.size() != blocks.size()) {
      throw DataLoss("{} sent norms of another step or model", group.task(rank));
    }
    // Every block is one server's, and 0 for the others: the order does not matter.
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] += theirs.squares.values[i];
  }
  return true;
}

// With the norms of all, every server comes to the same.
void StepUpdates::decide(const SquareSums& sums) {
  StepResult& outcome = pending_->outcome;
  if (outcome.not_finite.empty() && !update_.is_finite(held_.gradients, sums)) {
    outcome.not_finite = "gradient";
  }
}

void StepUpdates::commit(SquareSums& sums) {
  decide(sums);
  last_squares_ = sums.blocks();
  // Before anybody can know of it.
  if (log_) {
    log_->committed(held_.step, held_.skipped_batches, last_squares_,
                    !pending_->outcome.not_finite.empty());
  }
  make_update(sums);
}

// The step itself.
void StepUpdates::make_update(const SquareSums& sums) {
  held_.state.inputs = pending_->positions;
  if (!pending_->outcome.not_finite.empty()) {
    ++held_.skipped_batches;
    return;
  }
  held_.wait_until_copied();
  update_.apply(held_.gradients, held_.step, sums);
  held_.take_buffers(pending_->buffers);
  ++held_.step;
}

// --------------------------------------------------------------------------------- the log

// Rules by which a step is made: with others the steps of a log would give other values.
std::vector<std::string> StepUpdates::rules() const {
  std::vector<std::string> rules = held_.updater.descriptions();
  // Schedules are functions: they are known by what they give.
  for (const std::int64_t step : {0, 1, 100, 1'000, 10'000, 100'000}) {
    for (const Updater::Rate& rate : held_.updater.learning_rates(step)) {
      rules.push_back(fmt::format("{} {} {}", rate.prefix, step, rate.learning_rate));
    }
  }
  const ClipOptions& clip = options_.clip;
  rules.push_back(fmt::format("clip {} {} {}", clip.value.value_or(0), clip.norm.value_or(0),
                              clip.global_norm.value_or(0)));
  rules.push_back(fmt::format("decay {} skip {}", options_.weight_decay.factor,
                              update_.rules().checks_gradients));
  rules.push_back(numerics_fingerprint(held_.config.reproducibility.own_cpu_kernels).fingerprint());
  return rules;
}

void StepUpdates::make_log() {
  const Path folder =
      held_.config.model_dir / "ps_log" / fmt::format("{}-{}", job::kPs, held_.number);
  if (!log_claim_) log_claim_.emplace(folder);
  const StepLogIdentity identity{
      .run = held_.membership.log_run(),
      .task = held_.membership.task(),
      .model = model_digest(held_.snapshot().tensors, held_.layout.servers(), rules()),
      .replicas = held_.membership.terms().replicas};
  log_.emplace(folder, server_options_.log_bytes, identity,
               held_pieces(held_.layout, held_.number, held_.variables, held_.updater));
}

// Brings this task to where it was when it was killed, if it was.
void StepUpdates::open_log() {
  if (!held_.config.cluster.ps_log) return;
  if (held_.membership.log_run().empty()) {
    throw FailedPrecondition(
        "RunConfig::cluster.ps_log is set for {}, but not for {}: give all tasks the "
        "same configuration",
        held_.membership.task(), held_.membership.chief().task.name());
  }
  make_log();
  const ExpectedTensors logged{.flat_size = held_.layout.flat_size(held_.number),
                               .tables = table_shapes(held_.variables),
                               .buffers = held_.buffers};
  const bool found = log_->recover(
      logged, {.base = [this](const PsLog::Base& base) { replay_base(base); },
               .prepared =
                   [this](PendingStep step) {
                     pending_ = std::move(step);
                     take_gradients();
                   },
               .committed = [this](const std::vector<double>& squares,
                                   bool is_left_out) { replay_commit(squares, is_left_out); }});
  if (found) {
    log::info("going on from step {} of the log in {}{}", held_.step, log_->folder().string(),
              pending_ ? ", with the next one prepared" : "");
  }
}

void StepUpdates::replay_base(const PsLog::Base& base) {
  held_.state = parse_run_state(base.state_json, "the state in the log");
  held_.step = base.step;
  held_.skipped_batches = base.skipped_batches;
  held_.inputs_from = base.inputs_from;
  last_squares_ = base.squares;
  held_.has_state = true;
}

void StepUpdates::replay_commit(const std::vector<double>& squares, bool is_left_out) {
  SquareSums sums(held_.variables);
  if (squares.size() != sums.blocks().size()) {
    throw DataLoss("step {} has norms of {} blocks in the log, and the model has {}",
                   held_.step + 1, squares.size(), sums.blocks().size());
  }
  sums.blocks() = squares;
  last_squares_ = squares;
  decide(sums);
  if (pending_->outcome.not_finite.empty() == is_left_out) {
    throw DataLoss(
        "step {} was {} when it was logged, and now is not: options of the estimator "
        "have changed",
        held_.step + 1, is_left_out ? "skipped" : "made");
  }
  make_update(sums);
  pending_.reset();
}

// With what this task holds now.
void StepUpdates::begin_log() {
  if (log_->run() != held_.membership.log_run()) make_log();
  held_.state.global_step = held_.step;
  log_->begin({.step = held_.step,
               .skipped_batches = held_.skipped_batches,
               .inputs_from = held_.inputs_from,
               .state_json = to_json(held_.state),
               .squares = last_squares_});
}

}  // namespace muster::internal
