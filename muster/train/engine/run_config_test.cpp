#include "muster/train/engine/run_config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/train/engine/strategy.h"

namespace muster {
namespace {

using namespace std::chrono_literals;

std::string config_refusal(const RunConfig& config) {
  try {
    config.check();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(RunConfig, HasTheDefaultsOfTfEstimator) {
  const RunConfig config;
  EXPECT_EQ(config.save_summary_steps, 100);
  EXPECT_EQ(config.checkpoints.keep_checkpoint_max, 5);
  EXPECT_EQ(config.checkpoints.keep_checkpoint_every_n_hours, 10'000);
  EXPECT_EQ(config.log_step_count_steps, 100);
  EXPECT_EQ(config.cluster.session_creation_timeout_secs, 7200s);
  EXPECT_FALSE(config.checkpoints.save_checkpoints_steps);
  EXPECT_FALSE(config.checkpoints.save_checkpoints_secs);
  EXPECT_TRUE(config.is_chief());
  EXPECT_EQ(config.cluster.task.num_worker_replicas, 1);
}

TEST(RunConfig, PrintsItselfAsTfEstimatorDoes) {
  RunConfig config;
  config.model_dir = "runs/census";
  const std::string text = config.to_string();
  EXPECT_TRUE(text.starts_with(
      "{'_model_dir': 'runs/census', '_tf_random_seed': None, '_save_summary_steps': 100, "
      "'_save_checkpoints_steps': None, '_save_checkpoints_secs': 600, '_keep_checkpoint_max': 5, "
      "'_keep_checkpoint_every_n_hours': 10000, '_log_step_count_steps': 100, "))
      << text;
  EXPECT_NE(text.find("'_task_type': 'worker', '_task_id': 0, '_global_id_in_cluster': 0, "
                      "'_master': '', '_evaluation_master': '', '_is_chief': True, "
                      "'_num_ps_replicas': 0, '_num_worker_replicas': 1"),
            std::string::npos)
      << text;
  config.checkpoints.save_checkpoints_steps = 50;
  const std::string by_steps = config.to_string();
  EXPECT_NE(by_steps.find("'_save_checkpoints_steps': 50, '_save_checkpoints_secs': None"),
            std::string::npos)
      << by_steps;
}

TEST(RunConfig, NamesTheFieldThatIsWrong) {
  RunConfig config;
  config.save_summary_steps = -1;
  EXPECT_EQ(config_refusal(config), "RunConfig: save_summary_steps must be 0 or more: -1");
  config = {};
  config.checkpoints.save_checkpoints_steps = 10;
  config.checkpoints.save_checkpoints_secs = 10s;
  EXPECT_NE(config_refusal(config).find("at most one"), std::string::npos);
  config = {};
  config.sharding = Sharding::kOptimizer;
  EXPECT_EQ(config_refusal(config), "");
  config.checkpoints.save_checkpoints = false;
  EXPECT_NE(config_refusal(config).find("sharding optimizer needs checkpoints"), std::string::npos);
  config = {};
  config.checkpoints.keep_checkpoint_every_n_hours = 0;
  EXPECT_NE(config_refusal(config).find("keep_checkpoint_every_n_hours"), std::string::npos);
}

TEST(RunConfig, FromEnvKeepsWhatIsSet) {
  ::setenv("TF_CONFIG", R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]},
                            "task": {"type": "worker", "index": 0}, "model_dir": "/runs/a"})",
           1);
  const RunConfig config = RunConfig::from_env(
      {.checkpoints = {.save_checkpoints_steps = 7}, .cluster = {.join_timeout = 3s}});
  EXPECT_THROW(RunConfig::from_env({.model_dir = "/runs/b"}), InvalidArgument);
  ::unsetenv("TF_CONFIG");
  EXPECT_EQ(config.model_dir, "/runs/a");
  EXPECT_EQ(config.checkpoints.save_checkpoints_steps, 7);
  EXPECT_EQ(config.cluster.join_timeout, 3s);
  EXPECT_EQ(config.cluster.task.task.type, "worker");
  EXPECT_FALSE(config.is_chief());
}

TEST(RunConfig, StrategiesHaveNames) {
  RunConfig config;
  EXPECT_EQ(config.cluster.train_distribute.name(), "auto");
  for (const char* name : {"ps", "PS", "parameter_server", "ParameterServerStrategy"}) {
    config.cluster.train_distribute = name;
    EXPECT_EQ(config.cluster.train_distribute.name(), "ps") << name;
  }
  config.cluster.train_distribute = std::string("MultiWorkerMirroredStrategy");
  EXPECT_EQ(config.cluster.train_distribute.name(), "collective");
  EXPECT_FALSE(config.cluster.train_distribute);
  config.cluster.train_distribute = [](const RunConfig&) { return make_local_strategy(); };
  EXPECT_TRUE(config.cluster.train_distribute);
  EXPECT_EQ(
      testing::message_of([] { StrategyChoice("colective"); }),
      "there is no strategy `colective`, only auto, ps, collective; did you mean collective?");
}

TEST(RunConfig, ModelDirOfTfConfigMustAgree) {
  ::setenv("TF_CONFIG", R"({"model_dir": "/runs/a"})", 1);
  const RunConfig config = RunConfig::from_env();
  ::unsetenv("TF_CONFIG");
  EXPECT_EQ(config.model_dir, "/runs/a");
  EXPECT_NO_THROW(config.with_model_dir("/runs/a"));
  EXPECT_NO_THROW(config.with_model_dir("/runs/a/"));
  EXPECT_THROW(config.with_model_dir("/runs/b"), InvalidArgument);
  EXPECT_THROW(RunConfig().with_model_dir(""), InvalidArgument);
}

TEST(RunConfig, IsShortWhereItIsAsUsual) {
  EXPECT_EQ(RunConfig({.model_dir = "a"}).to_short_string(),
            "{'_model_dir': 'a', '_tf_random_seed': None}");
  EXPECT_EQ(RunConfig({.model_dir = "a", .reproducibility = {.tf_random_seed = 5, .replicas = 3}})
                .to_short_string(),
            "{'_model_dir': 'a', '_tf_random_seed': 5, '_replicas': 3}");
}

}  // namespace
}  // namespace muster
