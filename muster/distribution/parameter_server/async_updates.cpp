#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/parameter_server/changed_rows_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/distribution/parameter_server/staleness_bound_internal.h"
#include "muster/distribution/parameter_server/update_policy_internal.h"

namespace muster::internal {
namespace {

using Clock = std::chrono::steady_clock;

/// The first of the servers counts steps, knows where inputs stand, and keeps the bound.
class AsyncUpdates final : public UpdatePolicy {
 public:
  explicit AsyncUpdates(ParameterShard& held) : held_(held) {}

  RunContract terms(RunContract own) const override {
    return asynchronous_terms(std::move(own), held_.config.cluster.max_staleness);
  }
  bool begin(const Source& source) override;
  bool serve_next() override;
  void log_end() override;

 private:
  /// State of a task that trains, by rank.
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

  void forget_trainers();
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
  void send_new_values(std::size_t to, bool dropped = false);
  void send_state(std::size_t to);
  Values reply() const;
  std::string waited_for() const;
  Deadline longest_wait() const;
  bool anybody_waits() const {
    return std::ranges::any_of(trainers_,
                               [](const Trainer& one) { return one.waiting.has_value(); });
  }
  const std::string& task(std::size_t rank) const { return held_.group->task(rank); }

  ParameterShard& held_;
  std::vector<Trainer> trainers_;
  StalenessBound bound_{0, 1};

