#include "muster/estimator/towers.h"

#include <ATen/Context.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/wait.h"
#include "muster/estimator/arithmetic.h"
#include "muster/estimator/seed_streams_internal.h"
#include "muster/kernels/torch_compat.h"
#include "muster/model/head.h"
#include "muster/model/random_scope.h"
#include "muster/model/seeded_module.h"

namespace muster {
namespace {

void seed_generator(std::uint64_t seed, std::int64_t step, std::int64_t replica) {
  at::manual_seed(derive_key(derive_key(seed, seed_stream::kGenerator),
                             static_cast<std::uint64_t>(step),
                             static_cast<std::uint64_t>(replica)));
}

// libtorch has one generator for the CPU: whatever draws from it takes turns, in all of the
// process, since models are also made while another one trains.
std::mutex& generator_turn() {
  static std::mutex turn;
  return turn;
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

struct Towers::Tower {
  std::shared_ptr<Model> model;
  AttachedModule attached;
  std::vector<at::Tensor> buffers;
};

struct Towers::Outcome {
  std::optional<Gradients> gradients{};
  at::Tensor loss{};
  std::int64_t examples = 0;
  EstimatorSpec spec{};
};

/// One call of run(): what lanes read, and under the mutex what they write.
struct Towers::Step {
  std::span<std::optional<Batch>> batches;
  ReplicaRange replicas;
  std::int64_t number;
  double loss_scale;
  TreeSum<Gradients> sum;
  StepParts result{};
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
    : head_(head), options_(options) {
  const auto replicas = static_cast<std::size_t>(options_.replicas);
  const std::size_t lanes =
      std::clamp<std::size_t>(static_cast<std::size_t>(options_.concurrent), 1, replicas);
  options_.concurrent = static_cast<int>(lanes);
  set_cpu_threads(options_.threads_per_replica);

  auto first = make_model(factory, options_.seed);
  module_variables_ = variables_of(*first);
  variables_.emplace(Variables::adopt(*first, adopt_options(module_variables_)));
  // One tower a lane; lane 0 has a second one for its replicas after 0, whose buffers are private.
  const std::size_t towers = replicas > lanes || options_.shared ? lanes + 1 : lanes;
  for (std::size_t t = 0; t < towers; ++t) {
    auto model = t == 0 ? first : make_model(factory, options_.seed);
    model->train();
    auto attached = variables_->attach(model);
    towers_.push_back(std::make_unique<Tower>(Tower{model, std::move(attached), model->buffers()}));
  }
  for (const auto& buffer : towers_[0]->buffers) kept_buffers_.push_back(buffer.detach().clone());
  if (lanes > 1) pool_ = std::make_unique<ThreadPool>(lanes - 1);
}

Towers::~Towers() = default;

Towers::Tower& Towers::tower_of(std::size_t lane, std::int64_t replica) {
  if (lane == 0 && replica != 0) return *towers_.back();
  return *towers_[lane];
}

const std::vector<at::Tensor>& Towers::buffers() const { return towers_[0]->buffers; }

void Towers::commit() {
  if (options_.replicas == 1 && !options_.may_discard) return;
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_buffers_.size(); ++i) {
    kept_buffers_[i].copy_(towers_[0]->buffers[i]);
  }
}

void Towers::discard() {
  if (!options_.may_discard) throw Internal("a step is discarded that nobody said may be");
  reset_buffers(*towers_[0]);
}

void Towers::reset_buffers(Tower& tower) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_buffers_.size(); ++i) tower.buffers[i].copy_(kept_buffers_[i]);
}

Towers::Outcome Towers::run_replica(Tower& tower, std::int64_t replica, const Batch& batch,
                                    const Step& step) {
  if (replica != 0) reset_buffers(tower);
  tower.attached.zero();
  Outcome outcome{.examples = batch.size()};
  {
    const RandomScope random(options_.seed, step.number, replica);
    std::unique_lock<std::mutex> turn(generator_turn(), std::defer_lock);
    if (tower.model->draws_from_libtorch()) {
      turn.lock();
      seed_generator(options_.seed, step.number, replica);
    }
    const compat::AutocastScope autocast(options_.precision != ComputeType::kFloat32, at::kCPU,
                                         autocast_type(options_.precision));
    outcome.spec = checked(tower.model->call(batch, Mode::kTrain, head_));
  }
  const at::Tensor& loss = outcome.spec.loss;
  outcome.loss = loss.detach();
  (step.loss_scale == 1.0 ? loss : loss * step.loss_scale).backward();
  tower.attached.collect();
  return outcome;
}

Gradients Towers::copy_of(const Gradients& gradients) {
  const torch::NoGradGuard no_grad;
  Gradients copy;
  if (free_.empty()) {
    copy.flat = at::empty_like(gradients.flat);
  } else {
    copy.flat = std::move(free_.back());
    free_.pop_back();
  }
  copy.flat.copy_(gradients.flat);
  copy.rows = gradients.rows;
  return copy;
}

// Called by every lane, one at a time: additions happen here, in an order that the tree fixes.
void Towers::report(Step& step, std::int64_t replica, Outcome outcome) {
  step.result.examples += outcome.examples;
  step.result.losses[static_cast<std::size_t>(replica)] = outcome.loss;
  const bool earlier = step.spec_of < 0 || replica < step.spec_of;
  if (outcome.gradients && earlier) {
    step.spec_of = replica;
    step.result.spec = std::move(outcome.spec);
  }
  step.sum.report(replica, std::move(outcome.gradients));
}

void Towers::run_lane(std::size_t lane, Step& step) {
  for (auto replica = step.replicas.first + static_cast<std::int64_t>(lane);
       replica < step.replicas.last; replica += options_.concurrent) {
    const auto& batch = step.batches[static_cast<std::size_t>(replica)];
    Outcome outcome;
    if (batch) {
      Tower& tower = tower_of(lane, replica);
      outcome = run_replica(tower, replica, *batch, step);
      const std::lock_guard lock(step.mutex);
      // With one replica the tower's own memory serves; with more it is needed for the next.
      outcome.gradients =
          options_.replicas == 1 ? tower.attached.gradients() : copy_of(tower.attached.gradients());
      report(step, replica, std::move(outcome));
    } else {
      const std::lock_guard lock(step.mutex);
      report(step, replica, std::move(outcome));
    }
  }
}

void Towers::run_lanes(Step& step) {
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
    pool_->submit([this, guarded, lane](const std::stop_token&) {
      set_cpu_threads(options_.threads_per_replica);
      guarded(lane);
    });
  }
  guarded(0);
  std::unique_lock lock(step.mutex);
  wait(
      step.lane_done, lock, Deadline::never(),
      [&step] { return fmt::format("the replicas of step {}", step.number); },
      [&step] { return step.lanes_running == 0; });
  if (step.failure) std::rethrow_exception(step.failure);
}

