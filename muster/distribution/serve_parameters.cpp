#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/folder_claim.h"
#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/distribution/changed_rows_internal.h"
#include "muster/distribution/ps_log_internal.h"
#include "muster/distribution/ps_values_internal.h"
#include "muster/distribution/serve_async_internal.h"
#include "muster/distribution/snapshot_internal.h"
#include "muster/distribution/step_choice_internal.h"
#include "muster/distribution/variable_holder_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"
#include "muster/engine/arithmetic.h"
#include "muster/engine/run_state.h"
#include "muster/optim/update.h"

namespace muster {
namespace internal {
namespace {

/// A task that makes each step for its part of the variables when all others can make it too.
class Server : VariableHolder {
 public:
  Server(const EstimatorOptions& options, const RunConfig& config,
         const ParameterServerOptions& server_options);

  void run();

 private:
  bool synchronize();
  bool take_source(const Source& source);
  bool make_step();
  std::optional<std::vector<ReceivedStep>> take_pushes();
  void compare_batches(const std::vector<ReceivedStep>& received);
  // Where the last replicas are not waited for.
  bool has_backups() const { return config_.backup_replicas > 0; }
  void begin_choices();
  void take_frame(std::size_t rank, net::Frame frame);
  std::optional<StepChoice> choose();
  std::optional<StepChoice> hear_choice();
  std::optional<std::vector<ReceivedStep>> take_first_pushes();
  void answer_chosen();
  void prepare(std::vector<ReceivedStep> received);
  void take_gradients();
  std::optional<std::vector<Norms>> take_squares();
  bool exchange_squares(SquareSums& sums);
  void commit(SquareSums& sums);
  void decide(const SquareSums& sums);
  void make_update(const SquareSums& sums);
  void send_values();
  void send_state(std::size_t to);
  std::size_t trainers() const { return group_->plan().trainers; }
  // The log, where there is one.
  std::vector<std::string> rules() const;
  void make_log();
  void open_log();
  void begin_log();
  void replay_base(const PsLog::Base& base);
  void replay_commit(const std::vector<double>& squares, bool is_left_out);

