#include "muster/training/distributed_session.h"

#include <torch/types.h>

#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/signals.h"
#include "muster/base/wait.h"
#include "muster/distribution/parameter_server.h"
#include "muster/training/cluster_member_internal.h"
#include "muster/training/hand_written_internal.h"
#include "muster/training/training_task_internal.h"

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

/// What the loop's thread and the user's hand to each other: whoever has the turn runs.
class Turns {
 public:
  enum class Request { kNone, kStep, kClose, kAbandon };

  // Of the user's thread. Gives the turn, and returns when it is back or the run has ended.
  void ask(Request request, std::string_view for_what) {
    std::unique_lock lock(mutex_);
    if (ended_) return;
    request_ = request;
    changed_.notify_all();
    wait_for_user_turn(lock, for_what);
  }
  void wait_for_begin() {
    std::unique_lock lock(mutex_);
    wait_for_user_turn(lock, "the run to begin");
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  // Of the loop's thread.
  Request wait_for_request() {
    std::unique_lock lock(mutex_);
    users_ = true;
    changed_.notify_all();
    wait(
        changed_, lock, Deadline::never(), [] { return "the program to make its next step"; },
        [this] { return request_ != Request::kNone; });
    users_ = false;
    return std::exchange(request_, Request::kNone);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  void wait_for_user_turn(std::unique_lock<std::mutex>& lock, std::string_view for_what) {
    wait(
        changed_, lock, Deadline::never(), [for_what] { return std::string(for_what); },
        [this] { return ended_ || (users_ && request_ == Request::kNone); });
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  /// Whether the loop waits for a request.
  bool users_ = false;
  bool ended_ = false;
  Request request_ = Request::kNone;
};

/// What the user's thread sees of the run; read and written in turn.
struct View {
  Turns turns{};
  const StepFn* step = nullptr;
  Session* session = nullptr;
  std::int64_t replicas = 1;
  std::int64_t global_step = 0;
  bool has_loss = false;
  /// As the factory made them; the first has the buffers of replica 0.
  std::vector<std::shared_ptr<torch::nn::Module>> modules{};
};

/// The user's module, with the user's function for its loss.
class StepModel : public Model {
 public:
  StepModel(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<const View> view)
      : module_(register_module(internal::kHandWrittenModel, std::move(module))),
        view_(std::move(view)) {}

  torch::Tensor forward(const Features&) override {
    throw Unimplemented("a model of a loop written by hand is called by that loop alone");
  }
  EstimatorSpec call(const Batch& batch, Mode mode, const Head*) override {
    Batch rest = batch;
    const at::Tensor place = rest.features.tensor(kPlace).cpu();
    rest.features.remove(kPlace);
    const std::int64_t replica = place[0][0].item<std::int64_t>();
    return {.mode = mode,
            .loss = (*view_->step)(*module_, {.replica = replica,
                                              .replicas = view_->replicas,
                                              .number = place[0][1].item<std::int64_t>(),
                                              .batch = std::move(rest)})};
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<const View> view_;
};

/// Between two steps the turn is the user's.
class TurnsHook : public Hook {
 public:
  TurnsHook(std::shared_ptr<View> view, std::optional<std::int64_t> last_step)
      : view_(std::move(view)), last_step_(last_step) {}

  void begin(Session& session) override { view_->session = &session; }
  void after_create_session(Session& session) override {
    if (std::exchange(began_, true)) return;
    // One that the estimator made to look at, as it does where there are GPUs, is nobody else's.
    std::erase_if(view_->modules, [](const auto& module) { return module.use_count() == 1; });
    give_turn(session);
  }
  void after_run(Session& session) override {
    view_->has_loss = true;
    give_turn(session);
  }

 private:
  void give_turn(Session& session) {
    view_->global_step = session.global_step();
    const bool is_last = last_step_ && session.global_step() >= *last_step_;
    if (session.stop_requested() || is_last) return;
    switch (view_->turns.wait_for_request()) {
      case Turns::Request::kClose:
        session.request_stop("the program closed the session");
        break;
      case Turns::Request::kAbandon:
        throw Cancelled("the session was left after step {} without being closed",
                        session.global_step());
      case Turns::Request::kStep:
      case Turns::Request::kNone:
        break;
    }
  }

  std::shared_ptr<View> view_;
  std::optional<std::int64_t> last_step_;
  bool began_ = false;
};

void check(const HandWrittenModel& model) {
  if (!model.module) throw InvalidArgument("DistributedSession: the module factory is not set");
}

EstimatorOptions estimator_options(HandWrittenModel model, const std::shared_ptr<View>& view) {
  return {.model = [make = std::move(model.module), view]() -> std::shared_ptr<Model> {
            auto module = make();
            if (module == nullptr) {
              throw InvalidArgument("DistributedSession: the module factory made no module");
            }
            view->modules.push_back(module);
            return std::make_shared<StepModel>(std::move(module), view);
          },
          .optimizers = std::move(model.optimizers),
          .clip = model.clip,
          .weight_decay = std::move(model.weight_decay),
          .nan_policy = model.nan_policy,
          .warm_start = std::move(model.warm_start)};
}

RunConfig run_config(const DistributedSessionOptions& options) {
  RunConfig config = options.config;
  if (options.task_spec) config.task = options.task_spec->to_task_environment();
  // The program's function is to be called for every step, not to be recorded once.
  config.capture_steps = false;
  // It makes tensors of its own, which are on the CPU where nobody thinks of devices.
  if (config.devices.empty()) config.devices = {"cpu"};
  if (config.task.is_evaluator()) {
    throw FailedPrecondition(
        "DistributedSession: this task is {}, which does not train: let it evaluate the "
        "checkpoints in "
        "{} with follow_checkpoints()",
        config.task.task.name(), config.model_dir.string());
  }
  return config;
}

}  // namespace

struct DistributedSession::Impl {
  Impl(HandWrittenModel model, const DistributedSessionOptions& options)
      : estimator(estimator_options(std::move(model), view), run_config(options)) {
    const TaskEnvironment& environment = estimator.config().task;
    if (!environment.cluster.empty() || !environment.is_alone()) {
      named.emplace(environment.task.name());
    }
    if (!environment.is_alone()) estimator = internal::cluster_member(estimator);
  }

  bool is_server() const { return estimator.config().task.task.type == job::kPs; }

  void serve() {
    view->turns.end();
    serve_parameters(estimator.options(), estimator.config());
  }
  void start(const DistributedSessionOptions& options) {
    TrainOptions train_options{.max_steps = options.last_step, .hooks = options.hooks};
    if (estimator.config().is_chief()) {
      train_options.hooks.insert(train_options.hooks.end(), options.chief_only_hooks.begin(),
                                 options.chief_only_hooks.end());
    }
    train_options.hooks.push_back(std::make_shared<TurnsHook>(view, options.last_step));
    const InputFn input = [this, own = options.input_fn](const InputContext& in) {
      view->replicas = static_cast<std::int64_t>(in.num_shards());
      return placed_input(in, own);
    };
    thread = std::jthread([this, input, train_options] { train(input, train_options); });
    view->turns.wait_for_begin();
    rethrow();
  }
  void train(const InputFn& input, const TrainOptions& train_options) {
    try {
      result = internal::train_as_task(estimator, input, train_options);
      view->global_step = result.global_step;
    } catch (...) {
      failure = std::current_exception();
    }
    view->session = nullptr;
    view->turns.end();
  }
  // A signal is told of by close(): what it ended is in order.
  bool is_interrupted() const {
    try {
      if (failure != nullptr) std::rethrow_exception(failure);
    } catch (const Interrupted&) {
      return true;
    } catch (...) {
    }
    return false;
  }
  void rethrow() const {
    if (view->turns.ended() && failure != nullptr && !is_interrupted()) {
      std::rethrow_exception(failure);
    }
  }

  const std::shared_ptr<View> view = std::make_shared<View>();
  Estimator estimator;
  std::optional<internal::TaskInLog> named;
  TrainResult result;
  std::exception_ptr failure;
  bool closed = false;
  // Last: it uses all of the above.
  std::jthread thread;
};

DistributedSession::DistributedSession(HandWrittenModel model, DistributedSessionOptions options) {
  check(model);
  impl_ = std::make_unique<Impl>(std::move(model), options);
  if (impl_->is_server()) {
    impl_->serve();
  } else {
    impl_->start(options);
  }
}

DistributedSession::~DistributedSession() {
  if (impl_ == nullptr || impl_->closed) return;
  if (!should_stop()) impl_->view->turns.ask(Turns::Request::kAbandon, "the run to be left");
  if (impl_->thread.joinable()) impl_->thread.join();
  if (impl_->failure != nullptr && std::uncaught_exceptions() == 0) {
    log::error("a session was not closed: {}", describe(impl_->failure).message);
  }
}

bool DistributedSession::should_stop() const { return impl_->view->turns.ended(); }

void DistributedSession::run(const StepFn& step) {
  if (!step) throw InvalidArgument("DistributedSession: the step's function is not set");
  if (should_stop()) {
    throw FailedPrecondition("DistributedSession: the run has ended at step {}: ask should_stop()",
                             global_step());
  }
  impl_->view->step = &step;
  impl_->view->turns.ask(Turns::Request::kStep, "a step of training");
  impl_->view->step = nullptr;
  impl_->rethrow();
}

std::int64_t DistributedSession::global_step() const { return impl_->view->global_step; }

std::optional<double> DistributedSession::loss() const {
  if (should_stop()) return impl_->result.loss;
  if (!impl_->view->has_loss) return std::nullopt;
  return impl_->view->session->loss();
}

const RunConfig& DistributedSession::config() const { return impl_->estimator.config(); }

void DistributedSession::throw_wrong_module(const torch::nn::Module& module, const char* wanted) {
  throw InvalidArgument("DistributedSession: the module is a {}, not a {}", module.name(), wanted);
}

torch::nn::Module& DistributedSession::module() const {
  if (impl_->is_server()) {
    throw FailedPrecondition("DistributedSession: {} holds variables, but no module",
                             config().task.task.name());
  }
  return *impl_->view->modules.front();
}

TrainResult DistributedSession::close() {
  if (!should_stop()) impl_->view->turns.ask(Turns::Request::kClose, "the run to end");
  impl_->closed = true;
  if (impl_->thread.joinable()) impl_->thread.join();
  if (impl_->failure != nullptr) std::rethrow_exception(impl_->failure);
  return impl_->result;
}

}  // namespace muster
