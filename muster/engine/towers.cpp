#include "muster/engine/towers.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/wait.h"
#include "muster/device/devices.h"
#include "muster/engine/arithmetic.h"
#include "muster/engine/batch_norms.h"
#include "muster/engine/gradient_pieces.h"
#include "muster/engine/packed_tensors.h"
#include "muster/engine/seed_streams.h"
#include "muster/kernels/libtorch_kernels.h"
#include "muster/kernels/torch_compat.h"
#include "muster/model/gradient_listener.h"
#include "muster/model/head.h"
#include "muster/model/random_scope.h"
#include "muster/model/seeded_module.h"
#include "muster/model/sparse_tables.h"

namespace muster {
namespace {

std::uint64_t generator_seed(std::uint64_t seed, std::int64_t step, std::int64_t replica) {
  return derive_key(derive_key(seed, seed_stream::kGenerator), static_cast<std::uint64_t>(step),
                    static_cast<std::uint64_t>(replica));
}

// libtorch has one generator for the CPU: whatever draws from it takes turns, in all of the
// process, since models are also made while another one trains.
std::mutex& generator_turn() {
  static std::mutex turn;
  return turn;
}

// Whoever brought it there has checked its labels.
bool is_on(const Batch& batch, c10::Device device) {
  const Features& columns = batch.features.empty() ? batch.labels : batch.features;
  return std::ranges::any_of(columns, [&](const Features::Column& column) {
    const auto* tensor = std::get_if<at::Tensor>(&column.second);
    return tensor != nullptr && tensor->device() == device;
  });
}

at::ScalarType autocast_type(ComputeType precision) {
  return precision == ComputeType::kFloat16 ? at::kHalf : at::kBFloat16;
}

}  // namespace

AdoptOptions adopt_options(const std::vector<ModuleVariable>& variables) {
  std::map<std::string, std::string, std::less<>> names;
  std::set<std::string, std::less<>> sparse;
  for (const auto& variable : variables) {
    names.emplace(variable.key, variable.name);
    if (variable.sparse) sparse.insert(variable.name);
  }
  return {.name = [names](std::string_view key) { return names.find(key)->second; },
          .sparse = [sparse](std::string_view name) { return sparse.contains(name); }};
}

namespace {

bool has_gpu(std::span<const c10::Device> devices) {
  return std::ranges::any_of(devices, [](c10::Device device) { return device.is_cuda(); });
}

bool has_feature_columns(const Model& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return dynamic_cast<const SparseTables*>(module.get()) != nullptr;
  });
}

}  // namespace

std::vector<c10::Device> tower_devices(const RunConfig& config, const ModelFactory& factory) {
  auto devices = resolve_devices(config.devices.names);
  if (!has_gpu(devices)) return devices;
  if (!has_feature_columns(*Towers::make_model(factory, config.seed()))) return devices;
  if (config.devices.names.empty()) return {c10::Device(c10::kCPU)};
  throw InvalidArgument(
      "RunConfig: devices is {}, but the model has feature columns, which are looked up on the "
      "CPU; leave devices empty, or name \"cpu\"",
      describe(devices));
}

bool TowerOptions::on_gpus() const { return has_gpu(devices); }

struct Towers::Tower {
  std::shared_ptr<Model> model;
  AttachedModule attached;
  std::vector<at::Tensor> buffers;
  BatchNorms norms;
  c10::Device device{c10::kCPU};
  /// Brings batches to a GPU.
  std::optional<Feed> feed{};
  /// Where sums over other processes may begin before its backward ends.
  std::unique_ptr<GradientPieces> pieces{};
  /// Where it is not at home: its buffers side by side, on the way.
  std::optional<PackedTensors> packed{};
};

struct Towers::Copy {
  c10::Device device;
  std::shared_ptr<Model> model;
  Variables variables;
};

struct Towers::ReplicaResult {
  std::optional<Gradients> gradients{};
  at::Tensor loss{};
  std::int64_t examples = 0;
  EstimatorSpec spec{};
  std::span<const DeviceMark> marks{};
};

