#include "muster/run/distributed_session.h"

#include <torch/types.h>

#include <exception>
#include <limits>
#include <tuple>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/distribution/parameter_server.h"
#include "muster/nn/model/model.h"
#include "muster/run/cluster_member_internal.h"
#include "muster/run/hand_written_internal.h"
#include "muster/run/training_task_internal.h"
#include "muster/train/engine/trainer.h"

namespace muster {
namespace {

using StepFn = DistributedSession::StepFn;

// A column of every batch: replica and number, in each row.
constexpr const char* kPlace = "muster/place";

at::Tensor place_of(std::int64_t replica, std::int64_t number, std::int64_t rows) {
  return at::tensor({replica, number}, at::kLong).expand({rows, 2});
}

/// The user's batches, or empty ones for ever, each with its place.
Dataset<Batch> placed_input(const InputContext& in, const InputFn& input_fn) {
  const auto replica = static_cast<std::int64_t>(in.shard_index());
  const auto numbers = range(std::numeric_limits<std::int64_t>::max());
  if (!input_fn) {
    return numbers.map([replica](std::int64_t number) {
      return Batch{.features = {{kPlace, place_of(replica, number, 1)}}};
    });
  }
  return zip(numbers, input_fn(in)).map([replica](std::tuple<std::int64_t, Batch> element) {
    auto& [number, batch] = element;
    batch.features.add(kPlace, place_of(replica, number, batch.size()));
    return std::move(batch);
  });
}

/// State that the models of a run share with its session.
struct Shared {
  /// While a step is made.
  const StepFn* step = nullptr;
  std::int64_t replicas = 1;
};

/// The user's module, with the user's function for its loss.
class StepModel : public Model {
 public:
  StepModel(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<const Shared> shared)
      : module_(register_module(internal::kHandWrittenModel, std::move(module))),
        shared_(std::move(shared)) {}

  torch::Tensor forward(const Features&) override {
    throw Unimplemented("a model of a loop written by hand is called by that loop alone");
  }
  EstimatorSpec call(const Batch& batch, Mode mode, const Head*) override {
    Batch rest = batch;
    const at::Tensor place = rest.features.tensor(kPlace).cpu();
    rest.features.remove(kPlace);
    const std::int64_t replica = place[0][0].item<std::int64_t>();
    return {.mode = mode,
            .loss = (*shared_->step)(*module_, {.replica = replica,
                                                .replicas = shared_->replicas,
                                                .number = place[0][1].item<std::int64_t>(),
                                                .batch = std::move(rest)})};
  }
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<const Shared> shared_;
};

void check(const HandWrittenModel& model) {
  if (!model.module) throw InvalidArgument("DistributedSession: the module factory is not set");
}

EstimatorOptions estimator_options(HandWrittenModel model, const std::shared_ptr<Shared>& shared) {
  return {.model = [make = std::move(model.module), shared]() -> std::shared_ptr<Model> {
            auto module = make();
            if (module == nullptr) {
              throw InvalidArgument("DistributedSession: the module factory made no module");
            }
            return std::make_shared<StepModel>(std::move(module), shared);
          },
          .optimizer = std::move(model.optimizer),
          .clip = model.clip,
          .weight_decay = std::move(model.weight_decay),
          .nan_policy = model.nan_policy,
          .warm_start = std::move(model.warm_start)};
}

RunConfig run_config(const DistributedSessionOptions& options) {
  RunConfig config = options.config;
  if (options.task_spec) config.cluster.task = options.task_spec->to_task_environment();
  // The program's function is to be called for every step, not to be captured once.
  config.devices.capture_steps = false;
  // It makes tensors of its own, which are on the CPU unless the program names a device.
  if (config.devices.names.empty()) config.devices.names = {"cpu"};
  if (config.cluster.task.is_evaluator()) {
    throw FailedPrecondition(
        "DistributedSession: this task is {}, which does not train: let it evaluate the "
        "checkpoints in "
        "{} with follow_checkpoints()",
        config.cluster.task.task.name(), config.model_dir.string());
  }
  return config;
}

}  // namespace

struct DistributedSession::Impl {
  Impl(HandWrittenModel model, const DistributedSessionOptions& options)
      : estimator(estimator_options(std::move(model), shared), run_config(options)) {
    const TaskEnvironment& environment = estimator.config().cluster.task;
    if (!environment.cluster.empty() || !environment.is_alone()) {
      named.emplace(environment.task.name());
    }
    if (!environment.is_alone()) estimator = internal::cluster_member(estimator);
  }

  bool is_server() const { return estimator.config().cluster.task.task.type == job::kPs; }

