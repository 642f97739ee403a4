#include "muster/distribution/collective.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/collective/all_reduce_internal.h"
#include "muster/distribution/collective/device_all_reduce_internal.h"
#include "muster/distribution/membership/membership_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/membership/stop_grace_internal.h"
#include "muster/distribution/wire/step_parts_internal.h"
#include "muster/nn/device/gpu.h"
#include "muster/train/engine/gradient_buckets.h"

namespace muster {
namespace internal {
namespace {

// Takes the dense gradients out of a message: those that do not travel in it.
TreeSum<at::Tensor>::Parts take_dense(StepGradients& message) {
  TreeSum<at::Tensor>::Parts dense;
  for (TreePart& part : message.sums) {
    auto& values = dense[{part.first, part.last}];
    if (!part.sum) continue;
    values = part.sum->flat;
    part.sum->flat = part.sum->flat.narrow(0, 0, 0);
    part.sum->ranges.clear();
  }
  return dense;
}

class Collective final : public Strategy {
 public:
  Collective(const RunConfig& config, const CollectiveOptions& options)
      : config_(config),
        options_(options),
        membership_(config, options.peers),
        has_state_(config.is_chief()) {}

  std::string describe() const override;
  void check(const EstimatorOptions& options) const override;
  RunContract join(const RunContract& own) override;
  void attach(Participant& participant) override { participant_ = &participant; }
  void synchronize() override;
  std::optional<std::int64_t> last_step() override { return membership_.last_step(); }
  ReplicaRange replicas() const override { return group_->replicas(); }
  std::optional<StepResult> apply(std::int64_t step, PartialSums own) override;
  std::string why_not_on_device(c10::Device device) const override;
  std::optional<StepResult> step_on_device(std::int64_t step,
                                           std::span<const std::optional<Batch>> batches,
                                           const GiveStep& give) override;
  void announce_end() override { membership_.announce_end(); }
  void end(std::int64_t step, int signal) override { membership_.end(step, signal); }
  int leave(bool early) override { return membership_.leave(early); }

 private:
  std::optional<PartialSums> sum(std::int64_t step, PartialSums own, StepNotes& notes);
  at::Tensor sum_in_slices(const StepNotes& notes);
  void compare_batches(const std::vector<TaskBatches>& all);

  c10::Device home() const { return participant_->run_variables().flat().device(); }
  void link_devices(Group& group);
  std::string device_group_id(Group& group);
  std::optional<ReceivedStep> tell_batches(std::int64_t step,
                                           std::span<const std::optional<Batch>> batches,
                                           const InputPositions& positions);
  bool await_device(std::int64_t step);
  void abort_device_work(std::int64_t step);

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