/// One call of run(): what lanes read, and under the mutex what they write.
struct Towers::Run {
  std::span<std::optional<Batch>> batches;
  ReplicaRange replicas;
  std::int64_t number;
  double loss_scale;
  CapturedInput captured;
  /// Whether a tower's gradients are copied, since it needs its memory for the next replica.
  bool copies_gradients;
  /// Where the loop's thread gives its work to.
  StreamHandle stream;
  TreeSum<Gradients> sum;
  PartialSums result{};
  std::int64_t spec_of = -1;
  std::mutex mutex{};
  std::condition_variable lane_done{};
  std::size_t lanes_running = 0;
  std::exception_ptr failure{};
};

std::shared_ptr<Model> Towers::make_model(const ModelFactory& factory, std::uint64_t seed) {
  if (!factory) throw InvalidArgument("Estimator: the model factory is not set");
  // libtorch's own layers draw their first weights from its generator while they are constructed.
  const std::lock_guard turn(generator_turn());
  at::manual_seed(derive_key(seed, seed_stream::kWeights));
  std::shared_ptr<Model> model = factory();
  if (model == nullptr) throw InvalidArgument("Estimator: the model factory returned no model");
  seed_modules(*model, derive_key(seed, seed_stream::kWeights));
  return model;
}

Towers::Towers(const ModelFactory& factory, const Head* head, TowerOptions options)
    : head_(head), options_(std::move(options)) {
  const auto replicas = static_cast<std::size_t>(options_.replicas);
  const auto wanted =
      options_.on_gpus() ? options_.devices.size() : static_cast<std::size_t>(options_.concurrent);
  const std::size_t lanes = std::clamp<std::size_t>(wanted, 1, replicas);
  options_.concurrent = static_cast<int>(lanes);
  set_cpu_threads(options_.threads_per_replica);
  if (options_.on_gpus() && options_.variable_strategy == VariableStrategy::kDevices) {
    home_ = device_of(0);
  }
  const auto first_device = device_of(0);
  const bool one_device = std::ranges::all_of(
      options_.devices, [&](c10::Device device) { return device == first_device; });
  sums_on_ = one_device ? first_device : home_;

  auto first = make_model(factory, options_.seed);
  module_variables_ = variables_of(*first);
  if (!home_.is_cpu()) first->to(home_);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (device_of(lane) != home_ && !packed_buffers_) lay_out_buffers(*first);
  }
  AdoptOptions adopt = adopt_options(module_variables_);
  adopt.for_gpu = options_.on_gpus();
  variables_.emplace(Variables::adopt(*first, adopt));
  buffers_ = first->buffers();
  make_copies(factory);
  // One tower a lane; lane 0 has a second one for its replicas after 0, whose buffers are private.
  const std::size_t towers = replicas > lanes || options_.shared ? lanes + 1 : lanes;
  for (std::size_t t = 0; t < towers; ++t) {
    const bool is_first = t == 0 && device_of(0) == home_;
    towers_.push_back(make_tower(is_first ? first : make_model(factory, options_.seed),
                                 device_of(t == lanes ? 0 : t)));
  }
  if (packed_buffers_) {
    packed_kept_.emplace(buffers_, home_, options_.on_gpus());
    kept_buffers_ = packed_kept_->tensors();
    keep_buffers();
  } else {
    for (const auto& buffer : buffers_) kept_buffers_.push_back(buffer.detach().clone());
  }
  if (lanes > 1 && !(options_.on_gpus() && one_device)) {
    pool_ = std::make_unique<ThreadPool>(lanes - 1);
  }
}

Towers::~Towers() = default;

// Side by side, so that one copy brings them to a tower elsewhere.
void Towers::lay_out_buffers(Model& model) {
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> buffers = model.buffers();
  packed_buffers_.emplace(buffers, home_, options_.on_gpus());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor& place = packed_buffers_->tensors()[i];
    place.copy_(buffers[i]);
    buffers[i].set_data(place);
  }
}

c10::Device Towers::device_of(std::size_t lane) const {
  return options_.on_gpus() ? options_.devices[lane] : c10::Device(c10::kCPU);
}

