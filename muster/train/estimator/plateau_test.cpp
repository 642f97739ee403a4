#include <gmock/gmock.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/platform/cluster/tf_config.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/trainer.h"
#include "muster/train/estimator/plateau_internal.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using muster::testing::message_of;
using ::testing::HasSubstr;

using Evaluated = std::map<std::int64_t, double>;

TEST(Plateau, ReducesAfterSoManyEvaluationsThatAreNoBetter) {
  const PlateauOptions options{.factor = 0.5, .patience = 2, .min_delta = 0.1};
  const auto factor = [&](const Evaluated& evaluations) {
    return internal::plateau_factor(options, evaluations);
  };
  EXPECT_EQ(factor({}), 1);
  EXPECT_EQ(factor({{1, 5.0}, {2, 4.0}, {3, 3.95}}), 1);
  EXPECT_EQ(factor({{1, 5.0}, {2, 4.0}, {3, 3.95}, {4, 4.5}}), 0.5);
  EXPECT_EQ(factor({{1, 5.0}, {2, 4.0}, {3, 3.95}, {4, 3.5}, {5, 3.5}}), 1);
  EXPECT_EQ(factor({{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {5, 1.0}}), 0.25);
  EXPECT_EQ(factor({{1, std::nan("")}, {2, std::nan("")}, {3, std::nan("")}}), 0.5);
}

TEST(Plateau, CoolsDownAndEndsAtItsLeastFactor) {
  const Evaluated flat{{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 1.0}, {5, 1.0}};
  EXPECT_EQ(internal::plateau_factor({.factor = 0.5, .patience = 1, .cooldown = 1}, flat), 0.25);
  EXPECT_EQ(internal::plateau_factor({.factor = 0.5, .patience = 1, .min_factor = 0.2}, flat), 0.2);
  EXPECT_EQ(internal::plateau_factor({.higher_is_better = true, .factor = 0.5, .patience = 1},
                                     {{1, 0.5}, {2, 0.75}, {3, 0.6}}),
            0.5);
}

EstimatorOptions reduced_options() {
  EstimatorOptions options = small_net::small_options();
  options.optimizer = sgd({.learning_rate = 0.5});
  // No evaluation is better by so much.
  options.reduce_on_plateau = PlateauOptions{.factor = 0.5, .patience = 1, .min_delta = 1e9};
  return options;
}

// Trains up to these steps, with an evaluation after each but the last.
std::vector<double> rates_up_to(Estimator& estimator, std::int64_t last) {
  const auto trainer = estimator.trainer(small_net::training_input, {.max_steps = last});
  std::vector<double> rates;
  trainer->begin();
  while (trainer->session().global_step() < last) {
    trainer->step();
    rates.push_back(trainer->session().learning_rates().at(""));
    if (trainer->session().global_step() < last) {
      estimator.evaluate(trainer->session(), small_net::evaluation_input);
    }
  }
  trainer->finish();
  return rates;
}

// A hook of a training hears of evaluations by train_and_evaluate; here they are on the disk.
TEST(Plateau, ARunThatIsResumedHasTheRatesThatItsEvaluationsGive) {
  const testing::TempDir folder;
  RunConfig config = small_net::quiet_config(folder.path());
  Estimator estimator(reduced_options(), config);
  EXPECT_THAT(rates_up_to(estimator, 3), ::testing::ElementsAre(0.5, 0.5, 0.5));
  // Steps 1 and 2 were evaluated.
  EXPECT_THAT(rates_up_to(estimator, 4), ::testing::ElementsAre(0.25));
  // Step 3 was evaluated after a run that has ended.
  estimator.evaluate(small_net::evaluation_input);
  EXPECT_THAT(rates_up_to(estimator, 5), ::testing::ElementsAre(0.125));
}

TEST(Plateau, RefusesWhatCannotWork) {
  const auto message = [](const PlateauOptions& plateau, RunConfig config = {}) {
    EstimatorOptions options = small_net::small_options();
    options.reduce_on_plateau = plateau;
    return message_of([&] { Estimator estimator(options, config); });
  };
  EXPECT_THAT(message({.factor = 1}), HasSubstr("factor must be in (0, 1): 1"));
  EXPECT_THAT(message({.patience = 0}), HasSubstr("patience must be positive"));
  RunConfig in_cluster;
  in_cluster.cluster.task = parse_tf_config(
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}})");
  EXPECT_THAT(message({}, in_cluster), HasSubstr("works in a process alone so far"));
}

}  // namespace
}  // namespace muster
