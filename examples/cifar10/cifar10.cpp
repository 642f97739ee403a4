// The residual network of the CIFAR-10 estimator, trained, evaluated and exported: on a CPU, on the
// GPUs of a host, or as any task of a cluster. README.md shows how to make the files and what to
// expect.
#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "examples/cifar10/flags.h"
#include "examples/cifar10/input.h"
#include "examples/cifar10/network.h"
#include "examples/cifar10/plan.h"
#include "muster/muster.h"
#include "muster/platform/api.h"

namespace {

using cifar10::Flags;
using cifar10::Layout;
using muster::Path;

constexpr const char* kExportName = "cifar10";

/// Input files, checked before training starts.
struct Data {
  std::vector<Path> train_files, eval_files;
  std::int64_t train_images = 0;
  std::int64_t eval_images = 0;
};

Data find_data(const Flags& flags) {
  Data data{.train_files = cifar10::files_of_subset(flags.data_dir, flags.train_on),
            .eval_files = cifar10::files_of_subset(flags.data_dir, flags.eval_on)};
  data.train_images = cifar10::count_images(data.train_files);
  data.eval_images = cifar10::count_images(data.eval_files);
  if (data.eval_images % flags.eval_batch_size != 0) {
    throw muster::UsageError(
        "--eval-batch-size={} must divide the {} images that are evaluated: each batch counts "
        "alike",
        flags.eval_batch_size, data.eval_images);
  }
  muster::log::info("{} training images, {} to evaluate", data.train_images, data.eval_images);
  return data;
}

muster::EstimatorOptions estimator_options(const Flags& flags, const Layout& layout,
                                           std::int64_t train_images) {
  const auto network = cifar10::network_options(flags, layout);
  const auto rate =
      cifar10::schedule(flags.learning_rate, flags.epoch_size > 0 ? flags.epoch_size : train_images,
                        layout.update_images);
  return {.model = [=] { return std::make_shared<cifar10::Network>(network); },
          .head = muster::multi_class_head(network.resnet.num_classes),
          .optimizer = muster::momentum({.learning_rate = rate, .momentum = flags.momentum}),
          .weight_decay = {.factor = flags.weight_decay}};
}

// Where all tasks make a step together, the first says what there is to say of it.
muster::Hooks hooks(const muster::RunConfig& config) {
  if (!config.is_chief() && config.cluster.sync) return {};
  const auto rate = [](muster::Session& session) -> muster::LoggedValue {
    return session.learning_rates().begin()->second;
  };
  const auto loss = [](muster::Session& session) -> muster::LoggedValue { return session.loss(); };
  return {std::make_shared<muster::ExamplesPerSecondHook>(
              muster::ExamplesPerSecondOptions{.every_n_steps = 10}),
          std::make_shared<muster::LoggingHook>(muster::LoggingOptions{
              .values = {{"learning_rate", rate}, {"loss", loss}}, .every_n_iter = 100})};
}

// A server hands in `image`, [n, 32, 32, 3] bytes. The two images tell so; what they show does not
// matter.
muster::ServingInput serving_input() {
  const auto pixels = torch::arange(2 * cifar10::kSide * cifar10::kSide * cifar10::kChannels);
  return muster::raw_serving_input(
      {{cifar10::kImage, pixels.remainder(256)
                             .to(torch::kByte)
                             .view({2, cifar10::kSide, cifar10::kSide, cifar10::kChannels})}});
}

void log_network(const Flags& flags, const Layout& layout) {
  const auto options = cifar10::network_options(flags, layout);
  for (const auto& line : cifar10::shape_lines(options, 0)) muster::log::info("{}", line);
  muster::log::info("{}", cifar10::size_line(options));
}

void log_layout(const Flags& flags, const Layout& layout, const muster::RunConfig& config) {
  muster::log::info(
      "{} images a step: {} replicas of {} each, of which this process has towers on {}",
      layout.update_images, layout.replicas, layout.replica_batch, fmt::join(layout.devices, ", "));
  if (!flags.log_device_placement) return;
  for (std::size_t i = 0; i < layout.devices.size(); ++i) {
    muster::log::info("tower_{}: {}", i, layout.devices[i]);
  }
  const bool on_cpu = config.devices.variable_strategy == muster::VariableStrategy::kCpu;
  muster::log::info("variables, slots and updates: {}", on_cpu ? "cpu" : layout.devices.front());
}

// As Python would print them.
void print_metrics(const muster::EvaluationResult& metrics) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : metrics) {
    parts.push_back(name == "global_step" ? fmt::format("'{}': {:.0f}", name, value)
                                          : fmt::format("'{}': {:.9g}", name, value));
  }
  fmt::print("{{{}}}\n", fmt::join(parts, ", "));
}

/// The two ways to run: one after the other, or evaluating while training continues.
class Run {
 public:
  Run(const Flags& flags, muster::Estimator& estimator, muster::InputFn train, muster::InputFn eval,
      std::int64_t eval_steps)
      : flags_(flags),
        estimator_(estimator),
        train_(std::move(train)),
        eval_(std::move(eval)),
        eval_steps_(eval_steps) {}