void Towers::make_copies(const ModelFactory& factory) {
  const auto lanes = static_cast<std::size_t>(options_.concurrent);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const c10::Device device = device_of(lane);
    const auto has_it = [&](const auto& copy) { return copy->device == device; };
    if (device == home_ || std::ranges::any_of(copies_, has_it)) continue;
    auto model = make_model(factory, options_.seed);
    if (!device.is_cpu()) model->to(device);
    auto variables = Variables::adopt(*model, adopt_options(module_variables_));
    copies_.push_back(std::make_unique<Copy>(Copy{device, model, std::move(variables)}));
  }
}

const Variables& Towers::variables_on(c10::Device device) const {
  if (device == home_) return *variables_;
  return (*std::ranges::find_if(copies_, [&](const auto& copy) { return copy->device == device; }))
      ->variables;
}

std::unique_ptr<Towers::Tower> Towers::make_tower(const std::shared_ptr<Model>& model,
                                                  c10::Device device) const {
  if (!device.is_cpu()) model->to(device);
  model->train();
  auto attached = variables_on(device).attach(model);
  auto tower = std::make_unique<Tower>(Tower{.model = model,
                                             .attached = std::move(attached),
                                             .buffers = model->buffers(),
                                             .norms = BatchNorms(*model)});
  tower->device = device;
  if (device.is_cuda()) tower->feed.emplace(device);
  if (device.is_cuda() && device == home_ && options_.shared) {
    tower->pieces = std::make_unique<GradientPieces>(*variables_, tower->attached, device);
  }
  if (device != home_) tower->packed.emplace(tower->buffers, device, home_.is_cuda());
  return tower;
}

// Before a step, copies have the values that the last update left at home.
void Towers::refresh_copies() {
  const torch::NoGradGuard no_grad;
  for (const auto& copy : copies_) {
    copy->variables.flat().copy_(variables_->flat(), /*non_blocking=*/true);
    for (std::size_t i = 0; i < variables_->all().size(); ++i) {
      const Variable& variable = variables_->all()[i];
      // Towers have buffers of their own.
      if (variable.sparse()) {
        copy->variables.all()[i].value.copy_(variable.value, /*non_blocking=*/true);
      }
    }
  }
}

Towers::Tower& Towers::tower_of(std::size_t lane, std::int64_t replica) {
  if (lane == 0 && replica != 0) return *towers_.back();
  return *towers_[lane];
}

const std::vector<at::Tensor>& Towers::buffers() const { return buffers_; }

std::shared_ptr<Model> Towers::current_model() {
  Tower& first = *towers_[0];
  if (first.device != home_) {
    refresh_copies();
    bring_buffers(*packed_buffers_, first);
  }
  return first.model;
}

void Towers::commit() {
  if (options_.replicas == 1 && !options_.may_discard) return;
  keep_buffers();
}

void Towers::keep_buffers() {
  if (packed_kept_) {
    packed_kept_->memory().copy_(packed_buffers_->memory());
  } else {
    copy_tensors(buffers_, kept_buffers_);
  }
}

void Towers::discard() {
  if (!options_.may_discard) throw Internal("a step is discarded that nobody said may be");
  copy_tensors(kept_buffers_, buffers_);
}

void Towers::wait() const {
  if (sums_on_ != home_) wait_for_device(sums_on_);
}

bool Towers::draws_from_libtorch() const { return towers_[0]->model->draws_from_libtorch(); }

std::unique_lock<std::mutex> Towers::seed_generators(std::int64_t step,
                                                     std::int64_t replica) const {
  std::unique_lock turn(generator_turn());
  at::manual_seed(generator_seed(options_.seed, step, replica));
  return turn;
}

EstimatorSpec Towers::call_model(Tower& tower, std::int64_t replica, const Batch& batch,
                                 const Run& step) {
  std::optional<RandomScope> random;
  if (step.captured.keys != nullptr) {
    random.emplace(step.captured.keys + replica);
  } else {
    random.emplace(options_.seed, step.number, replica);
  }
  std::unique_lock<std::mutex> turn;
  if (tower.model->draws_from_libtorch() && !step.captured.capturing) {
    turn = seed_generators(step.number, replica);
  }
  const compat::AutocastScope autocast(options_.precision != ComputeType::kFloat32,
                                       tower.device.type(), autocast_type(options_.precision));
  return checked(tower.model->call(batch, Mode::kTrain, head_));
}

