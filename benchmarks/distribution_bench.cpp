#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "benchmarks/report.h"
#include "benchmarks/training_rate.h"
#include "muster/base/error.h"
#include "muster/base/freed_memory.h"
#include "muster/base/log.h"
#include "muster/data/features/column_set.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/nn/model/wide_and_deep.h"
#include "muster/orchestration/launch/ports.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/run_state.h"

// Cost of training on several tasks. The other task of each row is this program again, as a
// process of its own.

extern char** environ;

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

const std::int64_t kElements = bench::sized<std::int64_t>(16'000'000, 1'000'000);
constexpr int kWarmUp = 3;
const int kRounds = bench::sized(10, 1);
const std::int64_t kSmallSteps = bench::sized<std::int64_t>(1'500, 20);

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The second task of a cluster of two.
class OtherTask {
 public:
  /// `job` is its job: "worker" or "ps". `what` is the function it runs.
  OtherTask(const std::string& job, const std::string& what) {
    const launch::ReservedPorts ports(2, {});
    cluster_ = fmt::format(R"({{"chief": ["127.0.0.1:{}"], "{}": ["127.0.0.1:{}"]}})", ports[0],
                           job, ports[1]);
    const std::string config = fmt::format(
        R"(TF_CONFIG={{"cluster": {}, "task": {{"type": "{}", "index": 0}}}})", cluster_, job);
    std::vector<char*> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    environment.push_back(const_cast<char*>(config.c_str()));
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe", flag = "--task", name = what;
    std::array<char*, 4> arguments{program.data(), flag.data(), name.data(), nullptr};
    if (::posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, arguments.data(),
                      environment.data()) != 0) {
      throw_errno(errno, "starting the other task");
    }
  }
  ~OtherTask() { ::waitpid(process_, nullptr, 0); }
  OtherTask(const OtherTask&) = delete;
  OtherTask& operator=(const OtherTask&) = delete;

  std::string chief_config() const {
    return fmt::format(R"({{"cluster": {}, "task": {{"type": "chief", "index": 0}}}})", cluster_);
  }

 private:
  std::string cluster_;
  pid_t process_ = -1;
};

RunConfig config_of(const std::string& tf_config) {
  RunConfig config = bench::silent_config(1);
  config.cluster.task = parse_tf_config(tf_config);
  config.reproducibility.replicas = config.cluster.task.num_ps_replicas > 0 ? 1 : 2;
  return config;
}

RunContract terms_of(const RunConfig& config) {
  return {.replicas = config.reproducibility.replicas,
          .threads_per_replica = 1,
          .seed = config.seed(),
          .arithmetic = numerics_fingerprint(true).fingerprint()};
}

/// A participant that costs nothing, so that the time is the strategy's own.
class BareParticipant : public Participant {
 public:
  BareParticipant(const Variables& variables, const Updater& updater, std::int64_t replicas)
      : variables_(variables), updater_(updater), replicas_(replicas) {}

  const Variables& run_variables() const override { return variables_; }
  const Updater& run_updater() const override { return updater_; }
  const std::vector<at::Tensor>& buffers() const override { return buffers_; }
  InputPositions positions() override { return all_inputs(); }
  StepResult update(std::int64_t, PartialSums total) override {
    bench::keep(total);
    return {.present = total.present};
  }
  StepResult prepare_local_gradients(PartialSums& own) override { return {.present = own.present}; }
  double decay_loss() const override { return 0; }
  RunSnapshot snapshot() override {
    return {.state_json = to_json(RunState{.inputs = all_inputs()}),
            .tensors = variables_.tensors()};
  }
  void restore_snapshot(const RunSnapshot&) override {}
  void roll_back_to_checkpoint() override {}

 private:
  InputPositions all_inputs() const { return InputPositions(static_cast<std::size_t>(replicas_)); }

  const Variables& variables_;
  const Updater& updater_;
  const std::int64_t replicas_;
  const std::vector<at::Tensor> buffers_;
};

PartialSums sums_of(Strategy& strategy, const RunConfig& config, const at::Tensor& flat) {
  PartialSums parts{.present = 1, .examples = 1};
  parts.losses.resize(static_cast<std::size_t>(config.reproducibility.replicas));
  const ReplicaRange mine = strategy.membership().replicas();
  parts.losses[static_cast<std::size_t>(mine.first)] = torch::ones({});
  parts.sums[{mine.first, mine.last}] = Gradients{.flat = flat};
  return parts;
}

