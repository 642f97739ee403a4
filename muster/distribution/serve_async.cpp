#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/distribution/changed_rows_internal.h"
#include "muster/distribution/ps_values_internal.h"
#include "muster/distribution/serve_async_internal.h"
#include "muster/distribution/snapshot_internal.h"
#include "muster/distribution/staleness_bound_internal.h"
#include "muster/distribution/variable_holder_internal.h"
#include "muster/engine/run_state.h"

namespace muster::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// A task that applies what is pushed to its part of the variables as it comes. The first of the
/// servers counts steps, knows where inputs stand, and keeps the bound.
class AsyncServer : VariableHolder {
 public:
  AsyncServer(const EstimatorOptions& options, const RunConfig& config,
              const ParameterServerOptions& server_options)
      : VariableHolder(options, config, server_options) {}

  void run();

 private:
  /// What is known of a task that trains, by rank.
  struct Trainer {
    explicit Trainer(const Variables& variables) : changed(variables) {}

    /// The number of updates in the values that it has.
    std::int64_t pulled = 0;
    ChangedRows changed;
    /// Its input has ended.
    bool over = false;
    /// It has nothing to push, and wants to know of the next step.
    bool watches = false;
    /// Others wait for it no longer, and what it pushes next is too old.
    bool given_up = false;
    std::optional<AsyncPush> waiting{};
    Clock::time_point waiting_since{};
  };

  bool synchronize();
  void take_source(const Source& source);
  void begin_with(std::size_t trainers);
  bool serve_next();
  void take_push(std::size_t rank, AsyncPush push);
  void leave_out(std::size_t rank, const AsyncPush& push);
  void apply_waiting();
  std::optional<std::size_t> next_to_apply() const;
  bool is_allowed(std::size_t rank) const;
  void apply(std::size_t rank);
  void give_up_on_the_slowest();
  std::optional<std::size_t> slowest() const;
  void keep_positions(const AsyncPush& push);
  void tell_watchers(const StepOutcome& outcome);
  void tell_if_all_is_over();
  void send_new_values(std::size_t to, bool left_out = false);
  void send_state(std::size_t to);
  Values reply() const;
  std::string waited_for() const;
  Deadline longest_wait() const;
  void log_end() const;
  bool anybody_waits() const {
    return std::ranges::any_of(trainers_,
                               [](const Trainer& one) { return one.waiting.has_value(); });
  }
  const std::string& task(std::size_t rank) const { return group_->plan().members[rank].task; }
  RunState state_;
  std::vector<Trainer> trainers_;
  StalenessBound bound_{0, 1};

  Staleness staleness_;
  std::int64_t too_old_ = 0;
  std::int64_t waits_ = 0;
  Clock::duration waited_{};
};

void AsyncServer::run() {
  const StopSignals signals = outlast_signals();
  membership_.join(asynchronous_terms(own_terms(), config_.max_staleness));
  const torch::NoGradGuard no_grad;
  keep_freed_memory();
  for (bool going_on = true; going_on;) {
    going_on = synchronize();
    try {
      while (going_on && serve_next()) continue;
      going_on = false;
    } catch (const PeersChanged& error) {
      log::info("step {}: {}", step_, error.what());
    }
  }
  log_end();
  membership_.finish(step_, false);
}

void AsyncServer::log_end() const {
  log::info(
      "the run has ended at step {}: staleness mean={:.2f} max={} of {} updates, {} pushes were "
      "too old and dropped, {} waited {:.1f} s together for slower tasks",
      step_, staleness_.mean(), staleness_.max, staleness_.updates, too_old_, waits_,
      std::chrono::duration<double>(waited_).count());
}

// False when the run has ended.
bool AsyncServer::synchronize() {
  return join_group([this](Group& group, const Source& source) {
    group_ = &group;
    take_source(source);
    return true;
  });
}

void AsyncServer::take_source(const Source& source) {
  const std::size_t trainers = group_->plan().trainers;
  if (source.go_back) {
    const RunSnapshot from = receive_snapshot(*group_, source.rank, snapshot());
    state_ = parse_run_state(from.state_json, "the state of the chief");
    step_ = from.step;
    left_out_ = from.left_out;
    has_state_ = true;
    begin_with(trainers);
    return;
  }
  // A push that was under way when somebody was lost may have come to other servers alone. It stays
  // lost here, and the count is theirs.
  step_ = source.progress.step;
  left_out_ = source.progress.left_out;
  begin_with(trainers);
  for (const std::size_t to : source.to) {
    if (to < trainers) send_state(to);
  }
}