// A GPU takes and gives them while nobody waits.
void Towers::bring_buffers(const PackedTensors& from, Tower& tower) const {
  if (from.tensors().empty()) return;
  const torch::NoGradGuard no_grad;
  tower.packed->memory().copy_(from.memory(), /*non_blocking=*/tower.device.is_cuda());
  compat::copy_all(tower.packed->tensors(), tower.buffers);
}

void Towers::take_buffers(Tower& tower) {
  if (tower.buffers.empty()) return;
  const torch::NoGradGuard no_grad;
  compat::copy_all(tower.buffers, tower.packed->tensors());
  packed_buffers_->memory().copy_(tower.packed->memory(), /*non_blocking=*/sums_on_ != home_);
}

Towers::ReplicaResult Towers::run_replica(Tower& tower, std::int64_t replica, const Batch& batch,
                                          const Run& step) {
  const bool away = tower.device != home_;
  if (away) {
    bring_buffers(replica == 0 ? *packed_buffers_ : *packed_kept_, tower);
  } else if (replica != 0) {
    copy_tensors(kept_buffers_, tower.buffers);
  }
  tower.attached.zero();
  if (options_.zero_debias_batch_norm) tower.norms.debias(step.number + 1);
  ReplicaResult outcome{.examples = batch.size()};
  const bool in_pieces = tower.pieces != nullptr && !step.copies_gradients;
  const GradientScope listener(in_pieces ? tower.pieces.get() : nullptr);
  if (in_pieces) tower.pieces->begin();
  const kernels::KernelScope scope(options_.own_cpu_kernels);
  const bool fed = tower.feed && !is_on(batch, tower.device);
  if (fed && head_ != nullptr) head_->check_labels(batch.labels);
  outcome.spec = call_model(tower, replica, fed ? tower.feed->put(batch) : batch, step);
  const at::Tensor& loss = outcome.spec.loss;
  outcome.loss = loss.detach();
  (step.loss_scale == 1.0 ? loss : loss * step.loss_scale).backward();
  if (fed) tower.feed->used();
  const bool were_moved = tower.attached.collect();
  if (in_pieces) {
    tower.pieces->end(were_moved);
    outcome.marks = tower.pieces->marks();
  }
  if (replica == 0 && away) take_buffers(tower);
  return outcome;
}

// libtorch's own errors tell what did not fit, not whose batch it was; the loop adds the step.
Towers::ReplicaResult Towers::run_or_say_where(Tower& tower, std::int64_t replica,
                                               const Batch& batch, const Run& step) {
  try {
    return run_replica(tower, replica, batch, step);
  } catch (const c10::Error& error) {
    throw Internal("replica {} with {}: {}", replica, describe(batch),
                   error.what_without_backtrace());
  }
}

at::Tensor Towers::free_flat(std::vector<at::Tensor>& from, c10::Device device) const {
  if (from.empty()) {
    // What comes from a GPU comes faster to pinned memory.
    const bool is_from_gpu = device.is_cpu() && options_.on_gpus();
    return at::empty(
        variables_->flat().sizes(),
        at::TensorOptions().dtype(at::kFloat).device(device).pinned_memory(is_from_gpu));
  }
  at::Tensor flat = std::move(from.back());
  from.pop_back();
  return flat;
}

Gradients Towers::copy_of(const Gradients& gradients) {
  const torch::NoGradGuard no_grad;
  Gradients copy{.flat = free_flat(free_, sums_on_)};
  copy.flat.copy_(gradients.flat);
  for (const RowGradient& rows : gradients.rows) {
    copy.rows.push_back(
        rows.empty() ? rows : RowGradient{rows.rows.to(sums_on_), rows.values.to(sums_on_)});
  }
  return copy;
}

// Nobody waits here but for gradients by rows.
void Towers::bring_home(TreeSum<Gradients>::Parts& sums, bool copied) {
  const torch::NoGradGuard no_grad;
  for (auto& [part, sum] : sums) {
    if (!sum) continue;
    at::Tensor flat = free_flat(free_at_home_, home_);
    flat.copy_(sum->flat, /*non_blocking=*/true);
    if (copied) free_.push_back(std::move(sum->flat));
    sum->flat = std::move(flat);
    for (RowGradient& rows : sum->rows) {
      if (!rows.empty()) rows = {rows.rows.to(home_), rows.values.to(home_)};
    }
  }
}

