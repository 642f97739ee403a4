#include <algorithm>
#include <utility>

#include "muster/distribution/parameter_server/step_choice_internal.h"

namespace muster::internal {
namespace {

// A task whose gradients are not there.
ReceivedStep absent(const ReplicaRange& replicas, std::int64_t all,
                    const std::vector<std::optional<std::string>>& positions) {
  ReceivedStep step{.replicas = replicas};
  step.parts.losses.resize(static_cast<std::size_t>(all));
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    step.parts.sums[{r, r + 1}] = std::nullopt;
    step.positions.push_back(positions[static_cast<std::size_t>(r)]);
  }
  return step;
}

}  // namespace

WaitingPushes::WaitingPushes(std::vector<GenerationMember> members, std::int64_t backup_replicas,
                             std::size_t other_servers)
    : members_(std::move(members)),
      backup_replicas_(backup_replicas),
      other_servers_(other_servers),
      waiting_(members_.size()),
      elsewhere_(members_.size(), 0) {}

void WaitingPushes::arrived_elsewhere(std::size_t rank) { ++elsewhere_[rank]; }

void WaitingPushes::add(std::size_t rank, std::int64_t step, ReceivedStep push) {
  if (waiting_[rank]) throw Internal("{} pushed twice without an answer", members_[rank].task);
  if (push.replicas != members_[rank].replicas) {
    throw DataLoss("{} pushed for replicas that are not its own", members_[rank].task);
  }
  waiting_[rank] = Push{step, std::move(push)};
}

std::optional<StepChoice> WaitingPushes::choose(std::int64_t step) const {
  StepChoice choice;
  std::int64_t missing = 0;
  std::int64_t present = 0;
  for (std::size_t rank = 0; rank < waiting_.size(); ++rank) {
    const auto& push = waiting_[rank];
    const bool is_here = has(rank);
    if (is_here && push->step == step) {
      choice.counted.push_back(rank);
      present += push->received.parts.present;
      continue;
    }
    missing += members_[rank].replicas.size();
    if (is_here) choice.late.push_back(rank);
  }
  const bool everybody_has_pushed = choice.counted.size() + choice.late.size() == waiting_.size();
  const bool has_chief = !choice.counted.empty() && choice.counted.front() == 0;
  if (present > 0 && has_chief && missing <= backup_replicas_) return choice;
  if (!everybody_has_pushed) return std::nullopt;
  // Those whose input is over wait until the late ones say that theirs is, too.
  if (present == 0 && !choice.late.empty()) choice.counted.clear();
  return choice;
}

std::vector<ReceivedStep> WaitingPushes::take(
    const StepChoice& choice, const std::vector<std::optional<std::string>>& positions) {
  const auto all = static_cast<std::int64_t>(positions.size());
  std::vector<ReceivedStep> taken;
  for (std::size_t rank = 0; rank < waiting_.size(); ++rank) {
    const bool counts = std::ranges::find(choice.counted, rank) != choice.counted.end();
    const bool is_late = std::ranges::find(choice.late, rank) != choice.late.end();
    ReceivedStep step = absent(members_[rank].replicas, all, positions);
    if (counts || is_late) {
      if (!waiting_[rank]) throw Internal("{} has pushed nothing that counts", members_[rank].task);
      ReceivedStep pushed = std::move(std::exchange(waiting_[rank], std::nullopt)->received);
      elsewhere_[rank] = 0;
      // The batch of a late one is used up all the same.
      if (is_late) step.positions = std::move(pushed.positions);
      if (counts) step = std::move(pushed);
    }
    taken.push_back(std::move(step));
  }
  return taken;
}

std::string WaitingPushes::missing() const {
  std::string tasks;
  for (std::size_t rank = 0; rank < waiting_.size(); ++rank) {
    if (!has(rank)) tasks += (tasks.empty() ? "" : ", ") + members_[rank].task;
  }
  return tasks;
}

}  // namespace muster::internal
