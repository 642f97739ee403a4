#include "muster/train/estimator/best_checkpoint.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using testing::message_of;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header
using ::testing::HasSubstr;

/// An estimator that is trained step by step, and what a keeper makes of made-up evaluations.
struct Kept {
  explicit Kept(const Path& folder, BestCheckpointOptions options = {})
      : estimator(small_options(), config_in(folder)), keeper(best_checkpoint_keeper(options)) {}

  static RunConfig config_in(const Path& folder) {
    RunConfig config = quiet_config(folder);
    config.checkpoints.keep_checkpoint_max = 1;
    return config;
  }
  std::optional<Path> after(std::int64_t step, const EvaluationResult& result) {
    estimator.train(training_input, {.max_steps = step});
    return keeper->publish(estimator, estimator.model_dir() / "export" / keeper->name(),
                           *estimator.latest_checkpoint(), result, false);
  }
  std::optional<Path> best() const { return best_checkpoint(estimator.model_dir()); }

  Estimator estimator;
  std::shared_ptr<Exporter> keeper;
};

TEST(BestCheckpoint, StaysWhenItsOriginalIsDeleted) {
  const TempDir folder;
  Kept run(folder.path());
  EXPECT_FALSE(run.best());
  const Path kept = folder / "export/best_checkpoint";
  EXPECT_EQ(run.after(2, {{"loss", 0.5}}), kept / "model.ckpt-2");
  const auto then = run.estimator.get_variable_value("logits/kernel").clone();
  EXPECT_EQ(run.after(4, {{"loss", 0.5}}), std::nullopt) << "of equal ones the first stays";
  EXPECT_EQ(run.after(6, {{"loss", NAN}}), std::nullopt);
  EXPECT_FALSE(file_exists(folder / "model.ckpt-2.index"));
  ASSERT_EQ(run.best(), kept / "model.ckpt-2");
  const BundleReader bundle(*run.best());
  EXPECT_TRUE(file_exists(kept / "model.ckpt-2.state.json"));
  const auto now = run.estimator.get_variable_value("logits/kernel");
  EXPECT_FALSE(at::equal(now, then));
  const auto at_best =
      run.estimator.evaluate(evaluation_input, {.steps = 2, .checkpoint_path = *run.best()});
  EXPECT_EQ(at_best.at("global_step"), 2);
}

TEST(BestCheckpoint, IsReplacedByABetterOneInALaterRunToo) {
  const TempDir folder;
  const BestCheckpointOptions by_accuracy{.metric = "accuracy", .higher_is_better = true};
  Kept(folder.path(), by_accuracy).after(2, {{"accuracy", 0.5}});
  Kept later(folder.path(), by_accuracy);
  EXPECT_FALSE(later.after(4, {{"accuracy", 0.4}}));
  EXPECT_TRUE(later.after(6, {{"accuracy", 0.6}}));
  EXPECT_EQ(later.best()->filename(), "model.ckpt-6");
  EXPECT_FALSE(file_exists(folder / "export/best_checkpoint/model.ckpt-2.index"));
  EXPECT_FALSE(file_exists(folder / "export/best_checkpoint/model.ckpt-2.state.json"));
}

TEST(BestCheckpoint, NamesTheMetricsThereAre) {
  const TempDir folder;
  Kept run(folder.path(), {.metric = "auc"});
  EXPECT_THAT(
      message_of([&] {
        run.after(2, {{"loss", 1}, {"accuracy", 0}});
      }),
      HasSubstr("no metric \"auc\" to tell the best checkpoint by; it has: accuracy, loss"));
}

}  // namespace
}  // namespace muster
