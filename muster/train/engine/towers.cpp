#include "muster/train/engine/towers.h"

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
#include "muster/nn/device/devices.h"
#include "muster/nn/kernels/libtorch_kernels.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/gradient_listener.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/seeded_module.h"
#include "muster/nn/model/sparse_tables.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/batch_norms.h"
#include "muster/train/engine/gradient_buckets.h"
#include "muster/train/engine/packed_tensors.h"
#include "muster/train/engine/seed_streams.h"

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
  std::size_t place = 0;
  /// Whether the variables that it reads are a copy of those at home.
  bool is_away = false;
  /// Brings batches to a GPU.
  std::optional<Feed> feed{};
  /// Where sums over other processes may begin before its backward ends.
  std::unique_ptr<GradientBuckets> pieces{};
  /// Where it is not at home: its buffers side by side, on the way.
  std::optional<PackedTensors> packed{};
};

struct Towers::Copy {
  c10::Device device;
  std::size_t place;
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
  /// By replica, where there are several places: memory at home for its gradients, and what it
  /// gave. Each is written by one thread.
  std::vector<at::Tensor> flats{};
  std::vector<ReplicaResult> outcomes{};
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
  const bool one_each = options_.on_gpus() || options_.logical_devices;
  const auto wanted =
      one_each ? options_.devices.size() : static_cast<std::size_t>(options_.concurrent);
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
  assign_places(lanes);

  auto first = make_model(factory, options_.seed);
  module_variables_ = variables_of(*first);
  if (!home_.is_cpu()) first->to(home_);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (is_away(lane) && !packed_buffers_) lay_out_buffers(*first);
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
    towers_.push_back(
        make_tower(is_first ? first : make_model(factory, options_.seed), t == lanes ? 0 : t));
  }
  if (packed_buffers_) {
    packed_kept_.emplace(buffers_, home_, options_.on_gpus());
    kept_buffers_ = packed_kept_->tensors();
    keep_buffers();
  } else {
    for (const auto& buffer : buffers_) kept_buffers_.push_back(buffer.detach().clone());
  }
  if (!branches_.empty()) {
    pool_ = std::make_unique<ThreadPool>(branches_.size());
  } else if (lanes > 1 && !(options_.on_gpus() && one_device)) {
    pool_ = std::make_unique<ThreadPool>(lanes - 1);
  }
}

Towers::~Towers() {
  if (branches_.empty()) return;
  try {
    // What places gave was allocated for their streams, and may still be read by this thread's.
    wait_for_device(home_);
  } catch (...) {
    // A failure of the device is reported by whoever next asks it for something.
  }
}

// Each GPU is one, or each lane where devices are logical. Where variables are in host memory, or
// some towers, the host waits for gradients anyway.
void Towers::assign_places(std::size_t lanes) {
  place_of_lane_.assign(lanes, 0);
  place_devices_ = {home_};
  const bool are_gpus = std::ranges::all_of(options_.devices, &c10::Device::is_cuda);
  const bool has_places =
      options_.on_gpus() ? home_.is_cuda() && are_gpus : options_.logical_devices;
  if (!has_places) return;
  for (std::size_t lane = 1; lane < lanes; ++lane) {
    const c10::Device device = device_of(lane);
    const auto known = std::ranges::find(place_devices_, device);
    const bool is_new = options_.logical_devices || known == place_devices_.end();
    place_of_lane_[lane] =
        is_new ? place_devices_.size() : static_cast<std::size_t>(known - place_devices_.begin());
    if (!is_new) continue;
    place_devices_.push_back(device);
    branches_.emplace_back(device, home_);
  }
  losses_at_home_.resize(static_cast<std::size_t>(options_.replicas));
}

bool Towers::is_away(std::size_t lane) const {
  return place_of_lane_[lane] != 0 || device_of(lane) != home_;
}

std::size_t Towers::place_of(std::int64_t replica, ReplicaRange replicas) const {
  return place_of_lane_[static_cast<std::size_t>((replica - replicas.first) % options_.concurrent)];
}

