// The models of own_models.h through an Estimator, in bfloat16, for what a user of muster gets.
//
//   own_models --model resnet18|transformer|unet|lstm|resnet44|mnist --job-dir FOLDER --steps N
//              [--batch N] [--deterministic] [--kill-at STEP] and all flags of a training program
//
// Prints the examples a second of all replicas from the warm-up's end to the last step, and how
// long the first step took since train() and since the program began: of a new run, or of one that
// continues. Tasks of a cluster (TF_CONFIG) train together; every one prints.
// benchmarks/own_models_table runs all of it beside PyTorch.
#include "own_models.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>

#include "muster/base/flags/flags.h"
#include "muster/base/process_stat.h"
#include "muster/distribution/collective.h"
#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/train/api.h"

namespace muster {
namespace {

struct Flags {
  RunFlags run;
  std::string model;
  std::int64_t batch = 0;
  std::int64_t steps = 1000;
  std::int64_t warm_up = 100;
  bool deterministic = false;
  std::int64_t kill_at = 0;
};

class Wrapped : public Model {
 public:
  explicit Wrapped(const std::string& kind) : draws_(kind == "mnist") {
    auto made = own_models::make_model(kind, own_models::sizes_of(kind, false));
    register_module("net", std::move(made.first));
    forward_ = std::move(made.second);
  }
  torch::Tensor forward(const Features& features) override {
    return forward_(features.tensor("x"));
  }
  bool draws_from_libtorch() const override { return draws_; }
  // Labels of pixels are no head's.
  EstimatorSpec call(const Batch& batch, Mode mode, const Head* /*head*/) override {
    const at::Tensor logits = forward(batch.features).to(torch::kFloat);
    const at::Tensor label = batch.labels.tensor("label");
    return {.mode = mode, .loss = torch::cross_entropy_loss(logits, label)};
  }

 private:
  const bool draws_;
  own_models::Forward forward_;
};

/// Seconds since the system started this process.
double seconds_of_process() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto started = static_cast<double>(process_stat(::getpid()).value().start_ticks) /
                       static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
}

/// Waits for the device at three steps alone: the first, the last of the warm-up, and the last.
class Stopwatch : public Hook {
 public:
  Stopwatch(std::int64_t warm_up, std::int64_t last, std::int64_t kill_at)
      : warm_up_(warm_up), last_(last), kill_at_(kill_at) {}

  void after_run(Session& session) override {
    const std::int64_t step = session.global_step();
    if (first_ == 0) {
      static_cast<void>(session.loss());
      first_ = step;
      first_seconds = seconds_since(begin_);
      first_of_process = seconds_of_process();
    }
    if (step == first_ + warm_up_) {
      static_cast<void>(session.loss());
      warm_ = Clock::now();
      measured_from_ = step;
    }
    if (kill_at_ > 0 && step == kill_at_) raise(SIGKILL);
    if (step != last_ || measured_from_ == 0) return;
    static_cast<void>(session.loss());
    const auto examples = static_cast<double>((step - measured_from_) * session.step_examples());
    seconds_a_step = seconds_since(warm_) / static_cast<double>(step - measured_from_);
    examples_a_second = examples / seconds_since(warm_);
  }

  double first_seconds = 0, first_of_process = 0, seconds_a_step = 0, examples_a_second = 0;

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  const std::int64_t warm_up_, last_, kill_at_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point warm_{};
  std::int64_t first_ = 0, measured_from_ = 0;
};

int run(const Flags& flags) {
  own_models::Sizes sizes = own_models::sizes_of(flags.model, false);
  if (flags.batch > 0) sizes.batch = flags.batch;
  torch::manual_seed(0);
  const auto [x, label] = own_models::batch_of(flags.model, sizes);
  const auto input = [&, x = x, label = label](const InputContext& in) {
    return range(1000000).shard(in).repeat().batch(sizes.batch, [=](std::span<const std::int64_t>) {
      return make_batch({{"x", x}}, label);
    });
  };
  RunConfig config = run_config(flags.run);
  config.reproducibility.precision = ComputeType::kBfloat16;
  config.reproducibility.deterministic = flags.deterministic;
  config.save_summary_steps = 0;
  if (std::getenv("TF_CONFIG") != nullptr)
    config.cluster.train_distribute = [](const RunConfig& own) { return make_collective(own); };
  EstimatorOptions options{.model = [&] { return std::make_shared<Wrapped>(flags.model); },
                           .optimizer = momentum({.learning_rate = 1e-4, .momentum = 0.9})};
  if (flags.model == "mnist") options.optimizer = adam({.learning_rate = 1e-4});
  Estimator estimator(std::move(options), config);
  const auto stopwatch = std::make_shared<Stopwatch>(flags.warm_up, flags.steps, flags.kill_at);
  estimator.train(input, {.max_steps = flags.steps, .hooks = {stopwatch}});
  fmt::print(
      "muster {} batch {} compile {}: {:.1f} examples/s ({:.3f} ms a step), first step {:.2f} s "
      "after "
      "train(), {:.2f} s after the program began\n",
      flags.model, sizes.batch, flags.run.compile.empty() ? "default" : flags.run.compile,
      stopwatch->examples_a_second, stopwatch->seconds_a_step * 1e3, stopwatch->first_seconds,
      stopwatch->first_of_process);
  return 0;
}

int parse_and_run(int argc, char** argv) {
  Flags flags;
  FlagSet set("Trains a model of plain libtorch layers on one batch, again and again.");
  set.add("--model", &flags.model, "One of resnet18, transformer, unet, lstm, resnet44 and mnist")
      .required();
  set.add("--batch", &flags.batch, "Examples of a replica; 0: as in docs/performance.md")
      .not_negative();
  set.add("--steps", &flags.steps, "The last step").positive();
  set.add("--warm-up", &flags.warm_up, "Steps before those that are measured").not_negative();
  set.add("--deterministic", &flags.deterministic, "The same bits in every run");
  set.add("--kill-at", &flags.kill_at, "The process kills itself after this step; 0: never")
      .not_negative();
  add_run_flags(set, flags.run);
  if (!set.parse(argc, argv)) return EXIT_SUCCESS;
  return run(flags);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run_main(argc, argv, muster::parse_and_run); }
