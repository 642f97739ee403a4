#include "muster/train/engine/towers.h"

#include <c10/core/DeviceGuard.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/seeded_model.h"

namespace muster {
namespace {

TowerOptions with_all_lanes(TowerOptions options) {
  options.concurrent = static_cast<int>(options.lanes());
  return options;
}

std::shared_ptr<Model> first_model(const ModelFactory& factory, const TowerOptions& options) {
  set_cpu_threads(options.threads_per_replica);
  return make_seeded_model(factory, options.seed);
}

const std::shared_ptr<Model>& brought_to(c10::Device device, const std::shared_ptr<Model>& model) {
  if (!device.is_cpu()) model->to(device);
  return model;
}

AdoptOptions adopt_for(const std::vector<ModuleVariable>& variables, const TowerOptions& towers) {
  AdoptOptions options = adopt_options(variables, &towers.optimizer);
  options.for_gpu = towers.on_gpus();
  return options;
}

}  // namespace

/// One call of run(): what lanes read, and under the mutex what they write.
struct Towers::Run {
  std::span<std::optional<Batch>> batches;
  ReplicaRange replicas;
  ReplicaStep step;
  /// Where the loop's thread gives its work to.
  StreamHandle stream;
  TreeSum<Gradients> sum;
  PartialSums result{};
  /// By replica, where there are several slots: memory on the primary for its gradients, and what
  /// it gave. Each is written by one thread.
  std::vector<at::Tensor> flats{};
  std::vector<ReplicaResult> results{};
  /// The replica whose spec the result has.
  std::int64_t spec_of = -1;
  std::mutex mutex{};