// -------------------------------------------------------------------------- one large variable

struct LargeModel : Model {
  LargeModel() { weights = register_parameter("weights", torch::zeros({kElements})); }
  torch::Tensor forward(const Features&) override { return weights; }
  torch::Tensor weights;
};

EstimatorOptions large_options() {
  return {.model = [] { return std::make_shared<LargeModel>(); },
          .head = regression_head(),
          .optimizer = sgd({.learning_rate = 0.1})};
}

/// A run of one large variable, from its first step on.
class LargeRun {
 public:
  LargeRun(const RunConfig& config, std::unique_ptr<Strategy> strategy)
      : model_(options_.model()),
        variables_(Variables::adopt(*model_)),
        updater_(variables_, options_.optimizer),
        participant_(variables_, updater_, config.reproducibility.replicas),
        strategy_(std::move(strategy)) {
    strategy_->membership().join(terms_of(config));
    strategy_->attach(participant_);
    strategy_->membership().synchronize();
  }

  Strategy& strategy() { return *strategy_; }

 private:
  const EstimatorOptions options_ = large_options();
  const std::shared_ptr<Model> model_;
  const Variables variables_;
  const Updater updater_;
  BareParticipant participant_;
  const std::unique_ptr<Strategy> strategy_;
};

double seconds_of_steps(LargeRun& run, const RunConfig& config) {
  Strategy& strategy = run.strategy();
  const at::Tensor flat = torch::ones({kElements});
  Clock::time_point start;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) start = Clock::now();
    bench::keep(strategy.reduction().apply(round, sums_of(strategy, config, flat)));
  }
  const double seconds = seconds_since(start) / kRounds;
  if (config.is_chief()) {
    strategy.membership().end(kWarmUp + kRounds, /*signal=*/0);
  } else {
    strategy.membership().leave(/*early=*/false);
  }
  return seconds;
}

// ------------------------------------------------------------------------------- a collective sum

double seconds_of_sum(const RunConfig& config) {
  LargeRun run(config, make_collective(config));
  return seconds_of_steps(run, config);
}

void add_collective(bench::Report& report) {
  const std::string name = "collective sum of 64 MB over two tasks, over Gloo's all-reduce";
  if (!report.wants(name)) return;
  double seconds = 0;
  {
    const OtherTask worker("worker", "sum");
    seconds = seconds_of_sum(config_of(worker.chief_config()));
  }
  const auto gloo = bench::anchor_examples_per_second("gloo_allreduce.py --bytes 64000000");
  report.add({.name = name,
              .value = 1 / seconds,
              .unit = "sums/s",
              .limit = gloo,
              .at_least = 0.9,
              .aim = 1.0});
}

// ------------------------------------------------------------------------------ a push and a pull

double seconds_of_push_and_pull(const RunConfig& config) {
  LargeRun run(config, make_parameter_server(config));
  return seconds_of_steps(run, config);
}

// The same bytes through a plain TCP stream, first one way, then the other.
double seconds_of_raw_tcp() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int near = ::socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || near < 0) throw_errno(errno, "making sockets");
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(listener, address, size) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, address, &size) != 0) {
    throw_errno(errno, "listening");
  }
  if (::connect(near, address, size) != 0) throw_errno(errno, "connecting");
  const int far = ::accept(listener, nullptr, nullptr);
  const std::size_t bytes = static_cast<std::size_t>(kElements) * 4;
  const auto move = [bytes](int handle, std::vector<char>& memory, bool out) {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t piece = std::min<std::size_t>(bytes - done, 1 << 20);
      const ssize_t count = out ? ::send(handle, memory.data() + done, piece, 0)
                                : ::recv(handle, memory.data() + done, piece, 0);
      if (count <= 0) throw_errno(errno, "moving bytes");
      done += static_cast<std::size_t>(count);
    }
  };
  std::vector<char> one(bytes, 1), other(bytes, 1);
  std::jthread echo([&] {
    for (int round = 0; round < kWarmUp + kRounds; ++round) {
      move(far, other, false);
      move(far, other, true);
    }
  });
  Clock::time_point start;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    if (round == kWarmUp) start = Clock::now();
    move(near, one, true);
    move(near, one, false);
  }
  const double seconds = seconds_since(start) / kRounds;
  echo.join();
  for (const int handle : {near, far, listener}) ::close(handle);
  return seconds;
}