  const EstimatorOptions& options_;
  const ParameterServerOptions server_options_;
  /// Of what this task holds; what others hold of the gradients is 0 here, and stays it.
  HostUpdate update_;
  std::int64_t inputs_from_ = 0;
  RunState state_;
  std::int64_t sequence_ = 0;
  bool has_compared_batches_ = false;
  std::optional<PendingStep> pending_;
  // With backups: what waits for an answer, and by rank what its task lacks.
  WaitingPushes waiting_;
  std::vector<ChangedRows> changed_;
  StepChoice choice_;
  StepResult last_outcome_;
  std::int64_t late_pushes_ = 0;
  std::int64_t steps_without_all_ = 0;
  /// Of the last step that was made: by them another server makes it too.
  std::vector<double> last_squares_;
  /// Two tasks that wrote to one log would spoil it.
  std::optional<FolderClaim> log_claim_;
  std::optional<PsLog> log_;
};

Server::Server(const EstimatorOptions& options, const RunConfig& config,
               const ParameterServerOptions& server_options)
    : VariableHolder(options, config, server_options),
      options_(options),
      server_options_(server_options),
      update_(variables_, updater_, options.update_rules(), layout_.shard(number_)) {}

void Server::run() {
  const StopSignals signals = outlast_signals();
  membership_.join(terms_with_backups(own_terms(), config_.backup_replicas));
  const torch::NoGradGuard no_grad;
  keep_freed_memory();
  open_log();
  for (bool going_on = true; going_on;) {
    going_on = synchronize();
    try {
      while (going_on && make_step()) continue;
      going_on = false;
    } catch (const PeersChanged& error) {
      log::info("step {}: {}", step_ + 1, error.what());
    }
  }
  log::info("the run has ended at step {}", step_);
  if (has_backups()) {
    log::info(
        "backup_replicas={}: {} steps were made without some replicas, {} pushes came too late and "
        "were dropped",
        config_.backup_replicas, steps_without_all_, late_pushes_);
  }
  // The chief has saved it: who trains on from here begins with the checkpoint.
  if (log_ && log_->is_open()) log_->ended(step_, left_out_);
  membership_.finish(step_, false);
}

// False when the run has ended.
bool Server::synchronize() {
  const auto take = [this](Group& group, const Source& source) {
    group_ = &group;
    if (!take_source(source)) return false;
    const bool is_of_before = log_ && log_->run() != membership_.log_run();
    if (log_ && (source.go_back || is_of_before || !log_->is_open())) begin_log();
    sequence_ = 0;
    if (has_backups()) begin_choices();
    return true;
  };
  return join_group(take);
}

bool Server::take_source(const Source& source) {
  const auto is_behind = [&](std::size_t rank) {
    return std::ranges::find(source.to, rank) != source.to.end();
  };
  if (source.go_back) {
    const RunSnapshot from = receive_snapshot(*group_, source.rank, snapshot());
    state_ = parse_run_state(from.state_json, "the state of the chief");
    step_ = from.step;
    left_out_ = from.left_out;
    inputs_from_ = from.inputs_from;
    has_state_ = true;
    pending_.reset();
    return true;
  }
  if (is_behind(group_->rank())) {
    if (!pending_ && log_) {
      // A log may be older than the others' steps when the machine, and not the task alone, failed.
      log::warning("{} is at step {}, others are at {}, and its log ends before: it begins anew",
                   membership_.task(), step_, source.progress.step);
      has_state_ = false;
      throw PeersChanged("{} has lost its steps", membership_.task());
    }
    if (!pending_) {
      throw Internal("{} is at step {}, others are at {}, and it has no gradients to go on with",
                     membership_.task(), step_, source.progress.step);
    }
    SquareSums sums(variables_);
    const auto norms = group_->take<Norms>(source.rank, "the norms of the step");
    if (!norms) return false;
    if (norms->squares.values.size() != sums.blocks().size()) {
      throw DataLoss("norms of {} blocks came where {} were due", norms->squares.values.size(),
                     sums.blocks().size());
    }
    sums.blocks() = norms->squares.values;
    commit(sums);
  } else if (group_->rank() == source.rank) {
    for (const std::size_t to : source.to) {
      if (to < trainers()) continue;
      group_->send(to, Norms{.step = step_, .squares = {last_squares_}});
    }
  }
  pending_.reset();
  for (const std::size_t to : source.to) {
    if (to < trainers()) send_state(to);
  }
  return true;
}

// What every task that trains has of the step; nothing when the run has ended.
std::optional<std::vector<ReceivedStep>> Server::take_pushes() {
  if (has_backups()) return take_first_pushes();
  const ExpectedTensors due = expected();
  std::vector<std::optional<ReceivedStep>> pushes(trainers());
  // In any order: a chief that stops asks for slots while others are still waited for.
  const auto reason = [&] {
    const auto missing = std::ranges::find(pushes, false, &std::optional<ReceivedStep>::has_value);
    return fmt::format("{}: the gradients of step {}",
                       group_->task(static_cast<std::size_t>(missing - pushes.begin())), step_ + 1);
  };
  for (std::size_t came = 0; came < trainers();) {
    auto arrival = group_->take_next(trainers(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    auto& [rank, frame] = *arrival;
    if (is_message<SlotsRequest>(frame)) {
      send_slots(rank);
      continue;
    }
    if (!is_message<StepGradients>(frame) || pushes[rank]) {
      group_->throw_unexpected(rank, frame, "gradients");
    }
    auto push = group_->decode_from<StepGradients>(rank, std::move(frame), due);
    check_turn(push, step_, sequence_);
    pushes[rank] = received_step(std::move(push), due.replicas);
    ++came;
  }
  std::vector<ReceivedStep> received;
  for (auto& push : pushes) received.push_back(std::move(*push));
  ++sequence_;
  compare_batches(received);
  return received;
}

// Once, by the first server.
void Server::compare_batches(const std::vector<ReceivedStep>& received) {
  if (number_ != 0 || has_compared_batches_ || received.size() < 2) return;
  has_compared_batches_ = true;
  const auto& members = group_->plan().members;
  for (std::size_t rank = 1; rank < received.size(); ++rank) {
    const std::string why = batch_difference(members[0].task, received[0].parts, members[rank].task,
                                             received[rank].parts);
    if (!why.empty()) log::warning("{}", why);
  }
}

void Server::begin_choices() {
  const auto& members = group_->plan().members;
  waiting_ =
      WaitingPushes({members.begin(), members.begin() + static_cast<std::int64_t>(trainers())},
                    config_.backup_replicas, number_ == 0 ? layout_.servers() - 1 : 0);
  changed_.assign(trainers(), ChangedRows(variables_));
}

void Server::take_frame(std::size_t rank, net::Frame frame) {
  if (is_message<SlotsRequest>(frame)) return send_slots(rank);
  const ExpectedTensors due = expected();
  if (is_message<PushArrived>(frame)) {
    const auto arrived = group_->decode_from<PushArrived>(rank, std::move(frame), due);
    return waiting_.arrived_elsewhere(arrived.rank);
  }
  if (!is_message<StepGradients>(frame)) group_->throw_unexpected(rank, frame, "gradients");
  auto push = group_->decode_from<StepGradients>(rank, std::move(frame), due);
  const std::int64_t step = push.step;
  waiting_.add(rank, step, received_step(std::move(push), due.replicas));
  // A task can be stopped between two sends: what only some servers have makes no step.
  if (number_ != 0) group_->send(trainers(), PushArrived{rank});
}

// On the first server; nothing when the run has ended.
std::optional<StepChoice> Server::choose() {
  const auto reason = [this] {
    return fmt::format("{}: the gradients of step {}", waiting_.missing(), step_ + 1);
  };
  auto choice = waiting_.choose(step_);
  while (!choice) {
    auto arrival = group_->take_next(group_->size(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    take_frame(arrival->rank, std::move(arrival->frame));
    choice = waiting_.choose(step_);
  }
  for (std::size_t rank = trainers() + 1; rank < group_->size(); ++rank) {
    group_->send(rank, *choice);
  }
  return choice;
}

// On the others.
std::optional<StepChoice> Server::hear_choice() {
  const std::size_t first_server = trainers();
  const auto reason = [&] {
    return fmt::format("{}: whose gradients make step {}",
                       group_->plan().members[first_server].task, step_ + 1);
  };
  std::optional<StepChoice> choice;
  while (!choice) {
    auto arrival = group_->take_next(trainers() + 1, Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    if (arrival->rank == first_server) {
      if (!is_message<StepChoice>(arrival->frame)) {
        group_->throw_unexpected(first_server, arrival->frame, "a choice");
      }
      choice = group_->decode_from<StepChoice>(first_server, std::move(arrival->frame), expected());
    } else {
      take_frame(arrival->rank, std::move(arrival->frame));
    }
  }
  return choice;
}

// As take_pushes(), of those that the step is made of.
std::optional<std::vector<ReceivedStep>> Server::take_first_pushes() {
  auto choice = number_ == 0 ? choose() : hear_choice();
  if (!choice) return std::nullopt;
  choice_ = std::move(*choice);
  if (!choice_.late.empty() && late_pushes_ == 0 && number_ == 0) {
    log::warning(
        "the gradients of {} came too late for their step and are dropped; from here on such are "
        "counted",
        group_->plan().members[choice_.late.front()].task);
  }
  late_pushes_ += static_cast<std::int64_t>(choice_.late.size());
  if (!choice_.counted.empty() && choice_.counted.size() < trainers()) ++steps_without_all_;
  state_.inputs.resize(static_cast<std::size_t>(membership_.terms().replicas));
  return waiting_.take(choice_, state_.inputs);
}

// Adds up: after this the step can be made.
void Server::prepare(std::vector<ReceivedStep> received) {
  PendingStep pending{.positions = state_.inputs};
  pending.positions.resize(static_cast<std::size_t>(membership_.terms().replicas));
  for (std::size_t rank = 0; rank < received.size(); ++rank) {
    const ReceivedStep& other = received[rank];
    pending.pushes.push_back(
        {group_->plan().members[rank].task, other.replicas.first, other.replicas.last});
    copy_positions(other, pending.positions);
    if (!other.buffers.empty()) pending.buffers = other.buffers;
  }
  PartialSums total = add_parts(membership_.terms().replicas, {}, std::move(received));
  pending.outcome = {.present = total.present,
                     .examples = total.examples,
                     .losses = total.losses,
                     .not_finite = all_finite(total.losses) ? "" : "loss"};
  if (total.present > 0) pending.mean = take_mean(total);
  pending_ = std::move(pending);
}

// The norms of the other servers, by rank. What else comes meanwhile is for later steps, or a chief
// that stops asks for the slots, which are still those of the step before.
std::optional<std::vector<Norms>> Server::take_squares() {
  std::vector<Norms> norms(group_->size());
  std::vector<bool> came(group_->size(), false);
  for (std::size_t rank = 0; rank < group_->size(); ++rank) {
    came[rank] = rank < trainers() || rank == group_->rank();
  }
  const auto missing = [&] {
    return static_cast<std::size_t>(std::ranges::find(came, false) - came.begin());
  };
  const auto reason = [&] {
    return fmt::format("{}: the norms of step {}", group_->plan().members[missing()].task,
                       step_ + 1);
  };
  while (missing() < came.size()) {
    auto arrival = group_->take_next(group_->size(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    auto& [rank, frame] = *arrival;
    if (is_message<Norms>(frame) && !came[rank]) {
      norms[rank] = group_->decode_from<Norms>(rank, std::move(frame));
      came[rank] = true;
    } else if (has_backups() || is_message<SlotsRequest>(frame)) {
      take_frame(rank, std::move(frame));
    } else {
      group_->throw_unexpected(rank, frame, "norms");
    }
  }
  return norms;
}

// What all servers need of each other before the step: norms, and that everybody has its gradients.
// False when the run has ended.
bool Server::exchange_squares(SquareSums& sums) {
  const Norms own{.step = step_, .squares = {sums.blocks()}};
  for (std::size_t rank = trainers(); rank < group_->size(); ++rank) {
    if (rank != group_->rank()) group_->send(rank, own);
  }
  const auto norms = take_squares();
  if (!norms) return false;
  std::vector<double>& blocks = sums.blocks();
  for (std::size_t rank = trainers(); rank < group_->size(); ++rank) {
    if (rank == group_->rank()) continue;
    const Norms& theirs = (*norms)[rank];
    if (theirs.step != step_ || theirs.squares.values.size() != blocks.size()) {
      throw DataLoss("{} sent norms of another step or model", group_->task(rank));
    }
    // Every block is somebody's, and 0 for the others: the order does not matter.
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] += theirs.squares.values[i];
  }
  return true;
}

// With the norms of all, every server comes to the same.
void Server::decide(const SquareSums& sums) {
  StepResult& outcome = pending_->outcome;
  if (outcome.not_finite.empty() && !update_.is_finite(gradients_, sums)) {
    outcome.not_finite = "gradient";
  }
}

void Server::commit(SquareSums& sums) {
  decide(sums);
  last_squares_ = sums.blocks();
  // Before anybody can know of it.
  if (log_) {
    log_->committed(step_, left_out_, last_squares_, !pending_->outcome.not_finite.empty());
  }
  make_update(sums);
}

// The step itself.
void Server::make_update(const SquareSums& sums) {
  const PendingStep& pending = *pending_;
  state_.inputs = pending.positions;
  if (!pending.outcome.not_finite.empty()) {
    ++left_out_;
    return;
  }
  update_.apply(gradients_, step_, sums);
  for (std::size_t i = 0; i < pending.buffers.size(); ++i) buffers_[i].copy_(pending.buffers[i]);
  ++step_;
}

// False when the run has ended.
bool Server::make_step() {
  auto received = take_pushes();
  if (!received) return false;
  prepare(std::move(*received));
  if (pending_->outcome.present == 0) {
    send_values();
    pending_.reset();
    return true;
  }
  // Before the others hear of it: who has it in its log can make it whenever it comes back.
  if (log_) log_->prepared(step_, left_out_, *pending_);
  take_gradients();
  SquareSums sums =
      pending_->outcome.not_finite.empty() ? update_.norms(gradients_) : SquareSums(variables_);
  if (!exchange_squares(sums)) return false;
  commit(sums);
  send_values();
  pending_.reset();
  if (log_ && log_->is_due()) begin_log();
  return true;
}

// From the mean of the replicas to what the optimizers get, but for what needs the norms of all.
void Server::take_gradients() {
  layout_.scatter(number_, pending_->mean.flat, gradients_.flat);
  gradients_.rows = pending_->mean.rows;
  if (!pending_->outcome.not_finite.empty()) return;
  update_.prepare(gradients_);
}

// What a step is made by: with other rules the steps of a log would come to something else.
std::vector<std::string> Server::rules() const {
  std::vector<std::string> rules = updater_.descriptions();
  // Schedules are functions: they are known by what they give.
  for (const std::int64_t step : {0, 1, 100, 1'000, 10'000, 100'000}) {
    for (const Updater::Rate& rate : updater_.learning_rates(step)) {
      rules.push_back(fmt::format("{} {} {}", rate.prefix, step, rate.learning_rate));
    }
  }
  const ClipOptions& clip = options_.clip;
  rules.push_back(fmt::format("clip {} {} {}", clip.value.value_or(0), clip.norm.value_or(0),
                              clip.global_norm.value_or(0)));
  rules.push_back(fmt::format("decay {} skip {}", options_.weight_decay.factor,
                              update_.rules().checks_gradients));
  rules.push_back(arithmetic().fingerprint());
  return rules;
}

void Server::make_log() {
  const Path folder = config_.model_dir / "ps_log" / fmt::format("{}-{}", job::kPs, number_);
  if (!log_claim_) log_claim_.emplace(folder);
  const StepLogIdentity identity{
      .run = membership_.log_run(),
      .task = membership_.task(),
      .model = model_digest(snapshot().tensors, layout_.servers(), rules()),
      .replicas = membership_.terms().replicas};
  log_.emplace(folder, server_options_.log_bytes, identity,
               held_pieces(layout_, number_, variables_, updater_));
}

// Brings this task to where it was when it was killed, if it was.
void Server::open_log() {
  if (!config_.ps_log) return;
  if (membership_.log_run().empty()) {
    throw FailedPrecondition(
        "RunConfig::ps_log is set for {}, but not for {}: give all tasks the "
        "same configuration",
        membership_.task(), membership_.chief().task.name());
  }
  make_log();
  const ExpectedTensors logged{.flat_size = layout_.flat_size(number_),
                               .tables = table_shapes(variables_),
                               .buffers = buffers_};
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
    log::info("going on from step {} of the log in {}{}", step_, log_->folder().string(),
              pending_ ? ", with the next one prepared" : "");
  }
}

void Server::replay_base(const PsLog::Base& base) {
  state_ = parse_run_state(base.state_json, "the state in the log");
  step_ = base.step;
  left_out_ = base.left_out;
  inputs_from_ = base.inputs_from;
  last_squares_ = base.squares;
  has_state_ = true;
}

void Server::replay_commit(const std::vector<double>& squares, bool is_left_out) {
  SquareSums sums(variables_);
  if (squares.size() != sums.blocks().size()) {
    throw DataLoss("step {} has norms of {} blocks in the log, and the model has {}", step_ + 1,
                   squares.size(), sums.blocks().size());
  }
  sums.blocks() = squares;
  last_squares_ = squares;
  decide(sums);
  if (pending_->outcome.not_finite.empty() == is_left_out) {
    throw DataLoss(
        "step {} was {} when it was logged, and now is not: options of the estimator "
        "have changed",
        step_ + 1, is_left_out ? "skipped" : "made");
  }
  make_update(sums);
  pending_.reset();
}

// With what this task holds now.
void Server::begin_log() {
  if (log_->run() != membership_.log_run()) make_log();
  state_.global_step = step_;
  log_->begin({.step = step_,
               .left_out = left_out_,
               .inputs_from = inputs_from_,
               .state_json = to_json(state_),
               .squares = last_squares_});
}

// What the step has made new, and for a task that was late what those before it have.
void Server::answer_chosen() {
  const bool is_new = pending_->outcome.present > 0 && pending_->outcome.not_finite.empty();
  if (is_new) {
    for (ChangedRows& rows : changed_) rows.add(gradients_.rows);
  }
  if (choice_.counted.empty()) {
    state_.inputs = pending_->positions;
  } else {
    last_outcome_ = pending_->outcome;
  }
  const auto answer = [&](std::size_t rank, bool has_values) {
    Values message{
        .step = step_, .outcome = outcome_of(last_outcome_), .positions = pending_->positions};
    if (has_values) {
      message.values = {variables_.flat(), layout_.flat(number_), changed_[rank].take(variables_)};
      if (number_ == 0) message.buffers.tensors = buffers_;
    }
    group_->send(rank, message);
  };
  for (const std::size_t rank : choice_.counted) answer(rank, is_new);
  for (const std::size_t rank : choice_.late) answer(rank, true);
}

// What the step has made new.
void Server::send_values() {
  if (has_backups()) return answer_chosen();
  Values message{
      .step = step_, .outcome = outcome_of(pending_->outcome), .positions = state_.inputs};
  if (pending_->outcome.present == 0) message.positions = pending_->positions;
  if (pending_->outcome.present > 0 && pending_->outcome.not_finite.empty()) {
    message.values = {variables_.flat(), layout_.flat(number_),
                      std::vector<RowGradient>(variables_.sparse_count())};
    for (const Variable& variable : variables_.all()) {
      if (!variable.sparse()) continue;
      const auto table = static_cast<std::size_t>(variable.rows_index);
      const RowGradient& touched = gradients_.rows[table];
      if (touched.empty()) continue;
      message.values->rows[table] = {touched.rows, variable.value.index_select(0, touched.rows)};
    }
    if (number_ == 0) message.buffers.tensors = buffers_;
  }
  for (std::size_t rank = 0; rank < trainers(); ++rank) group_->send(rank, message);
}

void Server::send_state(std::size_t to) {
  state_.global_step = step_;
  Values message{.step = step_,
                 .left_out = left_out_,
                 .inputs_from = inputs_from_,
                 .state_json = to_json(state_)};
  put_all_values(message, number_, layout_, variables_);
  group_->send(to, message);
}

}  // namespace
}  // namespace internal

void serve_parameters(const EstimatorOptions& estimator, const RunConfig& config,
                      const ParameterServerOptions& options) {
  if (!config.sync) return internal::serve_async(estimator, config, options);
  internal::Server(estimator, config, options).run();
}

}  // namespace muster
