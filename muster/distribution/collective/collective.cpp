#include "muster/distribution/collective.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/collective/sliced_sum_internal.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"

namespace muster {
namespace internal {
namespace {

class Collective final : public Strategy {
 public:
  Collective(const RunConfig& config, const CollectiveOptions& options)
      : config_(config),
        options_(options),
        membership_(config, options.peers),
        has_state_(config.is_chief()) {}

  std::string describe() const override;
  void check(const EstimatorOptions& options) const override;
  RunTerms join(const RunTerms& own) override { return membership_.join(own); }
  void attach(Participant& participant) override { participant_ = &participant; }
  void synchronize() override;
  std::optional<std::int64_t> last_step() override { return membership_.last_step(); }
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override;
  void announce_end() override { membership_.announce_end(); }
  void end(std::int64_t step, int signal) override { membership_.end(step, signal); }
  int leave(bool early) override { return membership_.leave(early); }

 private:
  std::optional<PartialSums> sum(std::int64_t step, PartialSums own, StepNotes& notes);
  std::optional<std::vector<ReceivedStep>> exchange(std::int64_t step, const PartialSums& own,
                                                    const StepNotes& notes, bool sliced);
  void compare_batches(const PartialSums& own, const std::vector<ReceivedStep>& received);

  const RunConfig config_;
  const CollectiveOptions options_;
  Membership membership_;
  /// The membership's current one.
  Group* group_ = nullptr;
  Participant* participant_ = nullptr;
  /// Whether this process holds a state of the run.
  bool has_state_;
  /// Messages of steps in this generation.
  std::int64_t sequence_ = 0;
  /// Whether the chief has looked at the sizes of the tasks' batches.
  bool has_compared_batches_ = false;
  /// The sum of all dense gradients, where it is made in slices.
  at::Tensor whole_;
};

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables; chief {} at {}",
                     config_.cluster.task.num_worker_replicas, membership_.chief().task.name(),
                     membership_.chief().address);
}

void Collective::check(const EstimatorOptions& /*options*/) const {
  if (config_.cluster.task.num_ps_replicas == 0) return;
  throw FailedPrecondition(
      "{} makes this task {} of a cluster with ps tasks, but the strategy that "
      "RunConfig::cluster.train_distribute makes has nothing for them to do; leave the ps out of "
      "the "
      "cluster, or train_distribute unset",
      config_.cluster.task.source, config_.cluster.task.task.name());
}

void Collective::synchronize() {
  const RunSnapshot own = participant_->snapshot();
  const Progress progress = has_state_ ? Progress{own.step, own.left_out} : Progress{.step = -1};
  const auto take = [&](Group& group, const Source& source) {
    if (source.rank == group.rank()) {
      for (const std::size_t to : source.to) send_snapshot(group, own, to);
    } else if (std::ranges::find(source.to, group.rank()) != source.to.end()) {
      participant_->take_over(receive_snapshot(group, source.rank, own));
    }
    has_state_ = true;
    sequence_ = 0;
    return true;
  };
  // Where the run ended while this task was away, it takes part in no step.
  internal::synchronize(
      membership_, synchronize_deadline(config_, has_state_), [&] { return progress; }, take);
  group_ = &membership_.group();
}

// --------------------------------------------------------------------------------- a step

// Once, by the chief.
void Collective::compare_batches(const PartialSums& own,
                                 const std::vector<ReceivedStep>& received) {
  if (!config_.is_chief() || received.empty() || has_compared_batches_) return;
  has_compared_batches_ = true;
  const auto& members = group_->plan().members;
  for (std::size_t i = 0; i < received.size(); ++i) {
    const std::size_t rank = i < group_->rank() ? i : i + 1;
    const std::string why =
        batch_difference(membership_.task(), own, members[rank].task, received[i].parts);
    if (!why.empty()) log::warning("{}", why);
  }
}

// What all others have of the step. With `sliced`, without the dense gradients. Nothing when the
// run has ended, or when this task is to stop and another may be hung: the step is not made then.
std::optional<std::vector<ReceivedStep>> Collective::exchange(std::int64_t step,
                                                              const PartialSums& own,
                                                              const StepNotes& notes, bool sliced) {
  const std::size_t size = group_->size();
  const std::int64_t sequence = sequence_++;
  const std::int64_t replicas = membership_.terms().replicas;
  const FlatRange all{0, notes.flat_size};
  const auto sent_whole = sliced ? std::span<const FlatRange>() : std::span(&all, 1);
  const StepGradients mine =
      step_gradients(step, sequence, own, notes, group_->replicas(), sent_whole);
  for (std::size_t i = 1; i < size; ++i) group_->send((group_->rank() + i) % size, mine);
  const ExpectedTensors expected{.replicas = replicas,
                                 .flat_size = sliced ? 0 : notes.flat_size,
                                 .tables = notes.tables,
                                 .buffers = notes.buffers};
  const std::string what = fmt::format("the gradients of step {}", step + 1);
  std::vector<ReceivedStep> received;
  for (std::size_t r = 0; r < size; ++r) {
    if (r == group_->rank()) continue;
    auto message = group_->take_unless_stopped<StepGradients>(r, what, expected);
    if (!message) return std::nullopt;
    check_turn(*message, step, sequence);
    received.push_back(received_step(std::move(*message), replicas));
  }
  return received;
}

std::optional<PartialSums> Collective::sum(std::int64_t step, PartialSums own, StepNotes& notes) {
  const bool sliced = group_->size() > 1 && notes.flat_size * 4 > options_.slice_above;
  auto received = exchange(step, own, notes, sliced);
  if (!received) return std::nullopt;
  if (group_->size() == 1 && !membership_.check()) return std::nullopt;
  compare_batches(own, *received);
  const torch::NoGradGuard no_grad;
  if (sliced) {
    const bool any = own.present > 0 || std::ranges::any_of(*received, [](const ReceivedStep& one) {
                       return one.parts.present > 0;
                     });
    // Its memory serves step after step: the sum is read before the next one is made.
    if (!whole_.defined() || whole_.numel() != notes.flat_size) {
      whole_ = at::empty({notes.flat_size}, at::kFloat);
    }
    SlicedSum slices(*group_, membership_.terms().replicas, own, *received, whole_);
    if (any && !slices.add(fmt::format("the gradients of step {}", step + 1))) return std::nullopt;
    for (auto& [part, value] : own.sums) {
      if (value) value->flat = value->flat.narrow(0, 0, 0);
    }
  }
  PartialSums total = add_parts(membership_.terms().replicas, std::move(own), *received);
  if (sliced && total.present > 0) total.sums.begin()->second->flat = whole_;
  // Nothing is written before everything has come.
  for (const ReceivedStep& other : *received) {
    copy_positions(other, notes.positions);
    for (std::size_t i = 0; i < other.buffers.size(); ++i) {
      notes.buffers[i].copy_(other.buffers[i]);
    }
  }
  return total;
}

std::optional<StepResult> Collective::apply(std::int64_t step, PartialSums own) {
  StepNotes notes = notes_of(*participant_);
  auto total = sum(step, std::move(own), notes);
  if (!total) return std::nullopt;
  StepResult result = participant_->update(step, std::move(*total));
  result.positions = std::move(notes.positions);
  return result;
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options) {
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