void AsyncServer::begin_with(std::size_t trainers) {
  state_.inputs.resize(static_cast<std::size_t>(membership_.terms().replicas));
  trainers_.assign(trainers, Trainer(variables_));
  for (Trainer& trainer : trainers_) trainer.pulled = step_;
  // Of pushes that each go to several servers, one of these says who may.
  bound_ = StalenessBound(number_ == 0 ? config_.max_staleness : 0, trainers);
  if (bound_.updates() > config_.max_staleness) {
    log::warning(
        "max_staleness={} cannot be kept by {} tasks that begin together: the bound is {} updates",
        config_.max_staleness, trainers, bound_.updates());
  }
}

// ------------------------------------------------------------------------------- what comes in

// False when the run has ended.
bool AsyncServer::serve_next() {
  apply_waiting();
  auto arrival =
      group_->take_next(trainers_.size(), longest_wait(), [this] { return waited_for(); });
  if (!arrival) {
    if (group_->ended()) return false;
    give_up_on_the_slowest();
    return true;
  }
  auto& [rank, frame] = *arrival;
  if (is_message<SlotsRequest>(frame)) {
    send_state(rank);
    send_slots(rank);
  } else if (is_message<AsyncPush>(frame)) {
    take_push(rank, group_->decode_from<AsyncPush>(rank, std::move(frame), expected()));
  } else {
    group_->throw_unexpected(rank, frame, "gradients");
  }
  return true;
}

void AsyncServer::take_push(std::size_t rank, AsyncPush push) {
  Trainer& trainer = trainers_[rank];
  if (trainer.waiting || trainer.watches) {
    throw Internal("{} pushed twice without an answer", task(rank));
  }
  trainer.over = push.present == 0;
  if (trainer.over) {
    trainer.watches = true;
    tell_if_all_is_over();
  } else if (!push.gradients || std::exchange(trainer.given_up, false)) {
    leave_out(rank, push);
  } else {
    trainer.waiting_since = Clock::now();
    trainer.waiting = std::move(push);
  }
}

// Its batch is used up, and changes nothing.
void AsyncServer::leave_out(std::size_t rank, const AsyncPush& push) {
  keep_positions(push);
  if (push.gradients) {
    ++too_old_;
    log::warning(
        "the gradients of {} are dropped: their values are {} updates old, and the bound "
        "is {}",
        task(rank), step_ - trainers_[rank].pulled, bound_.updates());
    send_new_values(rank, /*left_out=*/true);
    return;
  }
  ++left_out_;
  Values answer = reply();
  answer.positions = state_.inputs;
  group_->send(rank, answer);
}

void AsyncServer::keep_positions(const AsyncPush& push) {
  std::ranges::copy(push.positions, state_.inputs.begin() + push.replicas.first);
}

// ------------------------------------------------------------------------------------- updates

bool AsyncServer::is_allowed(std::size_t rank) const {
  std::vector<std::int64_t> others;
  for (std::size_t r = 0; r < trainers_.size(); ++r) {
    const Trainer& other = trainers_[r];
    if (r != rank && !other.over && !other.given_up) others.push_back(other.pulled);
  }
  return bound_.allows(step_, others);
}

// The one with the oldest values among those that may.
std::optional<std::size_t> AsyncServer::next_to_apply() const {
  std::optional<std::size_t> next;
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    if (!trainers_[rank].waiting || !is_allowed(rank)) continue;
    if (!next || trainers_[rank].pulled < trainers_[*next].pulled) next = rank;
  }
  return next;
}

void AsyncServer::apply_waiting() {
  while (const auto rank = next_to_apply()) apply(*rank);
}

