// A small experiment that learn_runner runs as whatever task this process is, for tests.
#include <string>

#include "muster/base/flags/flags.h"
#include "muster/base/program.h"
#include "muster/run/learn_runner.h"
#include "muster/train/estimator/small_net_internal.h"

namespace {

int run(int argc, char** argv) {
  std::string model_dir, schedule;
  std::int64_t steps = 40;
  muster::FlagSet set("Runs a small experiment as one task of a cluster.");
  set.add("--model-dir", &model_dir).required();
  set.add("--schedule", &schedule);
  set.add("--steps", &steps);
  if (!set.parse(argc, argv)) return 0;

  auto config = muster::RunConfig::from_env().with_model_dir(model_dir);
  config.reproducibility.tf_random_seed = 5;
  config.reproducibility.replicas = 2;
  config.reproducibility.threads_per_replica = 1;
  config.checkpoints.save_checkpoints_steps = 10;
  const auto experiment = [&](const muster::RunConfig& given) {
    return muster::Experiment({muster::small_net::small_options(), given},
                              {.train_input_fn = muster::small_net::training_input,
                               .eval_input_fn = muster::small_net::evaluation_input,
                               .train_steps = steps,
                               .eval_delay_secs = std::chrono::seconds(0),
                               .continuous_eval_throttle_secs = std::chrono::seconds(0),
                               .check_interval_secs = std::chrono::seconds(0)});
  };
  muster::learn_runner::run(experiment, {.run_config = config, .schedule = schedule});
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
