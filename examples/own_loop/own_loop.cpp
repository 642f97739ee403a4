// A training loop of your own in a cluster: three arms of a spiral, told apart by a plain libtorch
// module. docs/guides/own_loop.md walks through it.
#include <fmt/core.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/platform/api.h"

namespace {

constexpr std::int64_t kArms = 3;
constexpr std::int64_t kBatch = 64;
// Points from here on are not trained with.
constexpr std::int64_t kFirstTest = 1'000'000'000;

struct SpiralNet : torch::nn::Module {
  SpiralNet() {
    hidden = register_module("hidden", torch::nn::Linear(2, 128));
    norm = register_module("norm", torch::nn::BatchNorm1d(128));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    logits = register_module("logits", torch::nn::Linear(128, kArms));
  }
  torch::Tensor forward(const torch::Tensor& points) {
    return logits->forward(dropout->forward(norm->forward(torch::relu(hidden->forward(points)))));
  }
  torch::nn::Linear hidden{nullptr}, logits{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};

struct Points {
  torch::Tensor at, arm;
};

// Points are functions of their numbers, so any task can make any of them.
Points points(std::int64_t first, std::int64_t count) {
  std::vector<float> xy;
  std::vector<std::int64_t> arms;
  for (std::int64_t n = first; n < first + count; ++n) {
    muster::Random random(/*key=*/static_cast<std::uint64_t>(n));
    const double radius = random.uniform(0.1, 1);
    const double angle =
        4 * radius + 2.0944 * static_cast<double>(n % kArms) + 0.5 * random.normal();
    xy.push_back(static_cast<float>(radius * std::cos(angle)));
    xy.push_back(static_cast<float>(radius * std::sin(angle)));
    arms.push_back(n % kArms);
  }
  return {torch::tensor(xy).view({count, 2}), torch::tensor(arms)};
}

double accuracy(SpiralNet& net) {
  const torch::NoGradGuard no_grad;
  const Points test = points(kFirstTest, 1024);
  net.eval();
  const double right =
      net.forward(test.at).argmax(1).eq(test.arm).to(torch::kFloat).mean().item<double>();
  net.train();
  return right;
}

struct Flags {
  std::string job_dir = "spiral";
  std::int64_t steps = 1000;
  std::int64_t replicas = 0;
  std::int64_t save_checkpoints_steps = 100;
  bool last_worker_evaluates = false;
  bool by_hand = false;
};

muster::RunConfig run_config(const Flags& flags) {
  auto config = muster::RunConfig::from_env().with_model_dir(flags.job_dir);
  config.reproducibility.replicas = flags.replicas;
  config.reproducibility.threads_per_replica = 1;
  config.checkpoints.save_checkpoints_steps = flags.save_checkpoints_steps;
  if (flags.last_worker_evaluates) {
    const auto spec = muster::create_task_spec_def();
    if (!spec) throw muster::UsageError("--last-worker-evaluates needs a cluster with a worker");
    config.cluster.task = spec->use_last_worker_as_evaluator().to_task_environment();
  }
  return config;
}

void train(const Flags& flags, const muster::RunConfig& config) {
  muster::DistributedSession session({.module = [] { return std::make_shared<SpiralNet>(); },
                                      .optimizer = muster::adam({.learning_rate = 0.01})},
                                     {.config = config, .last_step = flags.steps});
  while (!session.should_stop()) {
    session.run<SpiralNet>([](SpiralNet& net, const muster::ReplicaBatch& at) {
      // Replica r of R takes every R-th batch.
      const Points batch = points((at.number * at.replicas + at.replica) * kBatch, kBatch);
      return torch::nn::functional::cross_entropy(net.forward(batch.at), batch.arm);
    });
    if (session.is_chief() && session.global_step() % 200 == 0) {
      fmt::print("step {} loss {:.4f} accuracy {:.3f}\n", session.global_step(), *session.loss(),
                 accuracy(dynamic_cast<SpiralNet&>(session.module())));
    }
  }
  session.close();
}

// The same without a session, from the parts that it is made of: for steps of another form.
void train_by_hand(const Flags& flags) {
  const auto net = std::make_shared<SpiralNet>();
  auto variables = muster::Variables::adopt(*net);  // the values, in one flat buffer
  auto attached = variables.attach(net);            // the module computes with them
  muster::Updater updater(variables, {{"", muster::adam({.learning_rate = 0.01})}});
  muster::MovingAverage average(variables, {.decay = 0.99});
  muster::HostUpdate update(
      variables, updater,
      {.weight_decay = {.factor = 1e-4}, .clip = {.global_norm = 1.0}, .checks_gradients = true},
      &average);
  std::vector<muster::NamedTensor> state = variables.tensors();
  for (const auto& more : {updater.tensors(), average.tensors()}) {
    state.insert(state.end(), more.begin(), more.end());
  }

  std::int64_t step = muster::restore_checkpoint(flags.job_dir, state).value_or(0);
  while (step < flags.steps) {
    // Forward and backward.
    const Points batch = points(step * kBatch, kBatch);
    attached.zero();
    const auto loss = torch::nn::functional::cross_entropy(net->forward(batch.at), batch.arm);
    loss.backward();
    attached.collect();
    // The update, stage by stage; a batch with gradients that are not finite is skipped.
    const double decay = update.prepare(attached.gradients());
    const auto norms = update.norms(attached.gradients());
    if (update.is_finite(attached.gradients(), norms)) {
      update.apply(attached.gradients(), step, norms);
    }
    ++step;
    if (step % flags.save_checkpoints_steps == 0 || step == flags.steps) {
      muster::save_checkpoint(flags.job_dir, step, state);
    }
    if (step % 200 == 0) {
      fmt::print("step {} loss {:.4f} accuracy {:.3f}\n", step, loss.item<double>() + decay,
                 accuracy(*net));
    }
  }
}

void evaluate(const Flags& flags, const muster::RunConfig& config) {
  const auto net = std::make_shared<SpiralNet>();
  muster::follow_checkpoints(
      config, {.last_step = flags.steps}, [&](const muster::Path& checkpoint) {
        muster::load_checkpoint(checkpoint, net);
        fmt::print("{} accuracy {:.3f}\n", checkpoint.filename().string(), accuracy(*net));
        return true;
      });
}

int run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Trains a spiral in a loop of its own, alone or as a task of a cluster.");
  set.add("--job-dir", &flags.job_dir, "Checkpoints go here");
  set.add("--steps", &flags.steps, "Train up to this step");
  set.add("--replicas", &flags.replicas, "Batches of a step; 0: one for each task");
  set.add("--save-checkpoints-steps", &flags.save_checkpoints_steps).positive();
  set.add("--last-worker-evaluates", &flags.last_worker_evaluates,
          "The cluster's last worker evaluates checkpoints and does not train");
  set.add("--by-hand", &flags.by_hand, "Compose the steps of one process by hand");
  if (!set.parse(argc, argv)) return 0;
  if (flags.by_hand) {
    train_by_hand(flags);
    return 0;
  }
  const auto config = run_config(flags);
  if (config.cluster.task.is_evaluator()) {
    evaluate(flags, config);
  } else {
    train(flags, config);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, run);
}
