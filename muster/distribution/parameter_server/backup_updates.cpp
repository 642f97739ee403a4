#include <fmt/core.h>

#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/parameter_server/changed_rows_internal.h"
#include "muster/distribution/parameter_server/step_choice_internal.h"
#include "muster/distribution/parameter_server/step_updates_internal.h"

namespace muster::internal {
namespace {

class BackupUpdates final : public StepUpdates {
 public:
  BackupUpdates(ParameterShard& held, const EstimatorOptions& options,
                const ParameterServerOptions& server_options)
      : StepUpdates(held, options, server_options) {}

  void log_end() override;

 private:
  void on_generation() override;
  std::optional<std::vector<ReceivedStep>> gather() override;
  void handle_out_of_band(std::size_t rank, net::Frame frame) override;
  void answer(const PendingStep& step) override;
  std::optional<StepChoice> choose();
  std::optional<StepChoice> hear_choice();
  void note(const StepChoice& choice);
  bool is_first() const { return held_.number == 0; }

  /// Pushes that wait for an answer, and by rank the changed rows that the task lacks.
  WaitingPushes waiting_;
  std::vector<ChangedRows> changed_;
  StepChoice choice_;
  StepResult last_outcome_;
  std::int64_t late_pushes_ = 0;
  std::int64_t steps_without_all_ = 0;
};

void BackupUpdates::log_end() {
  StepUpdates::log_end();
  log::info(
      "backup_replicas={}: {} steps were made without some replicas, {} pushes came too late and "
      "were dropped",
      held_.config.cluster.backup_replicas, steps_without_all_, late_pushes_);
}

void BackupUpdates::on_generation() {
  const auto& members = held_.group->plan().members;
  const auto trainers = static_cast<std::int64_t>(held_.trainers());
  waiting_ = WaitingPushes({members.begin(), members.begin() + trainers},
                           held_.config.cluster.backup_replicas,
                           is_first() ? held_.layout.servers() - 1 : 0);
  changed_.assign(held_.trainers(), ChangedRows(held_.variables));
}

void BackupUpdates::handle_out_of_band(std::size_t rank, net::Frame frame) {
  if (held_.take_request(rank, frame)) return;
  Group& group = *held_.group;
  const ExpectedTensors due = held_.expected();
  if (is_message<PushArrived>(frame)) {
    const auto arrived = group.decode_from<PushArrived>(rank, std::move(frame), due);
    return waiting_.arrived_elsewhere(arrived.rank);
  }
  if (!is_message<StepGradients>(frame)) group.throw_unexpected(rank, frame, "gradients");
  auto push = group.decode_from<StepGradients>(rank, std::move(frame), due);
  const std::int64_t step = push.step;
  waiting_.add(rank, step, received_step(std::move(push), due.replicas));
  // A task can be stopped between two sends: what only some servers have makes no step.
  if (!is_first()) group.send(held_.trainers(), PushArrived{rank});
}

// On the first server; nothing when the run has ended.
std::optional<StepChoice> BackupUpdates::choose() {
  Group& group = *held_.group;
  const auto reason = [this] {
    return fmt::format("{}: the gradients of step {}", waiting_.missing(), held_.step + 1);
  };
  auto choice = waiting_.choose(held_.step);
  while (!choice) {
    auto arrival = group.take_next(group.size(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    handle_out_of_band(arrival->rank, std::move(arrival->frame));
    choice = waiting_.choose(held_.step);
  }
  for (std::size_t rank = held_.trainers() + 1; rank < group.size(); ++rank) {
    group.send(rank, *choice);
  }
  return choice;
}

// On the others.
std::optional<StepChoice> BackupUpdates::hear_choice() {
  Group& group = *held_.group;
  const std::size_t first_server = held_.trainers();
  const auto reason = [&] {
    return fmt::format("{}: whose gradients make step {}", group.task(first_server),
                       held_.step + 1);
  };
  for (;;) {
    auto arrival = group.take_next(first_server + 1, Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    auto& [rank, frame] = *arrival;
    if (is_message<StepChoice>(frame) && rank == first_server) {
      return group.decode_from<StepChoice>(rank, std::move(frame), held_.expected());
    }
    handle_out_of_band(rank, std::move(frame));
  }
}

void BackupUpdates::note(const StepChoice& choice) {
  if (!choice.late.empty() && late_pushes_ == 0 && is_first()) {
    log::warning(
        "the gradients of {} came too late for their step and are dropped; from here on such are "
        "counted",
        held_.group->task(choice.late.front()));
  }
  late_pushes_ += static_cast<std::int64_t>(choice.late.size());
  if (!choice.counted.empty() && choice.counted.size() < held_.trainers()) ++steps_without_all_;
}

std::optional<std::vector<ReceivedStep>> BackupUpdates::gather() {
  auto choice = is_first() ? choose() : hear_choice();
  if (!choice) return std::nullopt;
  choice_ = std::move(*choice);
  note(choice_);
  held_.state.inputs.resize(static_cast<std::size_t>(held_.membership.terms().replicas));
  return waiting_.take(choice_, held_.state.inputs);
}

// Sends the values that the step changed, and to a late task those of the steps before it too.
void BackupUpdates::answer(const PendingStep& step) {
  const bool is_new = step.outcome.present > 0 && step.outcome.not_finite.empty();
  if (is_new) {
    for (ChangedRows& rows : changed_) rows.add(held_.gradients.rows);
  }
  if (choice_.counted.empty()) {
    held_.state.inputs = step.positions;
  } else {
    last_outcome_ = step.outcome;
  }
  const auto answer_to = [&](std::size_t rank, bool has_values) {
    Values message{
        .step = held_.step, .outcome = outcome_of(last_outcome_), .positions = step.positions};
    if (has_values) held_.put_new_values(message, changed_[rank].take(held_.variables));
    held_.group->send(rank, message);
  };
  for (const std::size_t rank : choice_.counted) answer_to(rank, is_new);
  for (const std::size_t rank : choice_.late) answer_to(rank, true);
}

}  // namespace

std::unique_ptr<UpdatePolicy> make_backup_updates(ParameterShard& held,
                                                  const EstimatorOptions& options,
                                                  const ParameterServerOptions& server_options) {
  return std::make_unique<BackupUpdates>(held, options, server_options);
}

}  // namespace muster::internal