  void train_then_evaluate() {
    exporter_->rehearse(estimator_);
    fmt::print("Starting to train...\n");
    std::fflush(stdout);
    auto all = hooks(estimator_.config());
    all.push_back(std::make_shared<muster::GraphHook>(estimator_, serving_input()));
    all.push_back(std::make_shared<muster::HParamsHook>(
        estimator_, flags_.train_steps,
        std::vector<muster::HParamMetric>{{.tag = "accuracy", .group = "eval"}}));
    estimator_.train(train_, {.max_steps = flags_.train_steps, .hooks = std::move(all)});
    fmt::print("Starting to evaluate...\n");
    std::fflush(stdout);
    const auto metrics = estimator_.evaluate(eval_, {.steps = eval_steps_});
    print_metrics(metrics);
    exporter_->publish(estimator_, estimator_.model_dir() / "export" / kExportName,
                       *estimator_.latest_checkpoint(), metrics, /*is_the_final_export=*/true);
  }

  void as_experiment() {
    muster::EvalSpec spec{.input_fn = eval_,
                          .steps = eval_steps_,
                          .exporters = {exporter_},
                          .start_delay_secs = std::chrono::seconds(0),
                          .throttle_secs = std::chrono::seconds(flags_.throttle_secs)};
    if (flags_.eval_every > 0) spec.every_steps = flags_.eval_every;
    const auto result = muster::train_and_evaluate(
        estimator_,
        {.input_fn = train_, .max_steps = flags_.train_steps, .hooks = hooks(estimator_.config())},
        spec);
    // Only the task that evaluates has some.
    if (!result.metrics.empty()) print_metrics(result.metrics);
  }

 private:
  const Flags& flags_;
  muster::Estimator& estimator_;
  muster::InputFn train_;
  muster::InputFn eval_;
  /// Batches of all images.
  std::int64_t eval_steps_;
  muster::SavedModelExporterPtr exporter_ = muster::final_exporter(kExportName, serving_input());
};

// A ps serves the run of the chief: of its own flags only those count that say where it writes,
// what it logs and how long it waits.
Flags flags_of_chief(const Flags& own, muster::RunConfig environment) {
  environment.cluster.join_timeout = std::chrono::seconds(own.cluster.join_timeout_secs);
  muster::log::info("asking the chief what to serve");
  const auto arguments = muster::arguments_of_chief(environment);
  cifar10::ParsedFlags parsed;
  const auto own_level = muster::log::level();
  try {
    parsed = cifar10::parse_flags(arguments);
  } catch (muster::Error& error) {
    error.add_context("the chief's arguments, which may be of another build");
    throw;
  }
  muster::log::set_level(own_level);
  if (!own.job_dir.empty()) parsed.flags.job_dir = own.job_dir;
  parsed.flags.cluster.join_timeout_secs = own.cluster.join_timeout_secs;
  muster::log::info("serving what the chief trains: {}", fmt::join(arguments, " "));
  return parsed.flags;
}

// With the number of images, which a ps cannot count.
std::vector<std::string> with_epoch_size(std::vector<std::string> arguments, std::int64_t images) {
  arguments.push_back(fmt::format("--epoch-size={}", images));
  return arguments;
}

int run(const Flags& flags, const muster::RunConfig& environment,
        const std::vector<std::string>& arguments) {
  const auto& task = environment.cluster.task;
  const Layout layout = cifar10::layout_of(flags, task, muster::gpu_count());
  auto config = cifar10::run_config(flags, layout, environment);
  const bool is_ps = task.task.type == muster::job::kPs;
  // A ps reads no images; how many there are is all it needs, for the schedule.
  const Data data = is_ps && flags.epoch_size > 0 ? Data{} : find_data(flags);
  config.cluster.arguments =
      with_epoch_size(arguments, flags.epoch_size > 0 ? flags.epoch_size : data.train_images);
  if (!is_ps) {
    log_network(flags, layout);
    log_layout(flags, layout, config);
  }
  muster::Estimator estimator(estimator_options(flags, layout, data.train_images), config);
  Run program(flags, estimator,
              cifar10::training_input(
                  cifar10::training_plan(flags, layout, data.train_files, data.train_images)),
              cifar10::evaluation_input(data.eval_files, flags.eval_batch_size),
              std::max<std::int64_t>(1, data.eval_images / flags.eval_batch_size));
  if (flags.run_experiment || !task.is_alone()) {
    program.as_experiment();
  } else {
    program.train_then_evaluate();
  }
  return EXIT_SUCCESS;
}

int parse_and_run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  auto parsed = cifar10::parse_flags(arguments);
  if (parsed.exit_status) return *parsed.exit_status;
  const auto environment = muster::RunConfig::from_env();
  if (environment.cluster.task.task.type == muster::job::kPs &&
      !environment.cluster.task.is_alone()) {
    parsed.flags = flags_of_chief(parsed.flags, environment);
  }
  cifar10::check(parsed.flags);
  return run(parsed.flags, environment, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, parse_and_run);
}