  void begin(const DistributedSessionOptions& options) {
    TrainOptions train_options{.max_steps = options.last_step, .hooks = options.hooks};
    if (estimator.config().is_chief()) {
      train_options.hooks.insert(train_options.hooks.end(), options.chief_only_hooks.begin(),
                                 options.chief_only_hooks.end());
    }
    const InputFn input = [shared = shared, own = options.input_fn](const InputContext& in) {
      shared->replicas = static_cast<std::int64_t>(in.num_shards());
      return placed_input(in, own);
    };
    on_disk.emplace(estimator.config());
    trainer = estimator.trainer(input, train_options);
    trainer->begin();
    take_module();
    global_step = trainer->session().global_step();
    if (trainer->is_over()) finish();
  }
  void step(const StepFn& fn) {
    shared->step = &fn;
    const bool goes_on = trainer->step();
    shared->step = nullptr;
    has_loss |= trainer->session().global_step() != global_step;
    global_step = trainer->session().global_step();
    if (!goes_on) finish();
  }
  // The program has no more steps to make. One that may not leave yet has none to go back to
  // either.
  void stop() {
    trainer->session().request_stop("the program closed the session");
    while (trainer->step()) continue;
    global_step = trainer->session().global_step();
    finish();
  }
  void finish() {
    take_module();
    result = trainer->finish();
    trainer.reset();
    on_disk->end();
  }
  // With its values: they may be elsewhere while steps are made.
  void take_module() {
    const auto model = trainer->current_model();
    module = dynamic_cast<const StepModel&>(*model).module();
  }
  // Does it, and ends the run if it fails.
  template <typename Work>
  void attempt(const Work& work) {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
      shared->step = nullptr;
      trainer.reset();
    }
  }
  // A signal is told of by close(): what it ended is in order.
  void rethrow_unless_interrupted() const {
    if (failure == nullptr) return;
    try {
      std::rethrow_exception(failure);
    } catch (const Interrupted&) {
    }
  }

  const std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Estimator estimator;
  std::optional<internal::TaskInLog> named;
  std::optional<internal::RunOnDisk> on_disk;
  /// While there are steps to make.
  std::unique_ptr<Trainer> trainer;
  /// Module of the model that trains.
  std::shared_ptr<torch::nn::Module> module;
  std::int64_t global_step = 0;
  bool has_loss = false;
  TrainResult result;
  std::exception_ptr failure;
  bool closed = false;
};

DistributedSession::DistributedSession(HandWrittenModel model, DistributedSessionOptions options) {
  check(model);
  impl_ = std::make_unique<Impl>(std::move(model), options);
  if (impl_->is_server()) {
    serve_parameters(impl_->estimator.options(), impl_->estimator.config());
    return;
  }
  impl_->attempt([&] { impl_->begin(options); });
  impl_->rethrow_unless_interrupted();
}

DistributedSession::~DistributedSession() {
  if (impl_ == nullptr || impl_->closed || std::uncaught_exceptions() > 0) return;
  if (impl_->failure != nullptr) {
    log::error("a session was not closed: {}", describe(impl_->failure).message);
  } else if (!should_stop()) {
    log::error("a session was not closed: it was left after step {}, which may not be saved",
               global_step());
  }
}

bool DistributedSession::should_stop() const { return impl_->trainer == nullptr; }

void DistributedSession::run(const StepFn& step) {
  if (!step) throw InvalidArgument("DistributedSession: the step's function is not set");
  if (should_stop()) {
    throw FailedPrecondition("DistributedSession: the run has ended at step {}: ask should_stop()",
                             global_step());
  }
  impl_->attempt([&] { impl_->step(step); });
  impl_->rethrow_unless_interrupted();
}

std::int64_t DistributedSession::global_step() const { return impl_->global_step; }

std::optional<double> DistributedSession::loss() const {
  if (should_stop()) return impl_->result.loss;
  if (!impl_->has_loss) return std::nullopt;
  return impl_->trainer->session().loss();
}

const RunConfig& DistributedSession::config() const { return impl_->estimator.config(); }

void DistributedSession::throw_wrong_module(const torch::nn::Module& module, const char* wanted) {
  throw InvalidArgument("DistributedSession: the module is a {}, not a {}", module.name(), wanted);
}

torch::nn::Module& DistributedSession::module() const {
  if (impl_->is_server()) {
    throw FailedPrecondition("DistributedSession: {} holds variables, but no module",
                             config().cluster.task.task.name());
  }
  if (!should_stop()) impl_->take_module();
  if (impl_->module == nullptr) {
    throw FailedPrecondition("DistributedSession: the run has ended before it had a module");
  }
  return *impl_->module;
}

TrainResult DistributedSession::close() {
  if (!should_stop()) impl_->attempt([&] { impl_->stop(); });
  impl_->closed = true;
  if (impl_->failure != nullptr) std::rethrow_exception(impl_->failure);
  return impl_->result;
}

}  // namespace muster
