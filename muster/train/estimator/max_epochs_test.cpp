#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

// Five batches, shuffled again in each epoch, where there is more than one replica shared out.
Dataset<Batch> five_batches(const InputContext& in) {
  return range(40)
      .shuffle(40, in.seed())
      .shard(in)
      .map(small_net::example)
      .batch(8, small_net::collate_examples);
}

std::map<std::string, std::string> values_after(const std::vector<TrainOptions>& runs) {
  const testing::TempDir folder;
  Estimator estimator(small_net::small_options(), small_net::quiet_config(folder.path()));
  for (const TrainOptions& options : runs) estimator.train(five_batches, options);
  return small_net::latest_values(folder.path());
}

TEST(MaxEpochs, MakesSoManyPassesAndShufflesEachAnew) {
  const testing::TempDir folder;
  Estimator estimator(small_net::small_options(), small_net::quiet_config(folder.path()));
  EXPECT_EQ(estimator.train(five_batches, {.max_epochs = 3}).global_step, 15);
  // All are made.
  EXPECT_EQ(estimator.train(five_batches, {.max_epochs = 3}).steps, 0);
  EXPECT_EQ(estimator.train(five_batches, {.max_epochs = 4}).steps, 5);
  EXPECT_EQ(estimator.train(five_batches, {.max_steps = 22, .max_epochs = 9}).global_step, 22);
}

TEST(MaxEpochs, ARunThatStoppedInAnEpochOrAtItsEndGoesOnToTheBit) {
  const auto whole = values_after({{.max_epochs = 3}});
  EXPECT_EQ(values_after({{.max_steps = 7, .max_epochs = 3}, {.max_epochs = 3}}), whole);
  EXPECT_EQ(values_after({{.max_epochs = 2}, {.max_epochs = 3}}), whole);
}

TEST(MaxEpochs, RefusesAnInputThatRepeatsItself) {
  const testing::TempDir folder;
  Estimator estimator(small_net::small_options(), small_net::quiet_config(folder.path()));
  EXPECT_THAT(message_of([&] {
                estimator.train(small_net::training_input, {.max_steps = 3, .max_epochs = 2});
              }),
              HasSubstr("leave repeat() out of the input function"));
  EXPECT_THAT(message_of([&] { estimator.train(five_batches, {.max_epochs = 0}); }),
              HasSubstr("max_epochs must be positive: 0"));
}

}  // namespace
}  // namespace muster