  // Where gradients are summed on devices: those of this generation.
  std::unique_ptr<DeviceLink> link_;
  std::unique_ptr<DeviceAllReduce> device_sums_;
  std::optional<DeviceMark> mark_;
};

std::string Collective::describe() const {
  return fmt::format("collective: {} tasks, each with a copy of the variables; chief {} at {}",
                     config_.cluster.task.num_worker_replicas, membership_.chief().task.name(),
                     membership_.chief().address);
}

RunContract Collective::join(const RunContract& own) {
  RunContract terms = own;
  terms.others.push_back(
      {"transfer of gradients", options_.compresses_slices ? "bfloat16" : "float32"});
  if (options_.compresses_slices) {
    log::warning(
        "gradients travel as bfloat16: the weights depend on the layout, which is outside of the "
        "promise");
  }
  return membership_.join(terms);
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
  const Progress progress =
      has_state_ ? Progress{own.step, own.skipped_batches} : Progress{.step = -1};
  const auto take = [&](Group& group, const Source& source) {
    if (const auto taken = spread_snapshot(group, source, own))
      participant_->restore_snapshot(*taken);
    has_state_ = true;
    sequence_ = 0;
    if (why_not_on_device(home()).empty()) link_devices(group);
    return true;
  };
  // Where the run ended while this task was away, it takes part in no step.
  internal::synchronize(
      membership_, synchronize_deadline(config_, has_state_), [&] { return progress; }, take);
  group_ = &membership_.group();
}

// --------------------------------------------------------------------------------- a step

// Once, by the chief.
void Collective::compare_batches(const std::vector<TaskBatches>& all) {
  if (!config_.is_chief() || all.size() < 2 || has_compared_batches_) return;
  has_compared_batches_ = true;
  const auto own = std::ranges::find(all, group_->rank(), &TaskBatches::rank);
  if (own == all.end()) return;
  for (const TaskBatches& one : all) {
    if (one.rank >= group_->size()) throw DataLoss("batches of task {} were told of", one.rank);
    const std::string why = batch_difference(
        membership_.task(), {.present = own->present, .examples = own->examples},
        group_->task(one.rank), {.present = one.present, .examples = one.examples});
    if (!why.empty()) log::warning("{}", why);
  }
}

// Where the sum of dense gradients is made in slices; else not defined. Its memory serves step
// after step: the sum is read before the next one is made.
at::Tensor Collective::sum_in_slices(const StepNotes& notes) {
  if (group_->size() == 1 || notes.flat_size * 4 <= options_.slice_above) return {};
  if (!whole_.defined() || whole_.numel() != notes.flat_size) {
    whole_ = at::empty({notes.flat_size}, at::kFloat);
  }
  return whole_;
}

// Nothing when the run has ended, or when this task is to stop and another may be hung: the step is
// not made then.
std::optional<PartialSums> Collective::sum(std::int64_t step, PartialSums own, StepNotes& notes) {
  if (group_->size() == 1) {
    if (!membership_.check()) return std::nullopt;
    return own;
  }
  const torch::NoGradGuard no_grad;
  const std::int64_t replicas = membership_.terms().replicas;
  const std::int64_t sequence = sequence_++;
  const FlatRange all{0, notes.flat_size};
  StepGradients mine =
      step_gradients(step, sequence, own, notes, group_->replicas(), std::span(&all, 1));
  if (sequence == 0) mine.batches = {{group_->rank(), own.present, own.examples}};
  const at::Tensor whole = sum_in_slices(notes);
  TreeSum<at::Tensor>::Parts dense;
  if (whole.defined()) dense = take_dense(mine);
  AllReduce reduce(
      *group_,
      {.replicas = replicas,
       .flat_size = notes.flat_size,
       .tables = notes.tables,
       .buffers = notes.buffers},
      {.whole = whole, .piece = options_.slice_piece, .is_compressed = options_.compresses_slices},
      fmt::format("the gradients of step {}", step + 1));
  auto sum = reduce.sum(std::move(mine), std::move(dense));
  if (!sum) return std::nullopt;
  compare_batches(sum->batches);
  ReceivedStep received = received_step(std::move(*sum), replicas);
  PartialSums total = std::move(received.parts);
  total.spec = std::move(own.spec);
  if (whole.defined() && total.present > 0) total.sums.begin()->second->flat = whole;
  // Nothing is written before everything has come.
  take_positions(received, notes.positions);
  if (!group_->replicas().contains(0)) {
    for (std::size_t i = 0; i < received.buffers.size(); ++i) {
      notes.buffers[i].copy_(received.buffers[i]);
    }
  }
  return total;
}

// --------------------------------------------------------------------------------- on devices

std::string Collective::why_not_on_device(c10::Device device) const {
  if (options_.compresses_slices) return "gradients travel as bfloat16";
  if (device.is_cuda()) return nccl_obstacle();
  return options_.host_counts_as_device ? "" : "the CPU is no device of its own";
}

// The first task makes it, and the others have it the way a state spreads.
std::string Collective::device_group_id(Group& group) {
  std::string id;
  if (const auto from = state_sender(group.plan().members, group.rank(), 0)) {
    auto message = group.take<DeviceGroup>(*from, "the id of the GPUs' group");
    if (!message) throw PeersChanged("the run has ended");
    id = std::move(message->id);
  } else {
    id = make_nccl_id();
  }
  for (const std::size_t to : state_receivers(group.plan().members, group.rank(), 0)) {
    group.send(to, DeviceGroup{id});
  }
  return id;
}

void Collective::link_devices(Group& group) {
  device_sums_.reset();
  link_.reset();
  const c10::Device device = home();
  if (group.size() > 1 && device.is_cuda()) {
    const auto start = std::chrono::steady_clock::now();
    link_ = make_nccl_link(device_group_id(group), group.rank(), group.size(), device, [&group] {
      if (!group.check()) throw PeersChanged("the run has ended");
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    log::info("NCCL connects the GPUs of {} tasks seconds={:.2f}", group.size(), took.count());
  } else if (group.size() > 1) {
    link_ = make_host_link(group, "gradients");
  }
  device_sums_ = std::make_unique<DeviceAllReduce>(
      group.plan(), group.rank(), membership_.terms().replicas,
      participant_->run_variables().flat(), gradient_buckets(participant_->run_variables()),
      link_.get());
  mark_.emplace(device);
}

// Which replicas of the run have a batch, and where their inputs stand. Nothing when the run has
// ended.
std::optional<ReceivedStep> Collective::tell_batches(std::int64_t step,
                                                     std::span<const std::optional<Batch>> batches,
                                                     const InputPositions& positions) {
  const ReplicaRange replicas = group_->replicas();
  StepGradients mine{.step = step, .sequence = sequence_++, .replicas = replicas};
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    const auto& batch = batches[static_cast<std::size_t>(r)];
    ReplicaReport& report = mine.reports.emplace_back();
    report.position = positions[static_cast<std::size_t>(r)];
    if (!batch) continue;
    // That there will be one; what it is, the devices tell each other.
    report.loss = 0;
    ++mine.present;
    mine.examples += batch->size();
  }
  if (group_->size() == 1) {
    if (!membership_.check()) return std::nullopt;
    return received_step(std::move(mine), membership_.terms().replicas);
  }
  if (mine.sequence == 0) mine.batches = {{group_->rank(), mine.present, mine.examples}};
  AllReduce reduce(*group_, {.replicas = membership_.terms().replicas}, {},
                   fmt::format("the batches of step {}", step + 1));
  auto all = reduce.sum(std::move(mine), {});
  if (!all) return std::nullopt;
  compare_batches(all->batches);
  return received_step(std::move(*all), membership_.terms().replicas);
}

// The device waits for those of other tasks, which may be gone: then it is made to stop.
void Collective::abort_device_work(std::int64_t step) {
  constexpr std::chrono::seconds kLongest{60};
  if (link_ != nullptr) link_->abort();
  const auto start = std::chrono::steady_clock::now();
  while (!mark_->is_passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() - start > kLongest) {
      throw Internal("the GPU does not end its part of step {} after NCCL was aborted", step + 1);
    }
  }
}

// False when the run has ended, or this task is to stop and another may be hung.
bool Collective::await_device(std::int64_t step) {
  constexpr std::chrono::microseconds kAwake{200};
  mark_->set();
  const BlockingRegion region([step] { return fmt::format("the GPU: step {}", step + 1); });
  const auto start = std::chrono::steady_clock::now();
  try {
    while (!mark_->is_passed()) {
      if (!group_->check() || stops(start)) {
        abort_device_work(step);
        return false;
      }
      if (std::chrono::steady_clock::now() - start < kAwake) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  } catch (const PeersChanged&) {
    abort_device_work(step);
    throw;
  }
  return true;
}

std::optional<StepResult> Collective::step_on_device(std::int64_t step,
                                                     std::span<const std::optional<Batch>> batches,
                                                     const GiveStep& give) {
  InputPositions positions = participant_->positions();
  auto all = tell_batches(step, batches, positions);
  if (!all) return std::nullopt;
  take_positions(*all, positions);
  StepResult result{.present = all->parts.present,
                    .examples = all->parts.examples,
                    .positions = std::move(positions)};
  if (result.present == 0) return result;
  std::vector<bool> has_batch;
  for (const at::Tensor& loss : all->parts.losses) has_batch.push_back(loss.defined());
  const bool has_all = result.present == std::ssize(has_batch);
  device_sums_->begin_step(std::move(has_batch));
  give(*device_sums_, has_all);
  if (!await_device(step)) return std::nullopt;
  return result;
}

// --------------------------------------------------------------------------------- on the CPU

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
  if (options.slice_piece <= 0) {
    throw InvalidArgument("CollectiveOptions::slice_piece must be positive: {}",
                          options.slice_piece);
  }
  return std::make_unique<internal::Collective>(config, options);
}

}  // namespace muster
