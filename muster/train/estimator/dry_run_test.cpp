#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "muster/base/error.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::set<std::string> files_below(const Path& folder) {
  std::set<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(folder.string()))) {
    files.insert(entry.path().string());
  }
  return files;
}

RunConfig dry_config(const Path& folder) {
  RunConfig config = small_net::quiet_config(folder);
  config.dry_run = true;
  return config;
}

TEST(DryRun, TriesEverythingOnceAndLeavesNothing) {
  const testing::TempDir folder;
  Path scratch;
  {
    Estimator estimator(small_net::small_options(), dry_config(folder / "run"));
    scratch = estimator.model_dir();
    EXPECT_EQ(estimator.train(small_net::training_input, {.max_steps = 1000}).global_step, 1);
    EXPECT_EQ(estimator.evaluate(small_net::evaluation_input).at("global_step"), 1);
    auto predictions = estimator.predict(small_net::evaluation_input);
    int rows = 0;
    while (predictions.next()) ++rows;
    EXPECT_EQ(rows, 16);
    EXPECT_TRUE(std::filesystem::exists(scratch.string()));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch.string()));
  EXPECT_FALSE(std::filesystem::exists((folder / "run").string()));
}

TEST(DryRun, ResumesACopyOfTheLatestCheckpoint) {
  const testing::TempDir folder;
  Estimator real(small_net::small_options(), small_net::quiet_config(folder.path()));
  real.train(small_net::training_input, {.max_steps = 3});
  const auto files = files_below(folder.path());
  Estimator dry(small_net::small_options(), dry_config(folder.path()));
  const TrainResult result = dry.train(small_net::training_input, {.max_steps = 3});
  EXPECT_EQ(result.global_step, 4);
  EXPECT_EQ(result.steps, 1);
  EXPECT_EQ(files_below(folder.path()), files);

  // A checkpoint of another model is found.
  EstimatorOptions other = small_net::small_options();
  other.optimizer = sgd({.learning_rate = 0.1});
  other.model = [] { return std::make_shared<small_net::BesselNet>(); };
  Estimator misfit(other, dry_config(folder.path()));
  EXPECT_THAT(small_net::error_of([&] { misfit.train(small_net::training_input); }),
              HasSubstr("use another model_dir"));
}

TEST(DryRun, IsForAProcessAlone) {
  RunConfig config = dry_config("run");
  config.cluster.task = parse_tf_config(
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})");
  EXPECT_THAT(small_net::error_of([&] { Estimator(small_net::small_options(), config); }),
              HasSubstr("dry_run is for a process alone"));
}

}  // namespace
}  // namespace muster
