#include "muster/distribution/collective/collective_reduction_internal.h"

#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/distribution/collective/all_reduce_internal.h"
#include "muster/distribution/membership/snapshot_internal.h"
#include "muster/distribution/membership/stop_grace_internal.h"
#include "muster/nn/device/gpu.h"
#include "muster/train/engine/gradient_buckets.h"

namespace muster::internal {
namespace {

// Takes the dense gradients out of a message: those that do not travel in it.
TreeSum<at::Tensor>::Parts take_dense(StepGradients& message) {
  TreeSum<at::Tensor>::Parts dense;
  for (TreePart& part : message.sums) {
    auto& values = dense[{part.first, part.last}];
    if (!part.sum) continue;
    values = std::exchange(part.sum->flat, at::empty({0}, at::kFloat));
    part.sum->ranges.clear();
  }
  return dense;
}

}  // namespace

void CollectiveReduction::begin_generation(Group& group) {
  sequence_ = 0;
  if (is_sharded()) return begin_shard(group);
  if (why_not_on_device(primary()).empty()) link_devices(group);
}

// --------------------------------------------------------------------------------- a step

// Once, by the chief.
void CollectiveReduction::compare_batches(const std::vector<TaskBatches>& all) {
  if (!membership_.config().is_chief() || all.size() < 2 || has_compared_batches_) return;
  has_compared_batches_ = true;
  const auto own = std::ranges::find(all, group().rank(), &TaskBatches::rank);
  if (own == all.end()) return;
  for (const TaskBatches& one : all) {
    if (one.rank >= group().size()) throw DataLoss("batches of task {} were told of", one.rank);
    const std::string why = batch_difference(
        tasks().task(), {.present = own->present, .examples = own->examples},
        group().task(one.rank), {.present = one.present, .examples = one.examples});
    if (!why.empty()) log::warning("{}", why);
  }
}

// Where the sum of dense gradients is made in slices; else not defined. Its memory serves step
// after step: the sum is read before the next one is made.
at::Tensor CollectiveReduction::sum_in_slices(const StepNotes& notes) {
  const bool are_small = notes.flat_size * 4 <= options_.slice_above;
  if (group().size() == 1 || (are_small && !divides_gradients())) return {};
  const FlatRange range = summed_here(notes.flat_size);
  if (!whole_.defined() || whole_.numel() != size_of(range)) {
    whole_ = at::empty({size_of(range)}, at::kFloat);
  }
  return whole_;
}

// The elements of the sum that this task gets.
FlatRange CollectiveReduction::summed_here(std::int64_t flat_size) const {
  return divides_gradients() ? shards_->of(group().rank()) : FlatRange{0, flat_size};
}

// Nothing when the run has ended, or when this task is to stop and another may be hung: the step is
// not made then.
std::optional<PartialSums> CollectiveReduction::sum(std::int64_t step, PartialSums own,
                                                    StepNotes& notes) {
  if (group().size() == 1) {
    if (!tasks().check()) return std::nullopt;
    return own;
  }
  const torch::NoGradGuard no_grad;
  const std::int64_t replicas = tasks().terms().replicas;
  const std::int64_t sequence = sequence_++;
  const FlatRange all{0, notes.flat_size};
  StepGradients mine =
      step_gradients(step, sequence, own, notes, group().replicas(), std::span(&all, 1));
  if (sequence == 0) mine.batches = {{group().rank(), own.present, own.examples}};
  const at::Tensor whole = sum_in_slices(notes);
  TreeSum<at::Tensor>::Parts dense;
  if (whole.defined()) dense = take_dense(mine);
  // Memory of gradients goes when they are sent.
  own.sums.clear();
  AllReduce reduce(group(),
                   {.replicas = replicas,
                    .flat_size = notes.flat_size,
                    .tables = notes.tables,
                    .buffers = notes.buffers},
                   {.whole = whole,
                    .piece = options_.slice_piece,
                    .is_compressed = options_.compresses_slices,
                    .shards = divides_gradients() ? &*shards_ : nullptr},
                   fmt::format("the gradients of step {}", step + 1),
                   is_sharded() ? &order_ : nullptr);
  auto sum = reduce.sum(std::move(mine), std::move(dense));
  if (!sum) return std::nullopt;
  compare_batches(sum->batches);
  ReceivedStep received = received_step(std::move(*sum), replicas);
  PartialSums total = std::move(received.parts);
  total.spec = std::move(own.spec);
  if (whole.defined() && total.present > 0) {
    Gradients& summed = *total.sums.begin()->second;
    summed.flat = whole;
    summed.first = summed_here(notes.flat_size).first;
  }
  // Nothing is written before everything has come.
  take_positions(received, notes.positions);
  if (!group().replicas().contains(0)) {
    for (std::size_t i = 0; i < received.buffers.size(); ++i) {
      notes.buffers[i].copy_(received.buffers[i]);
    }
  }
  return total;
}

// --------------------------------------------------------------------------------- on devices

std::string CollectiveReduction::why_not_on_device(c10::Device device) const {
  if (is_sharded()) return "slots are divided between tasks";
  if (options_.compresses_slices) return "gradients travel as bfloat16";
  if (device.is_cuda()) return nccl_obstacle();
  return options_.host_counts_as_device ? "" : "the CPU is no device of its own";
}

namespace {

/// Stands for the id of a group of NCCL where all tasks share one GPU.
constexpr const char* kOneGpu = "one GPU";

DeviceGroup take_group(Group& group, std::size_t from, const char* what) {
  auto message = group.take<DeviceGroup>(from, what);
  if (!message) throw PeersChanged("the run has ended");
  return std::move(*message);
}

/// Those that this task sends to or receives from.
std::vector<std::size_t> partners_of(const Group& group) {
  const Exchange exchange = exchange_of(group.plan().members, group.rank());
  std::vector<std::size_t> partners;
  for (const Exchange::Stage& one : exchange.taken_from) partners.push_back(one.partner);
  for (const Exchange::Stage& one : exchange.stages) partners.push_back(one.partner);
  if (exchange.given_to) partners.push_back(exchange.given_to->partner);
  return partners;
}

std::map<std::size_t, std::string> swap_handles(Group& group,
                                                const std::map<std::size_t, std::string>& own) {
  for (const auto& [partner, handle] : own) group.send(partner, DeviceGroup{handle});
  std::map<std::size_t, std::string> theirs;
  for (const auto& [partner, handle] : own) {
    theirs[partner] = take_group(group, partner, "the handle of its GPU's memory").id;
  }
  return theirs;
}

}  // namespace

// Tasks tell the first which GPU they have, against the way of a state, and have from it what they
// are connected by.
std::string CollectiveReduction::device_group_id(Group& group) {
  const auto& members = group.plan().members;
  const auto children = state_receivers(members, group.rank(), 0);
  std::string common = shared_gpu_identity(primary());
  for (const std::size_t child : children) {
    if (take_group(group, child, "which GPU it has").id != common) common.clear();
  }
  std::string id;
  if (const auto parent = state_sender(members, group.rank(), 0)) {
    group.send(*parent, DeviceGroup{common});
    id = take_group(group, *parent, "the id of the GPUs' group").id;
  } else {
    id = common.empty() ? make_nccl_id() : kOneGpu;
  }
  for (const std::size_t child : children) group.send(child, DeviceGroup{id});
  return id;
}

// Also takes the pieces in which gradients are summed.
void CollectiveReduction::link_gpus(Group& group, std::vector<FlatRange>& pieces) {
  const auto start = std::chrono::steady_clock::now();
  const std::string id = device_group_id(group);
  const at::Tensor flat = participant().run_variables().flat();
  const bool is_one = id == kOneGpu;
  if (is_one) {
    // Tasks that compute on one GPU hide nothing from each other, and each piece is waited for.
    pieces = {{0, flat.numel()}};
    link_ = make_shared_gpu_link(primary(), flat.nbytes(), partners_of(group),
                                 [&group](const auto& own) { return swap_handles(group, own); });
  } else {
    link_ = make_nccl_link(id, group.rank(), group.size(), primary(), [&group] {
      if (!group.check()) throw PeersChanged("the run has ended");
    });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  log::info("{} of {} tasks seconds={:.2f}",
            is_one ? "memory of one GPU connects the processes" : "NCCL connects the GPUs",
            group.size(), took.count());
}

void CollectiveReduction::link_devices(Group& group) {
  device_sums_.reset();
  link_.reset();
  const c10::Device device = primary();
  std::vector<FlatRange> pieces = gradient_buckets(participant().run_variables());
  if (group.size() > 1 && device.is_cuda()) {
    link_gpus(group, pieces);
  } else if (group.size() > 1) {
    link_ = make_host_link(group, "gradients");
  }
  device_sums_ = std::make_unique<DeviceAllReduce>(
      group.plan(), group.rank(), tasks().terms().replicas, participant().run_variables().flat(),
      std::move(pieces), link_.get());
  mark_.emplace(device);
}

// Which replicas of the run have a batch, and where their inputs stand. Nothing when the run has
// ended.
std::optional<ReceivedStep> CollectiveReduction::tell_batches(
    std::int64_t step, std::span<const std::optional<Batch>> batches,
    const InputPositions& positions) {
  const ReplicaRange replicas = group().replicas();
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
  if (group().size() == 1) {
    if (!tasks().check()) return std::nullopt;
    return received_step(std::move(mine), tasks().terms().replicas);
  }
  if (mine.sequence == 0) mine.batches = {{group().rank(), mine.present, mine.examples}};
  AllReduce reduce(group(), {.replicas = tasks().terms().replicas}, {},
                   fmt::format("the batches of step {}", step + 1));
  auto all = reduce.sum(std::move(mine), {});
  if (!all) return std::nullopt;
  compare_batches(all->batches);
  return received_step(std::move(*all), tasks().terms().replicas);
}

// The device waits for those of other tasks, which may be gone: then it is made to stop.
void CollectiveReduction::abort_device_work(std::int64_t step) {
  constexpr std::chrono::seconds kLongest{60};
  if (link_ != nullptr) link_->abort();
  const auto start = std::chrono::steady_clock::now();
  while (!mark_->is_passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() - start > kLongest) {
      throw Internal("the GPU does not end its part of step {} after its link was aborted",
                     step + 1);
    }
  }
}

// False when the run has ended, or this task is to stop and another may be hung.
bool CollectiveReduction::await_device(std::int64_t step) {
  constexpr std::chrono::microseconds kAwake{200};
  mark_->set();
  const BlockingRegion region([step] { return fmt::format("the GPU: step {}", step + 1); });
  const auto start = std::chrono::steady_clock::now();
  try {
    while (!mark_->is_passed()) {
      if (!group().check() || stops(start)) {
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

std::optional<StepResult> CollectiveReduction::step_on_device(
    std::int64_t step, std::span<const std::optional<Batch>> batches, const GiveStep& give) {
  InputPositions positions = participant().positions();
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

std::optional<StepResult> CollectiveReduction::apply(std::int64_t step, PartialSums own) {
  StepNotes notes = notes_of(participant());
  auto total = sum(step, std::move(own), notes);
  is_abandoned_ = !total;
  if (!total || !follow_order(step)) return std::nullopt;
  std::optional<StepResult> result = update(step, std::move(*total));
  is_abandoned_ = !result;
  if (!result) return std::nullopt;
  const bool is_updated = result->present > 0 && result->not_finite.empty() && !result->overflowed;
  is_abandoned_ = is_updated && !gather(step);
  if (is_abandoned_) return std::nullopt;
  result->positions = std::move(notes.positions);
  return result;
}

}  // namespace muster::internal
