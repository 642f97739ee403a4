#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/parameter_server/step_updates_internal.h"

namespace muster::internal {
namespace {

class SyncUpdates final : public StepUpdates {
 public:
  SyncUpdates(ParameterShard& held, const EstimatorOptions& options,
              const ParameterServerOptions& server_options)
      : StepUpdates(held, options, server_options) {}

 private:
  void on_generation() override { sequence_ = 0; }
  std::optional<std::vector<ReceivedStep>> gather() override;
  void handle_out_of_band(std::size_t rank, net::Frame frame) override;
  void answer(const PendingStep& step) override;
  ReceivedStep take_push(std::size_t rank, net::Frame frame, const ExpectedTensors& due) const;
  void compare_batches(const std::vector<ReceivedStep>& received);
  std::vector<RowGradient> touched_rows() const;

  /// Steps that tasks have pushed for in this generation.
  std::int64_t sequence_ = 0;
  bool has_compared_batches_ = false;
};

ReceivedStep SyncUpdates::take_push(std::size_t rank, net::Frame frame,
                                    const ExpectedTensors& due) const {
  auto push = held_.group->decode_from<StepGradients>(rank, std::move(frame), due);
  check_turn(push, held_.step, sequence_);
  return received_step(std::move(push), due.replicas);
}

std::optional<std::vector<ReceivedStep>> SyncUpdates::gather() {
  Group& group = *held_.group;
  const ExpectedTensors due = held_.expected();
  std::vector<std::optional<ReceivedStep>> pushes(due.trainers);
  const auto reason = [&] {
    const auto missing = std::ranges::find(pushes, false, &std::optional<ReceivedStep>::has_value);
    return fmt::format("{}: the gradients of step {}",
                       group.task(static_cast<std::size_t>(missing - pushes.begin())),
                       held_.step + 1);
  };
  // In any order: a chief that stops asks for slots while others are still waited for.
  for (std::size_t came = 0; came < pushes.size();) {
    auto arrival = group.take_next(pushes.size(), Deadline::never(), reason);
    if (!arrival) return std::nullopt;
    auto& [rank, frame] = *arrival;
    if (is_message<StepGradients>(frame) && !pushes[rank]) {
      pushes[rank] = take_push(rank, std::move(frame), due);
      ++came;
    } else {
      handle_out_of_band(rank, std::move(frame));
    }
  }
  std::vector<ReceivedStep> received;
  for (auto& push : pushes) received.push_back(std::move(*push));
  ++sequence_;
  compare_batches(received);
  return received;
}

// Between steps and within one the slots are those of the step before.
void SyncUpdates::handle_out_of_band(std::size_t rank, net::Frame frame) {
  if (!held_.take_request(rank, frame)) {
    held_.group->throw_unexpected(rank, frame, fmt::format("step {}", held_.step + 1));
  }
}

// Once, by the first server.
void SyncUpdates::compare_batches(const std::vector<ReceivedStep>& received) {
  if (held_.number != 0 || has_compared_batches_ || received.size() < 2) return;
  has_compared_batches_ = true;
  for (std::size_t rank = 1; rank < received.size(); ++rank) {
    const std::string why = batch_difference(held_.group->task(0), received[0].parts,
                                             held_.group->task(rank), received[rank].parts);
    if (!why.empty()) log::warning("{}", why);
  }
}

// With their values after the step.
std::vector<RowGradient> SyncUpdates::touched_rows() const {
  std::vector<RowGradient> rows(held_.variables.sparse_count());
  for (const Variable& variable : held_.variables.all()) {
    if (!variable.sparse()) continue;
    const auto table = static_cast<std::size_t>(variable.rows_index);
    const RowGradient& touched = held_.gradients.rows[table];
    if (touched.empty()) continue;
    rows[table] = {touched.rows, variable.value.index_select(0, touched.rows)};
  }
  return rows;
}

// Sends the values that the step changed to all tasks.
void SyncUpdates::answer(const PendingStep& step) {
  Values message{
      .step = held_.step, .outcome = outcome_of(step.outcome), .positions = step.positions};
  if (step.outcome.present > 0 && step.outcome.not_finite.empty()) {
    held_.put_new_values(message, touched_rows());
  }
  for (std::size_t rank = 0; rank < held_.trainers(); ++rank) held_.group->send(rank, message);
}

}  // namespace

std::unique_ptr<UpdatePolicy> make_sync_updates(ParameterShard& held,
                                                const EstimatorOptions& options,
                                                const ParameterServerOptions& server_options) {
  return std::make_unique<SyncUpdates>(held, options, server_options);
}

}  // namespace muster::internal