// Called by every lane, one at a time: additions happen here, in an order that the tree fixes.
void Towers::report(Run& step, std::int64_t replica, ReplicaResult outcome) {
  step.result.examples += outcome.examples;
  step.result.losses[static_cast<std::size_t>(replica)] = outcome.loss;
  if (!outcome.marks.empty()) step.result.marks = outcome.marks;
  const bool earlier = step.spec_of < 0 || replica < step.spec_of;
  if (outcome.gradients && earlier) {
    step.spec_of = replica;
    step.result.spec = std::move(outcome.spec);
  }
  step.sum.report(replica, std::move(outcome.gradients));
}

void Towers::run_lane(std::size_t lane, Run& step) {
  std::optional<c10::DeviceGuard> on;
  if (device_of(lane).is_cuda()) on.emplace(device_of(lane));
  for (auto replica = step.replicas.first + static_cast<std::int64_t>(lane);
       replica < step.replicas.last; replica += options_.concurrent) {
    const auto& batch = step.batches[static_cast<std::size_t>(replica)];
    ReplicaResult outcome;
    if (batch) {
      Tower& tower = tower_of(lane, replica);
      outcome = run_or_say_where(tower, replica, *batch, step);
      const std::lock_guard lock(step.mutex);
      outcome.gradients =
          step.copies_gradients ? copy_of(tower.attached.gradients()) : tower.attached.gradients();
      report(step, replica, std::move(outcome));
    } else {
      const std::lock_guard lock(step.mutex);
      report(step, replica, std::move(outcome));
    }
  }
}

void Towers::run_lanes(Run& step) {
  const auto guarded = [this, &step](std::size_t lane) {
    std::exception_ptr failure;
    try {
      run_lane(lane, step);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(step.mutex);
    if (failure && !step.failure) step.failure = failure;
    --step.lanes_running;
    step.lane_done.notify_one();
  };
  const auto lanes = static_cast<std::size_t>(options_.concurrent);
  step.lanes_running = lanes;
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    pool_->submit([this, guarded, lane, &step](const std::stop_token&) {
      set_cpu_threads(options_.threads_per_replica);
      step.stream.use();
      guarded(lane);
    });
  }
  guarded(0);
  std::unique_lock lock(step.mutex);
  muster::wait(
      step.lane_done, lock, Deadline::never(),
      [&step] { return fmt::format("the replicas of step {}", step.number); },
      [&step] { return step.lanes_running == 0; });
  if (step.failure) std::rethrow_exception(step.failure);
}

PartialSums Towers::run(std::span<std::optional<Batch>> batches, ReplicaRange replicas,
                        std::int64_t number, double loss_scale, const CapturedInput& captured) {
  if (!copies_.empty()) refresh_copies();
  Run step{.batches = batches,
           .replicas = replicas,
           .number = number,
           .loss_scale = loss_scale,
           .captured = captured,
           .copies_gradients = replicas.size() > 1 || device_of(0) != sums_on_,
           .stream = StreamHandle(home_),
           .sum = {options_.replicas, [this](Gradients& into, Gradients&& from) {
                     add_gradients(into, from);
                     free_.push_back(std::move(from.flat));
                   }}};
  step.result.losses.resize(static_cast<std::size_t>(options_.replicas));
  if (pool_ == nullptr) {
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(options_.concurrent); ++lane) {
      run_lane(lane, step);
    }
  } else {
    run_lanes(step);
  }
  PartialSums result = std::move(step.result);
  result.present = step.sum.present();
  result.sums = step.sum.take_parts();
  if (sums_on_ != home_) bring_home(result.sums, step.copies_gradients);
  // Their memory comes back with the next step.
  if (step.copies_gradients || sums_on_ != home_) {
    for (const auto& part : result.sums) {
      if (part.second) (sums_on_ == home_ ? free_ : free_at_home_).push_back(part.second->flat);
    }
  }
  return result;
}

}  // namespace muster
