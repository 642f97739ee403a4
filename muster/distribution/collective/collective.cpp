#include "muster/distribution/collective.h"

#include <functional>
#include <string_view>
#include <utility>

#include "muster/base/log.h"
#include "muster/distribution/collective/collective_reduction_internal.h"
#include "muster/distribution/membership/cluster_membership_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"

namespace muster {
namespace internal {
namespace {

/// The tasks that train together: each comes to the state of the one that is furthest.
class CollectiveMembership final : public ClusterMembership {
 public:
  /// `on_end` is called when a generation is over, and `on_generation` in every generation, when
  /// this task has the state of the run.
  CollectiveMembership(const RunConfig& config, const CollectiveOptions& options,
                       std::function<void()> on_end,
                       std::function<void(Group& group)> on_generation)
      : ClusterMembership(config, options.peers),
        compresses_slices_(options.compresses_slices),
        on_end_(std::move(on_end)),
        on_generation_(std::move(on_generation)) {}

  RunContract join(const RunContract& own) override;
  void synchronize() override;

 private:
  void take_state(Group& group, const Source& source);

  const bool compresses_slices_;
  const std::function<void()> on_end_;
  const std::function<void(Group& group)> on_generation_;
  /// Whether there was a generation, in which steps may have been made.
  bool has_begun_ = false;
};

class Collective final : public Strategy {
 public:
  Collective(const RunConfig& config, const CollectiveOptions& options)
      : config_(config),
        membership_(
            config, options, [this] { reduction_.end_generation(); },
            [this](Group& group) { reduction_.begin_generation(group); }),
        reduction_(options, membership_) {}

  std::string describe() const override;
  void check(const EstimatorOptions& options) const override;
  void attach(Participant& participant) override { membership_.attach(participant); }
  RunMembership& membership() override { return membership_; }
  GradientReduction& reduction() override { return reduction_; }

 private:
  const RunConfig config_;
  CollectiveMembership membership_;
  CollectiveReduction reduction_;
};

std::string_view divided_in_words(Sharding sharding) {
  switch (sharding) {
    case Sharding::kOff:
      return "";
    case Sharding::kOptimizer:
      return " and a part of the slots";
    case Sharding::kGradients:
      return " and a part of the slots and of the sum of gradients";
  }
  return "";
}

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables{}; chief {} at {}",
                     config_.cluster.task.num_worker_replicas, divided_in_words(config_.sharding),
                     membership_.tasks().chief().task.name(), membership_.tasks().chief().address);
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

RunContract CollectiveMembership::join(const RunContract& own) {
  RunContract terms = own;
  terms.others.push_back({"transfer of gradients", compresses_slices_ ? "bfloat16" : "float32"});
  if (compresses_slices_) {
    log::warning(
        "gradients travel as bfloat16: the weights depend on the layout, which is outside of the "
        "promise");
  }
  return tasks().join(terms);
}

// Where a task is lost with state that no other has, the chief's last checkpoint counts.
void CollectiveMembership::take_state(Group& group, const Source& source) {
  if (source.go_back && config().is_chief() && has_begun_) participant().roll_back_to_checkpoint();
  has_begun_ = true;
  if (const auto taken = spread_snapshot(group, source, participant().snapshot())) {
    participant().restore_snapshot(*taken);
  }
  note_state();
  on_generation_(group);
}

void CollectiveMembership::synchronize() {
  on_end_();
  const RunSnapshot own = participant().snapshot();
  const Progress progress =
      has_state() ? Progress{own.step, own.skipped_batches} : Progress{.step = -1};
  // Where the run ended while this task was away, it takes part in no step.
  internal::synchronize(
      tasks(), synchronize_deadline(config(), has_state()), [&] { return progress; },
      [this](Group& group, const Source& source) {
        take_state(group, source);
        return true;
      });
  set_group(tasks().group());
}

}  // namespace
}  // namespace internal

std::unique_ptr<Strategy> make_collective(const RunConfig& config,
                                          const CollectiveOptions& options) {
  if (options.slice_piece <= 0) {
    throw InvalidArgument("CollectiveOptions::slice_piece must be positive: {}",
                          options.slice_piece);
  }
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