  Staleness staleness_;
  std::int64_t too_old_ = 0;
  std::int64_t waits_ = 0;
  Clock::duration waited_{};
};

void AsyncUpdates::log_end() {
  log::info(
      "the run has ended at step {}: staleness mean={:.2f} max={} of {} updates, {} pushes were "
      "too old and dropped, {} waited {:.1f} s together for slower tasks",
      held_.step, staleness_.mean(), staleness_.max, staleness_.updates, too_old_, waits_,
      std::chrono::duration<double>(waited_).count());
}

bool AsyncUpdates::begin(const Source& source) {
  if (source.go_back) {
    held_.take_snapshot(source.rank);
    forget_trainers();
    return true;
  }
  // A push that was under way when a task was lost may have come to other servers alone. It stays
  // lost here, and the count is theirs.
  held_.step = source.progress.step;
  held_.skipped_batches = source.progress.skipped_batches;
  forget_trainers();
  for (const std::size_t to : source.to) {
    if (to < trainers_.size()) send_state(to);
  }
  return true;
}

void AsyncUpdates::forget_trainers() {
  const std::size_t trainers = held_.trainers();
  held_.state.inputs.resize(static_cast<std::size_t>(held_.membership.terms().replicas));
  trainers_.assign(trainers, Trainer(held_.variables));
  for (Trainer& trainer : trainers_) trainer.pulled = held_.step;
  // Pushes each go to several servers, of which the first says which tasks may push.
  bound_ = StalenessBound(held_.number == 0 ? held_.config.cluster.max_staleness : 0, trainers);
  if (bound_.updates() > held_.config.cluster.max_staleness) {
    log::warning(
        "max_staleness={} cannot be kept by {} tasks that begin together: the bound is {} updates",
        held_.config.cluster.max_staleness, trainers, bound_.updates());
  }
}

// ------------------------------------------------------------------------------- what comes in

bool AsyncUpdates::serve_next() {
  apply_waiting();
  auto arrival =
      held_.group->take_next(trainers_.size(), longest_wait(), [this] { return waited_for(); });
  if (!arrival) {
    if (held_.group->ended()) return false;
    give_up_on_the_slowest();
    return true;
  }
  auto& [rank, frame] = *arrival;
  if (is_message<SlotsRequest>(frame)) {
    send_state(rank);
    held_.send_slots(rank);
  } else if (is_message<AsyncPush>(frame)) {
    take_push(rank, held_.group->decode_from<AsyncPush>(rank, std::move(frame), held_.expected()));
  } else {
    held_.group->throw_unexpected(rank, frame, "gradients");
  }
  return true;
}

void AsyncUpdates::take_push(std::size_t rank, AsyncPush push) {
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
void AsyncUpdates::leave_out(std::size_t rank, const AsyncPush& push) {
  keep_positions(push);
  if (push.gradients) {
    ++too_old_;
    log::warning(
        "the gradients of {} are dropped: their values are {} updates old, and the bound "
        "is {}",
        task(rank), held_.step - trainers_[rank].pulled, bound_.updates());
    send_new_values(rank, /*dropped=*/true);
    return;
  }
  ++held_.skipped_batches;
  Values answer = reply();
  answer.positions = held_.state.inputs;
  held_.group->send(rank, answer);
}

void AsyncUpdates::keep_positions(const AsyncPush& push) {
  std::ranges::copy(push.positions, held_.state.inputs.begin() + push.replicas.first);
}

// ------------------------------------------------------------------------------------- updates

bool AsyncUpdates::is_allowed(std::size_t rank) const {
  std::vector<std::int64_t> others;
  for (std::size_t r = 0; r < trainers_.size(); ++r) {
    const Trainer& other = trainers_[r];
    if (r != rank && !other.over && !other.given_up) others.push_back(other.pulled);
  }
  return bound_.allows(held_.step, others);
}

// The one with the oldest values among those that may.
std::optional<std::size_t> AsyncUpdates::next_to_apply() const {
  std::optional<std::size_t> next;
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    if (!trainers_[rank].waiting || !is_allowed(rank)) continue;
    if (!next || trainers_[rank].pulled < trainers_[*next].pulled) next = rank;
  }
  return next;
}

void AsyncUpdates::apply_waiting() {
  while (const auto rank = next_to_apply()) apply(*rank);
}

void AsyncUpdates::apply(std::size_t rank) {
  Trainer& trainer = trainers_[rank];
  const AsyncPush push = *std::exchange(trainer.waiting, std::nullopt);
  const auto waited = Clock::now() - trainer.waiting_since;
  if (bound_.updates() > 0 && waited > std::chrono::milliseconds(1)) {
    ++waits_;
    waited_ += waited;
  }
  held_.layout.scatter(held_.number, push.gradients->flat, held_.gradients.flat);
  held_.gradients.rows = push.gradients->rows;
  held_.updater.apply(held_.gradients, held_.step, held_.layout.flat(held_.number));
  held_.take_buffers(push.buffers.tensors);
  keep_positions(push);
  staleness_.add(held_.step - trainer.pulled);
  ++held_.step;
  for (Trainer& one : trainers_) one.changed.add(push.gradients->rows);
  send_new_values(rank);
  tell_watchers({.present = push.present, .examples = push.examples, .losses = {push.loss}});
}

std::optional<std::size_t> AsyncUpdates::slowest() const {
  std::optional<std::size_t> slowest;
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    const Trainer& one = trainers_[rank];
    if (one.over || one.given_up || one.waiting) continue;
    if (!slowest || one.pulled < trainers_[*slowest].pulled) slowest = rank;
  }
  return slowest;
}

std::string AsyncUpdates::waited_for() const {
  const auto slow = slowest();
  if (!slow || !anybody_waits()) return "gradients of any task";
  return fmt::format(
      "{}: its gradients, with values that are {} updates old; others wait for it "
      "by max_staleness={}",
      task(*slow), held_.step - trainers_[*slow].pulled, bound_.updates());
}

// A task whose push waits is not to wait for longer than tasks wait for each other elsewhere.
Deadline AsyncUpdates::longest_wait() const {
  Deadline deadline = Deadline::never();
  for (const Trainer& one : trainers_) {
    if (!one.waiting) continue;
    deadline = Deadline::at(
        std::min(deadline.time(), one.waiting_since + held_.config.cluster.join_timeout));
  }
  return deadline;
}

void AsyncUpdates::give_up_on_the_slowest() {
  const auto slow = slowest();
  if (!slow) throw Internal("all tasks wait for each other by max_staleness={}", bound_.updates());
  log::warning(
      "{} has not pushed for {:.0f} s: the others wait for it no longer, and its next "
      "gradients are dropped",
      task(*slow), std::chrono::duration<double>(held_.config.cluster.join_timeout).count());
  trainers_[*slow].given_up = true;
}

// ------------------------------------------------------------------------------- what goes out

Values AsyncUpdates::reply() const {
  return {.step = held_.step, .notes = {.staleness = staleness_, .too_old = too_old_}};
}

// A task without a batch goes on counting steps: it may be the chief, which saves.
void AsyncUpdates::tell_watchers(const StepOutcome& outcome) {
  for (std::size_t rank = 0; rank < trainers_.size(); ++rank) {
    if (!std::exchange(trainers_[rank].watches, false)) continue;
    Values answer = reply();
    answer.outcome = outcome;
    answer.positions = held_.state.inputs;
    held_.group->send(rank, answer);
  }
}

void AsyncUpdates::tell_if_all_is_over() {
  const bool all =
      std::ranges::all_of(trainers_, [](const Trainer& one) { return one.over && one.watches; });
  if (all) tell_watchers({.present = 0});
}

void AsyncUpdates::send_new_values(std::size_t to, bool dropped) {
  Values answer = reply();
  answer.notes.dropped = dropped;
  held_.put_new_values(answer, trainers_[to].changed.take(held_.variables));
  if (held_.number == 0) answer.positions = held_.state.inputs;
  held_.group->send(to, answer);
  trainers_[to].pulled = held_.step;
}

// Everything, for a task that joins or saves.
void AsyncUpdates::send_state(std::size_t to) {
  // How many batches a replica has had cannot be told from steps that others made too.
  held_.inputs_from = held_.step + held_.skipped_batches;
  Values answer = held_.state_values();
  answer.notes = reply().notes;
  held_.group->send(to, answer);
  trainers_[to].pulled = held_.step;
  trainers_[to].given_up = false;
  trainers_[to].changed.clear();
}

}  // namespace

std::unique_ptr<UpdatePolicy> make_async_updates(ParameterShard& held) {
  return std::make_unique<AsyncUpdates>(held);
}

}  // namespace muster::internal