void add_push_and_pull(bench::Report& report) {
  const std::string name = "push and pull of 64 MB, one task and one ps, over a plain TCP stream";
  if (!report.wants(name)) return;
  double seconds = 0;
  {
    const OtherTask server("ps", "large");
    seconds = seconds_of_push_and_pull(config_of(server.chief_config()));
  }
  const double gigabytes = 2.0 * static_cast<double>(kElements) * 4 / 1e9;
  report.add({.name = name,
              .value = gigabytes / seconds,
              .unit = "GB/s",
              .limit = gigabytes / seconds_of_raw_tcp(),
              .at_least = 0.5,
              .aim = 0.7});
}

// ------------------------------------------------------------------- a step of a small model

EstimatorOptions small_options() {
  const auto word = categorical_column_with_identity("word", 1000);
  const auto age = numeric_column("age");
  const WideAndDeepOptions options{
      .linear_columns =
          std::make_shared<const ColumnSet>(FeatureColumnList{word}, ColumnUse::kLinear),
      .dnn_columns = std::make_shared<const ColumnSet>(
          FeatureColumnList{embedding_column(word, 8), age}, ColumnUse::kInputLayer),
      .hidden_units = {100, 70, 48, 34}};
  return {.model = [=] { return std::make_shared<WideAndDeep>(options); },
          .head = binary_class_head(),
          .optimizer = {{"linear", ftrl({.learning_rate = 0.1})}, {"dnn", adagrad({0.05})}}};
}

InputFn small_input() {
  const Batch batch =
      make_batch(Features{{"word", torch::arange(40).view({40, 1})}, {"age", torch::ones({40, 1})}},
                 torch::ones({40, 1}).to(torch::kLong));
  return [batch](const InputContext&) {
    return generate([batch](std::uint64_t) { return std::optional<Batch>(batch); });
  };
}

double seconds_of_step(const RunConfig& config) {
  Estimator estimator(small_options(), config);
  estimator.train(small_input(), {.steps = kSmallSteps / 10});
  const auto start = Clock::now();
  estimator.train(small_input(), {.steps = kSmallSteps});
  return seconds_since(start) / static_cast<double>(kSmallSteps);
}

// In a cluster a run cannot be begun twice, so what it takes to begin is measured too and taken
// off.
double seconds_of_ps_step() {
  const auto run = [](std::int64_t steps) {
    const OtherTask server("ps", "small");
    RunConfig config = config_of(server.chief_config());
    config.cluster.train_distribute = [](const RunConfig& one) {
      return make_parameter_server(one);
    };
    Estimator estimator(small_options(), config);
    const auto start = Clock::now();
    estimator.train(small_input(), {.steps = steps});
    return seconds_since(start);
  };
  const double few = run(kSmallSteps / 10);
  const double many = run(kSmallSteps / 10 + kSmallSteps);
  return (many - few) / static_cast<double>(kSmallSteps);
}

void add_small_step(bench::Report& report) {
  const std::string name =
      "a sync ps step of a wide and deep model over the local step (at most "
      "1.0, aim 0.3)";
  if (!report.wants(name)) return;
  const double local = seconds_of_step(bench::silent_config(1));
  report.add({.name = name, .value = (seconds_of_ps_step() - local) * 1e3, .unit = "ms"});
}

// --------------------------------------------------------------------------------------- main

int run_task(std::string_view what) {
  const char* const tf_config = std::getenv("TF_CONFIG");
  if (tf_config == nullptr) throw FailedPrecondition("--task is for the benchmark itself");
  const RunConfig config = config_of(tf_config);
  if (what == "sum") {
    seconds_of_sum(config);
  } else {
    serve_parameters(what == "large" ? large_options() : small_options(), config);
  }
  return 0;
}

int run(int argc, char** argv) {
  log::set_level(log::Level::kError);
  // As training does it; a server has all processors.
  keep_freed_memory();
  const bool is_server = argc == 3 && std::string_view(argv[2]) != "sum";
  if (!is_server) set_cpu_threads(1);
  if (argc == 3 && std::string_view(argv[1]) == "--task") return run_task(argv[2]);
  bench::Report report(argc, argv);
  add_collective(report);
  add_push_and_pull(report);
  add_small_step(report);
  return report.finish();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run(argc, argv); }