StepParts Towers::run(std::span<std::optional<Batch>> batches, ReplicaRange replicas,
                      std::int64_t number, double loss_scale) {
  Step step{.batches = batches,
            .replicas = replicas,
            .number = number,
            .loss_scale = loss_scale,
            .sum = {options_.replicas, [this](Gradients& into, Gradients&& from) {
                      add_gradients(into, from);
                      free_.push_back(std::move(from.flat));
                    }}};
  step.result.losses.resize(static_cast<std::size_t>(options_.replicas));
  if (options_.concurrent == 1) {
    run_lane(0, step);
  } else {
    run_lanes(step);
  }
  StepParts result = std::move(step.result);
  result.present = step.sum.present();
  result.sums = step.sum.take_parts();
  // Their memory comes back with the next step.
  if (options_.replicas > 1) {
    for (const auto& part : result.sums) {
      if (part.second) free_.push_back(part.second->flat);
    }
  }
  return result;
}

void add_gradients(Gradients& into, const Gradients& from) {
  const torch::NoGradGuard no_grad;
  into.flat.add_(from.flat);
  for (std::size_t i = 0; i < into.rows.size(); ++i) {
    into.rows[i] = add_rows(into.rows[i], from.rows[i]);
  }
}

StepGradients mean_of(StepParts parts) {
  if (parts.sums.size() != 1 || !parts.sums.begin()->second) {
    throw Internal(
        "the mean of a step was asked for with {} of its parts, {} replicas of them "
        "with a batch",
        parts.sums.size(), parts.present);
  }
  StepGradients result{.mean = std::move(*parts.sums.begin()->second),
                       .present = parts.present,
                       .examples = parts.examples,
                       .losses = std::move(parts.losses),
                       .spec = std::move(parts.spec)};
  if (result.present > 1) {
    const torch::NoGradGuard no_grad;
    result.mean.flat.div_(static_cast<double>(result.present));
    for (auto& rows : result.mean.rows) {
      if (!rows.empty()) rows.values = rows.values / static_cast<double>(result.present);
    }
  }
  return result;
}

}  // namespace muster