BranchStream::Use Towers::use(std::size_t place) const {
  return BranchStream::Use(place == 0 ? nullptr : &branches_[place - 1]);
}

void Towers::fork() const {
  for (const BranchStream& branch : branches_) branch.fork();
}

void Towers::join() const {
  for (const BranchStream& branch : branches_) branch.join();
}

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
    const std::size_t place = place_of_lane_[lane];
    if (!is_away(lane) || copy_for(lane) != nullptr) continue;
    const BranchStream::Use on = use(place);
    auto model = make_model(factory, options_.seed);
    if (!device.is_cpu()) model->to(device);
    auto variables = Variables::adopt(*model, adopt_options(module_variables_));
    copies_.push_back(std::make_unique<Copy>(Copy{device, place, model, std::move(variables)}));
  }
}

const Towers::Copy* Towers::copy_for(std::size_t lane) const {
  const auto found = std::ranges::find_if(copies_, [&](const auto& copy) {
    return copy->device == device_of(lane) && copy->place == place_of_lane_[lane];
  });
  return found == copies_.end() ? nullptr : found->get();
}

const Variables& Towers::variables_of_lane(std::size_t lane) const {
  const Copy* const copy = copy_for(lane);
  return copy == nullptr ? *variables_ : copy->variables;
}

std::unique_ptr<Towers::Tower> Towers::make_tower(const std::shared_ptr<Model>& model,
                                                  std::size_t lane) const {
  const c10::Device device = device_of(lane);
  const BranchStream::Use on = use(place_of_lane_[lane]);
  if (!device.is_cpu()) model->to(device);
  model->train();
  auto attached = variables_of_lane(lane).attach(model);
  auto tower = std::make_unique<Tower>(Tower{.model = model,
                                             .attached = std::move(attached),
                                             .buffers = model->buffers(),
                                             .norms = BatchNorms(*model)});
  tower->device = device;
  tower->place = place_of_lane_[lane];
  tower->is_away = is_away(lane);
  if (device.is_cuda()) tower->feed.emplace(device);
  if (device.is_cuda() && !tower->is_away && options_.shared) {
    tower->pieces = std::make_unique<GradientBuckets>(*variables_, tower->attached, device);
  }
  if (tower->is_away) tower->packed.emplace(tower->buffers, device, home_.is_cuda());
  return tower;
}

// Before a step, copies have the values that the last update left at home.
void Towers::refresh_copies() {
  for (const auto& copy : copies_) refresh(*copy);
}