  std::string what() const { return fmt::format("the replicas of step {}", step.number); }
};

Towers::Towers(const ModelFactory& factory, const Head* head, const TowerOptions& options)
    : Towers(factory, head, with_all_lanes(options), first_model(factory, options)) {}

Towers::Towers(const ModelFactory& factory, const Head* head, const TowerOptions& options,
               const std::shared_ptr<Model>& first)
    : options_(options),
      slots_(options),
      module_variables_(variables_of(*first)),
      buffers_(*brought_to(slots_.primary(), first), slots_, options.on_gpus()),
      variables_(Variables::adopt(*first, adopt_for(module_variables_, options))),
      copies_(
          variables_, slots_, [&] { return make_seeded_model(factory, options.seed); },
          module_variables_),
      flats_(variables_.flat().numel(), slots_.sums_on(), options.on_gpus()),
      flats_at_primary_(variables_.flat().numel(), slots_.primary(), options.on_gpus()) {
  const std::size_t lanes = slots_.lanes();
  const bool has_rounds = static_cast<std::size_t>(options.replicas) > lanes || options.shared;
  const std::size_t towers = has_rounds ? lanes + 1 : lanes;
  for (std::size_t tower = 0; tower < towers; ++tower) {
    const bool is_first = tower == 0 && slots_.device_of_lane(0) == slots_.primary();
    towers_.push_back(make_tower(is_first ? first : make_seeded_model(factory, options.seed),
                                 tower == lanes ? 0 : tower, head));
  }
  if (slots_.has_branches()) {
    losses_at_primary_.resize(static_cast<std::size_t>(options.replicas));
    threads_ = std::make_unique<LaneThreads>(slots_.count() - 1, options.threads_per_replica);
  } else if (lanes > 1 && !slots_.take_turns()) {
    threads_ = std::make_unique<LaneThreads>(lanes - 1, options.threads_per_replica);
  }
}

Towers::~Towers() {
  if (!slots_.has_branches()) return;
  try {
    // Memory that slots gave was allocated for their streams, and may still be read by this
    // thread's.
    wait_for_device(slots_.primary());
  } catch (...) {
    // A failure of the device is reported by the thread that next asks it for something.
  }
}

std::unique_ptr<Tower> Towers::make_tower(std::shared_ptr<Model> model, std::size_t lane,
                                          const Head* head) const {
  const TowerSlot slot{.device = slots_.device_of_lane(lane),
                       .index = slots_.slot_of_lane(lane),
                       .primary = slots_.primary(),
                       .is_away = slots_.is_away(lane),
                       .says = towers_.empty()};
  const BranchStream::Use on = slots_.use(slot.index);
  return std::make_unique<Tower>(std::move(model), copies_.of_lane(lane), slot, head, options_);
}

Tower& Towers::tower_of(std::size_t lane, std::int64_t replica) {
  if (lane == 0 && replica != 0) return *towers_.back();
  return *towers_[lane];
}

std::shared_ptr<Model> Towers::current_model() {
  const Tower& first = *towers_[0];
  if (first.slot().is_away) {
    copies_.refresh();
    buffers_.bring_to(first, 0);
  }
  return first.model();
}

void Towers::commit() {
  if (options_.replicas == 1 && !options_.may_discard) return;
  buffers_.keep();
}

void Towers::discard() {
  if (!options_.may_discard)
    throw Internal("a step is discarded that was not begun as one that may be");
  buffers_.discard();
}

void Towers::wait() const {
  if (slots_.sums_are_away()) wait_for_device(slots_.sums_on());
}

bool Towers::is_settled(std::span<const std::optional<Batch>> batches, ReplicaRange replicas) {
  for (std::int64_t replica = replicas.first; replica < replicas.last; ++replica) {
    const auto& batch = batches[static_cast<std::size_t>(replica)];
    const std::size_t lane = static_cast<std::size_t>(replica - replicas.first) % slots_.lanes();
    if (batch && !tower_of(lane, replica).is_settled(*batch)) return false;
  }
  return true;
}

bool Towers::draws_from_libtorch() const { return towers_[0]->model()->draws_from_libtorch(); }

// ---------------------------------------------------------------------------------- a replica

ReplicaResult Towers::run_replica(Tower& tower, std::int64_t replica, const Batch& batch,
                                  const ReplicaStep& step) {
  buffers_.bring_to(tower, replica);
  ReplicaResult result = tower.run(replica, batch, step);
  if (replica == 0) buffers_.take_from(tower);
  return result;
}

// libtorch's own errors tell what did not fit, not whose batch it was; the loop adds the step.
ReplicaResult Towers::run_or_say_where(Tower& tower, std::int64_t replica, const Batch& batch,
                                       const ReplicaStep& step) {
  try {
    return run_replica(tower, replica, batch, step);
  } catch (const c10::Error& error) {
    throw Internal("replica {} with {}: {}", replica, describe(batch),
                   error.what_without_backtrace());
  }
}

Gradients Towers::copy_of(const Gradients& gradients, at::Tensor flat) const {
  const torch::NoGradGuard no_grad;
  Gradients copy{.flat = std::move(flat)};
  copy.flat.copy_(gradients.flat);
  const c10::Device device = slots_.sums_on();
  for (const RowGradient& rows : gradients.rows) {
    copy.rows.push_back(rows.empty() ? rows
                                     : RowGradient{rows.rows.to(device), rows.values.to(device)});
  }
  return copy;
}

// Called by every lane, one at a time: additions happen here, in an order that the tree fixes.
void Towers::report(Run& run, std::int64_t replica, ReplicaResult result) {
  run.result.examples += result.examples;
  run.result.losses[static_cast<std::size_t>(replica)] = result.loss;
  if (!result.marks.empty()) run.result.marks = result.marks;
  const bool is_earlier = run.spec_of < 0 || replica < run.spec_of;
  if (result.gradients && is_earlier) {
    run.spec_of = replica;
    run.result.spec = std::move(result.spec);
  }
  run.sum.report(replica, std::move(result.gradients));
}

// ------------------------------------------------------- lanes that share the loop's stream, or
// CPUs

void Towers::run_lane(std::size_t lane, Run& run) {
  std::optional<c10::DeviceGuard> on;
  if (slots_.device_of_lane(lane).is_cuda()) on.emplace(slots_.device_of_lane(lane));
  for (auto replica = run.replicas.first + static_cast<std::int64_t>(lane);
       replica < run.replicas.last; replica += options_.concurrent) {
    const auto& batch = run.batches[static_cast<std::size_t>(replica)];
    ReplicaResult result;
    if (batch) {
      Tower& tower = tower_of(lane, replica);
      result = run_or_say_where(tower, replica, *batch, run.step);
      const std::lock_guard lock(run.mutex);
      if (options_.releases_gradients) {
        result.gradients = tower.take_gradients();
      } else {
        result.gradients = run.step.copies_gradients ? copy_of(tower.gradients(), flats_.take())
                                                     : tower.gradients();
      }
      report(run, replica, std::move(result));
    } else {
      const std::lock_guard lock(run.mutex);
      report(run, replica, std::move(result));
    }
  }
}

void Towers::run_lanes(Run& run) {
  const auto work = [&](std::size_t lane) { run_lane(lane, run); };
  if (threads_ == nullptr) {
    for (std::size_t lane = 0; lane < slots_.lanes(); ++lane) work(lane);
  } else {
    threads_->run(slots_.lanes(), run.stream, work, [&run] { return run.what(); });
  }
}

// --------------------------------------------------------------------- slots, each with its stream

// The same memory in every step, since the loop's stream reads it when the tower's continues.
at::Tensor Towers::bring_loss(std::int64_t replica, const at::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  at::Tensor& there = losses_at_primary_[static_cast<std::size_t>(replica)];
  if (!there.defined() || there.sizes() != loss.sizes() || there.dtype() != loss.dtype()) {
    there = at::empty(loss.sizes(), loss.options().device(slots_.primary()));
  }
  there.copy_(loss, /*non_blocking=*/true);
  return there;
}

// Gives a slot's share of a round to its stream.
void Towers::run_slot(std::size_t slot, Run& run, ReplicaRange round) {
  std::vector<std::size_t> lanes;
  const std::size_t last = std::min(slots_.lanes(), static_cast<std::size_t>(round.size()));
  for (std::size_t lane = 0; lane < last; ++lane) {
    if (slots_.slot_of_lane(lane) == slot) lanes.push_back(lane);
  }
  if (lanes.empty()) return;
  const BranchStream::Use stream = slots_.use(slot);
  std::optional<c10::DeviceGuard> on;
  if (slots_.device(slot).is_cuda()) on.emplace(slots_.device(slot));
  if (round.first == run.replicas.first) copies_.refresh(slot);
  for (const std::size_t lane : lanes) {
    const auto replica = round.first + static_cast<std::int64_t>(lane);
    const auto index = static_cast<std::size_t>(replica);
    if (!run.batches[index]) continue;
    Tower& tower = tower_of(lane, replica);
    ReplicaResult result = run_or_say_where(tower, replica, *run.batches[index], run.step);
    result.gradients = run.step.copies_gradients
                           ? copy_of(tower.gradients(), std::move(run.flats[index]))
                           : tower.gradients();
    if (tower.slot().is_away) result.loss = bring_loss(replica, result.loss);
    run.results[index] = std::move(result);
  }
}

void Towers::run_slots(Run& run, ReplicaRange round) {
  const auto work = [&](std::size_t slot) { run_slot(slot, run, round); };
  if (run.step.captured.capturing || run.step.captured.in_turn) {
    for (std::size_t slot = 0; slot < slots_.count(); ++slot) work(slot);
  } else {
    threads_->run(slots_.count(), run.stream, work, [&run] { return run.what(); });
  }
}

// One replica of each lane. What they gave is added on the primary when all have given it, by the
// loop's stream, so no more gradients are held there than lanes have and the tree needs.
void Towers::run_round(Run& run, ReplicaRange round) {
  for (std::int64_t replica = round.first; replica < round.last; ++replica) {
    const auto index = static_cast<std::size_t>(replica);
    if (run.batches[index] && run.step.copies_gradients) run.flats[index] = flats_.take();
  }
  slots_.fork();
  try {
    run_slots(run, round);
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      slots_.join();
    } catch (...) {
      // A capture that failed has no streams any more: the first failure says why.
    }
    std::rethrow_exception(failure);
  }
  slots_.join();
  for (std::int64_t replica = round.first; replica < round.last; ++replica) {
    report(run, replica, std::move(run.results[static_cast<std::size_t>(replica)]));
  }
}

