#include "muster/train/engine/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/signals.h"
#include "muster/data/summary/event_reader.h"
#include "muster/testing/eventually.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/learner.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

std::unique_ptr<Trainer> trainer_in(const Path& folder, const TrainOptions& options) {
  return Estimator(small_options(), quiet_config(folder)).trainer(training_input, options);
}

TEST(Trainer, SteppedByHandMakesTheBitsOfTrain) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder / "whole"))
      .train(training_input, {.max_steps = 7});
  const auto trainer = trainer_in(folder / "stepped", {.max_steps = 7});
  trainer->begin();
  std::vector<std::int64_t> steps;
  while (trainer->step()) steps.push_back(trainer->session().global_step());
  const TrainResult result = trainer->finish();
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(result.global_step, 7);
  EXPECT_EQ(result.steps, 7);
  EXPECT_EQ(latest_values(folder / "stepped"), latest_values(folder / "whole"));
}

TEST(Trainer, SamplesItsMachineAndTheSharesOfItsSteps) {
  const TempDir folder;
  ::setenv("MUSTER_MACHINE_SECONDS", "0.001", 1);
  const auto trainer = trainer_in(folder.path(), {.max_steps = 7});
  ::unsetenv("MUSTER_MACHINE_SECONDS");
  trainer->begin();
  EXPECT_TRUE(trainer->step());
  std::map<std::string, float> values;
  EXPECT_TRUE(testing::eventually([&] {
    if (!file_exists(folder / "machine.local")) return false;
    EventReader reader(folder / "machine.local");
    while (const auto event = reader.next()) {
      const auto* summary = std::get_if<Summary>(&event->what);
      for (const auto& value : summary == nullptr ? Summary() : *summary) {
        values[value.tag] = std::get<float>(value.data);
      }
    }
    return values.contains("step_percent/compute");
  }));
  float sum = 0;
  for (const char* part : {"compute", "input", "sum", "save", "evaluate"}) {
    sum += values.at(std::string("step_percent/") + part);
  }
  EXPECT_NEAR(sum, 100, 0.1);
  EXPECT_GT(values.at("machine/memory_mib"), 1);
}

TEST(Trainer, TwoAtATimeDoNotDisturbEachOther) {
  const TempDir folder;
  const auto one = trainer_in(folder / "one", {.max_steps = 4});
  const auto other = trainer_in(folder / "other", {.max_steps = 4, .handle_signals = false});
  one->begin();
  other->begin();
  while (one->step()) EXPECT_TRUE(other->step());
  EXPECT_FALSE(other->step());
  other->finish();
  one->finish();
  EXPECT_EQ(latest_values(folder / "one"), latest_values(folder / "other"));
}

TEST(Trainer, EndsWhenItsSessionIsAskedTo) {
  const TempDir folder;
  const auto trainer = trainer_in(folder.path(), {});
  trainer->begin();
  EXPECT_TRUE(trainer->step());
  trainer->session().request_stop("enough");
  EXPECT_FALSE(trainer->is_over());
  EXPECT_FALSE(trainer->step());
  EXPECT_TRUE(trainer->is_over());
  EXPECT_FALSE(trainer->step());
  EXPECT_EQ(trainer->finish().global_step, 1);
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 1);
}

TEST(Trainer, HasNothingToDoWhereTheLastStepIsSaved) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder.path())).train(training_input, {.max_steps = 2});
  const auto trainer = trainer_in(folder.path(), {.max_steps = 2});
  trainer->begin();
  EXPECT_TRUE(trainer->is_over());
  EXPECT_FALSE(trainer->step());
  const TrainResult result = trainer->finish();
  EXPECT_EQ(result.global_step, 2);
  EXPECT_EQ(result.steps, 0);
}

TEST(Trainer, LeftBeforeItsEndSavesNothingMore) {
  const TempDir folder;
  {
    const auto trainer = trainer_in(folder.path(), {.max_steps = 5});
    trainer->begin();
    trainer->step();
    EXPECT_THAT(error_of([&] { trainer->finish(); }), HasSubstr("before it is over"));
  }
  const auto latest = latest_checkpoint(folder.path());
  EXPECT_EQ(latest ? checkpoint_step(*latest).value_or(-1) : 0, 0);
  // And leaves the folder to others.
  EXPECT_EQ(Estimator(small_options(), quiet_config(folder.path()))
                .train(training_input, {.max_steps = 2})
                .global_step,
            2);
}

TEST(Trainer, ASignalBetweenTwoStepsEndsItWithTheLastOneSaved) {
  const TempDir folder;
  const auto trainer = trainer_in(folder.path(), {});
  trainer->begin();
  EXPECT_TRUE(trainer->step());
  ::raise(SIGTERM);
  EXPECT_FALSE(trainer->step());
  EXPECT_THROW(trainer->finish(), Interrupted);
  StopSignals::reset();
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder.path())), 1);
}

struct NoLearner : Learner {
  TrainResult train(const EstimatorOptions&, const RunConfig&, const InputFn&,
                    const TrainOptions&) const override {
    return {};
  }
  void load(const BundleReader&, Model&) const override {}
};

TEST(Trainer, IsNotForWhatLearnsOtherwise) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.learner = std::make_shared<NoLearner>();
  EXPECT_THAT(error_of([&] {
                Estimator(options, quiet_config(folder.path())).trainer(training_input, {});
              }),
              HasSubstr("use Estimator::train"));
}

}  // namespace
}  // namespace muster