void Towers::refresh(const Copy& copy) const {
  const torch::NoGradGuard no_grad;
  copy.variables.flat().copy_(variables_->flat(), /*non_blocking=*/true);
  for (std::size_t i = 0; i < variables_->all().size(); ++i) {
    const Variable& variable = variables_->all()[i];
    // Towers have buffers of their own.
    if (variable.sparse()) {
      copy.variables.all()[i].value.copy_(variable.value, /*non_blocking=*/true);
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
  if (first.is_away) {
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
  if (!step.captured.keys.empty()) {
    random.emplace(step.captured.keys[tower.place] + replica);
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
  if (tower.is_away) {
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
  if (replica == 0 && tower.is_away) take_buffers(tower);
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

Gradients Towers::copy_of(const Gradients& gradients, at::Tensor flat) const {
  const torch::NoGradGuard no_grad;
  Gradients copy{.flat = std::move(flat)};
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
      outcome.gradients = step.copies_gradients
                              ? copy_of(tower.attached.gradients(), free_flat(free_, sums_on_))
                              : tower.attached.gradients();
      report(step, replica, std::move(outcome));
    } else {
      const std::lock_guard lock(step.mutex);
      report(step, replica, std::move(outcome));
    }
  }
}

// `work` of 0 in this thread, of the others in the pool's.
void Towers::run_beside(Run& step, std::size_t count,
                        const std::function<void(std::size_t)>& work) {
  const auto guarded = [&step, &work](std::size_t number) {
    std::exception_ptr failure;
    try {
      work(number);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(step.mutex);
    if (failure && !step.failure) step.failure = failure;
    --step.lanes_running;
    step.lane_done.notify_one();
  };
  step.lanes_running = count;
  for (std::size_t number = 1; number < count; ++number) {
    pool_->submit([this, guarded, number, &step](const std::stop_token&) {
      set_cpu_threads(options_.threads_per_replica);
      step.stream.use();
      guarded(number);
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

// The same memory in every step, since the loop's stream reads it when the tower's goes on.
at::Tensor Towers::bring_loss(std::int64_t replica, const at::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  at::Tensor& there = losses_at_home_[static_cast<std::size_t>(replica)];
  if (!there.defined() || there.sizes() != loss.sizes() || there.dtype() != loss.dtype()) {
    there = at::empty(loss.sizes(), loss.options().device(home_));
  }
  there.copy_(loss, /*non_blocking=*/true);
  return there;
}

// What a place has to do with a round, given to its stream.
void Towers::run_place(std::size_t place, Run& step, ReplicaRange round) {
  const auto lanes = std::min(place_of_lane_.size(), static_cast<std::size_t>(round.size()));
  const auto last = place_of_lane_.begin() + static_cast<std::ptrdiff_t>(lanes);
  if (std::find(place_of_lane_.begin(), last, place) == last) return;
  const BranchStream::Use stream = use(place);
  std::optional<c10::DeviceGuard> on;
  if (place_devices_[place].is_cuda()) on.emplace(place_devices_[place]);
  if (round.first == step.replicas.first) {
    for (const auto& copy : copies_) {
      if (copy->place == place) refresh(*copy);
    }
  }
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto replica = round.first + static_cast<std::int64_t>(lane);
    const auto index = static_cast<std::size_t>(replica);
    if (place_of_lane_[lane] != place || !step.batches[index]) continue;
    Tower& tower = tower_of(lane, replica);
    ReplicaResult outcome = run_or_say_where(tower, replica, *step.batches[index], step);
    outcome.gradients = step.copies_gradients
                            ? copy_of(tower.attached.gradients(), std::move(step.flats[index]))
                            : tower.attached.gradients();
    if (tower.is_away) outcome.loss = bring_loss(replica, outcome.loss);
    step.outcomes[index] = std::move(outcome);
  }
}

// One replica of each lane. What they gave is added at home when all have given it, by the loop's
// stream, so no more gradients are held there than lanes have and the tree needs.
void Towers::run_round(Run& step, ReplicaRange round) {
  for (std::int64_t replica = round.first; replica < round.last; ++replica) {
    const auto index = static_cast<std::size_t>(replica);
    if (step.batches[index] && step.copies_gradients) step.flats[index] = free_flat(free_, home_);
  }
  fork();
  try {
    const auto work = [&](std::size_t place) { run_place(place, step, round); };
    if (step.captured.capturing || step.captured.in_turn) {
      for (std::size_t place = 0; place < places(); ++place) work(place);
    } else {
      run_beside(step, places(), work);
    }
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      join();
    } catch (...) {
      // A capture that failed has no streams any more: the first failure says why.
    }
    std::rethrow_exception(failure);
  }
  join();
  for (std::int64_t replica = round.first; replica < round.last; ++replica) {
    report(step, replica, std::move(step.outcomes[static_cast<std::size_t>(replica)]));
  }
}

PartialSums Towers::run(std::span<std::optional<Batch>> batches, ReplicaRange replicas,
                        std::int64_t number, double loss_scale, const CapturedInput& captured) {
  if (branches_.empty()) refresh_copies();
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
  const auto lanes = static_cast<std::size_t>(options_.concurrent);
  if (!branches_.empty()) {
    step.flats.resize(static_cast<std::size_t>(options_.replicas));
    step.outcomes.resize(static_cast<std::size_t>(options_.replicas));
    for (std::int64_t first = replicas.first; first < replicas.last; first += options_.concurrent) {
      run_round(step, {first, std::min(first + options_.concurrent, replicas.last)});
    }
  } else if (pool_ == nullptr) {
    for (std::size_t lane = 0; lane < lanes; ++lane) run_lane(lane, step);
  } else {
    run_beside(step, lanes, [&](std::size_t lane) { run_lane(lane, step); });
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