void AsyncServer::apply(std::size_t rank) {
  Trainer& trainer = trainers_[rank];
  const AsyncPush push = *std::exchange(trainer.waiting, std::nullopt);
  const auto waited = Clock::now() - trainer.waiting_since;
  if (bound_.updates() > 0 && waited > std::chrono::milliseconds(1)) {
    ++waits_;
    waited_ += waited;
  }
  layout_.scatter(number_, push.gradients->flat, gradients_.flat);
  gradients_.rows = push.gradients->rows;
  updater_.apply(gradients_, step_, layout_.flat(number_));
  const auto& new_buffers = push.buffers.tensors;
  for (std::size_t i = 0; i < new_buffers.size(); ++i) buffers_[i].copy_(new_buffers[i]);
  keep_positions(push);
  staleness_.add(step_ - trainer.pulled);
  ++step_;
  for (Trainer& one : trainers_) one.changed.add(push.gradients->rows);
  send_new_values(rank);
  tell_watchers({.present = push.present, .examples = push.examples, .losses = {push.loss}});
}

std::optional<std::size_t> AsyncServer::slowest() const {
  std::optional<std::size_t> slowest;
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    const Trainer& one = trainers_[rank];
    if (one.over || one.given_up || one.waiting) continue;
    if (!slowest || one.pulled < trainers_[*slowest].pulled) slowest = rank;
  }
  return slowest;
}

std::string AsyncServer::waited_for() const {
  const auto slow = slowest();
  if (!slow || !anybody_waits()) return "gradients of any task";
  return fmt::format(
      "{}: its gradients, with values that are {} updates old; others wait for it "
      "by max_staleness={}",
      task(*slow), step_ - trainers_[*slow].pulled, bound_.updates());
}

// Somebody whose push waits is not to wait for longer than tasks wait for each other elsewhere.
Deadline AsyncServer::longest_wait() const {
  Deadline deadline = Deadline::never();
  for (const Trainer& one : trainers_) {
    if (!one.waiting) continue;
    deadline = Deadline::at(std::min(deadline.time(), one.waiting_since + config_.join_timeout));
  }
  return deadline;
}

void AsyncServer::give_up_on_the_slowest() {
  const auto slow = slowest();
  if (!slow) throw Internal("all tasks wait for each other by max_staleness={}", bound_.updates());
  log::warning(
      "{} has not pushed for {:.0f} s: the others wait for it no longer, and its next "
      "gradients are dropped",
      task(*slow), std::chrono::duration<double>(config_.join_timeout).count());
  trainers_[*slow].given_up = true;
}

// ------------------------------------------------------------------------------- what goes out

Values AsyncServer::reply() const {
  return {.step = step_, .notes = {.staleness = staleness_, .too_old = too_old_}};
}

// A task without a batch goes on counting steps: it may be the chief, which saves.
void AsyncServer::tell_watchers(const StepOutcome& outcome) {
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    if (!std::exchange(trainers_[rank].watches, false)) continue;
    Values answer = reply();
    answer.outcome = outcome;
    answer.positions = state_.inputs;
    group_->send(rank, answer);
  }
}

void AsyncServer::tell_if_all_is_over() {
  const bool all =
      std::ranges::all_of(trainers_, [](const Trainer& one) { return one.over && one.watches; });
  if (all) tell_watchers({.present = 0});
}

void AsyncServer::send_new_values(std::size_t to, bool left_out) {
  Values answer = reply();
  answer.notes.dropped = left_out;
  answer.values = {variables_.flat(), layout_.flat(number_),
                   trainers_[to].changed.take(variables_)};
  if (number_ == 0) {
    answer.positions = state_.inputs;
    answer.buffers.tensors = buffers_;
  }
  group_->send(to, answer);
  trainers_[to].pulled = step_;
}

// Everything, for a task that joins or saves.
void AsyncServer::send_state(std::size_t to) {
  state_.global_step = step_;
  Values answer = reply();
  answer.left_out = left_out_;
  // How many batches a replica has had cannot be told from steps that others made too.
  answer.inputs_from = step_ + left_out_;
  answer.state_json = to_json(state_);
  put_all_values(answer, number_, layout_, variables_);
  group_->send(to, answer);
  trainers_[to].pulled = step_;
  trainers_[to].given_up = false;
  trainers_[to].changed.clear();
}

}  // namespace

void serve_async(const EstimatorOptions& estimator, const RunConfig& config,
                 const ParameterServerOptions& options) {
  AsyncServer(estimator, config, options).run();
}

}  // namespace muster::internal