// ------------------------------------------------------------------------------------- a step

// The host waits here for gradients by rows alone.
void Towers::bring_to_primary(TreeSum<Gradients>::Parts& sums, bool copied) {
  const torch::NoGradGuard no_grad;
  const c10::Device primary = slots_.primary();
  for (auto& [part, sum] : sums) {
    if (!sum) continue;
    at::Tensor flat = flats_at_primary_.take();
    flat.copy_(sum->flat, /*non_blocking=*/true);
    if (copied) flats_.give_back(std::move(sum->flat));
    sum->flat = std::move(flat);
    for (RowGradient& rows : sum->rows) {
      if (!rows.empty()) rows = {rows.rows.to(primary), rows.values.to(primary)};
    }
  }
}

PartialSums Towers::run(std::span<std::optional<Batch>> batches, ReplicaRange replicas,
                        std::int64_t number, double loss_scale, const CapturedInput& captured) {
  if (!slots_.has_branches()) copies_.refresh();
  const bool are_away = slots_.sums_are_away();
  const bool copies_gradients = replicas.size() > 1 || slots_.device_of_lane(0) != slots_.sums_on();
  const auto count = static_cast<std::size_t>(options_.replicas);
  Run run{.batches = batches,
          .replicas = replicas,
          .step = {number, loss_scale, captured, copies_gradients},
          .stream = StreamHandle(slots_.primary()),
          .sum = {options_.replicas, [this](Gradients& into, Gradients&& from) {
                    add_gradients(into, from);
                    if (!options_.releases_gradients) flats_.give_back(std::move(from.flat));
                  }}};
  run.result.losses.resize(count);
  if (slots_.has_branches()) {
    run.flats.resize(count);
    run.results.resize(count);
    for (std::int64_t first = replicas.first; first < replicas.last; first += options_.concurrent) {
      run_round(run, {first, std::min(first + options_.concurrent, replicas.last)});
    }
  } else {
    run_lanes(run);
  }
  PartialSums result = std::move(run.result);
  result.present = run.sum.present();
  result.sums = run.sum.take_parts();
  if (options_.releases_gradients) return result;
  if (are_away) bring_to_primary(result.sums, copies_gradients);
  // Their memory comes back with the next step.
  FlatPool& from = are_away ? flats_at_primary_ : flats_;
  for (const auto& [part, sum] : result.sums) {
    if (sum && (copies_gradients || are_away)) from.give_back(sum->flat);
  }
  return result;
}

}  // namespace muster
