#include "muster/train/engine/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/platform/stores/register_stores.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/fake_gcs.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/run_metadata.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header

std::string bytes_of(const BundleReader& bundle, const std::string& name) {
  const TensorData data = bundle.read(name);
  return {reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()};
}

// The checkpoint that the run begins with, before its first step.
BundleReader first_checkpoint(const EstimatorOptions& options, const Path& folder,
                              const InputFn& input, const Hooks& hooks = {}) {
  RunConfig config = quiet_config(folder);
  config.checkpoints.keep_checkpoint_max = 0;
  Estimator(options, config).train(input, {.max_steps = 1, .hooks = hooks});
  return BundleReader(folder / "model.ckpt-0");
}

TEST(WarmStart, BeginsWithAnotherModelsVariables) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder / "old")).train(training_input, {.max_steps = 10});
  EstimatorOptions options = small_options();
  options.warm_start = WarmStartSettings{.ckpt_to_initialize_from = folder / "old"};
  const BundleReader first = first_checkpoint(options, folder / "new", training_input);
  const BundleReader old(*latest_checkpoint(folder / "old"));
  EXPECT_EQ(bytes_of(first, "logits/kernel"), bytes_of(old, "logits/kernel"));
  EXPECT_NE(bytes_of(first, "logits/kernel/Adam"), bytes_of(old, "logits/kernel/Adam"));
  EXPECT_NE(bytes_of(first, "norm/moving_mean"), bytes_of(old, "norm/moving_mean"));
}

TEST(WarmStart, TakesAModelThatLiesInAStoreAsTheNewOneDoes) {
  if (!MUSTER_HAS_STORES) GTEST_SKIP() << "built without libcurl or pugixml";
  const testing::FakeGcs store;
  ::setenv("STORAGE_EMULATOR_HOST", store.url().c_str(), 1);
  register_stores();
  const Path old_dir = "gs://bucket/old";
  Estimator(small_options(), quiet_config(old_dir)).train(training_input, {.max_steps = 3});
  EstimatorOptions options = small_options();
  options.warm_start = WarmStartSettings{.ckpt_to_initialize_from = old_dir};
  const BundleReader first = first_checkpoint(options, "gs://bucket/new", training_input);
  EXPECT_EQ(bytes_of(first, "logits/kernel"),
            bytes_of(BundleReader(*latest_checkpoint(old_dir)), "logits/kernel"));
  // Notes are added to those that are there.
  const ExportNote note{.global_step = 3, .metrics = {{"loss", 0.5}}, .folder = "17"};
  write_export_note(old_dir, "best", note);
  write_run_note(old_dir, {.began_ns = 1, .ended = true, .global_step = 3});
  EXPECT_TRUE(store.bytes_of("bucket/old/muster.json"));
  EXPECT_EQ(read_export_note(old_dir, "best"), note);
  EXPECT_TRUE(read_run_note(old_dir).has_value());
  EXPECT_EQ(store.orphans(), 0U);
}

TEST(WarmStart, SaysWhichVariableIsMissing) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder / "old")).train(training_input, {.max_steps = 1});
  EstimatorOptions options = small_options();
  options.warm_start =
      WarmStartSettings{.ckpt_to_initialize_from = folder / "old",
                        .var_name_to_prev_var_name = {{"hidden/kernel", "older/kernel"}}};
  EXPECT_THAT(error_of([&] { first_checkpoint(options, folder / "new", training_input); }),
              HasSubstr("has no variable older/kernel"));
}

TEST(WarmStart, NamesAnExpressionThatMatchesNothingAndTheVariables) {
  const TempDir folder;
  Estimator(small_options(), quiet_config(folder / "old")).train(training_input, {.max_steps = 1});
  EstimatorOptions options = small_options();
  options.warm_start = WarmStartSettings{.ckpt_to_initialize_from = folder / "old",
                                         .vars_to_warm_start = {"hiden/.*"}};
  const auto error = error_of([&] { first_checkpoint(options, folder / "new", training_input); });
  EXPECT_THAT(error, HasSubstr("'hiden/.*'"));
  EXPECT_THAT(error, HasSubstr("hidden/kernel"));
}

/// A model with the variables of a training checkpoint that tf.estimator wrote.
struct TensorFlowsCnn : Model {
  TensorFlowsCnn() {
    conv1 = register_module("conv2d", torch::nn::Conv2d(1, 32, 3));
    conv2 = register_module("conv2d_1", torch::nn::Conv2d(32, 64, 3));
    hidden = register_module("dense", std::make_shared<Dense>(64, 512));
    logits = register_module("dense_1", std::make_shared<Dense>(512, 10));
  }
  torch::Tensor forward(const Features& x) override {
    const auto y = torch::relu(conv2->forward(torch::relu(conv1->forward(x.tensor("image")))));
    return logits->forward(torch::relu(hidden->forward(y.flatten(2).mean(2))));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  std::shared_ptr<Dense> hidden, logits;
};

Dataset<Batch> blank_images(const InputContext&) {
  return range(4).batch(4, [](std::span<const std::int64_t>) {
    return make_batch(Features{{"image", torch::zeros({4, 1, 8, 8})}},
                      torch::zeros({4, 1}, torch::kLong));
  });
}

/// Keeps the value of the module's own tensor when the first step begins.
struct KeepKernel : Hook {
  void after_create_session(Session& session) override {
    for (const auto& variable : session.variables()) {
      if (variable.name == "conv2d_1/kernel") kernel = variable.tensor.detach().clone();
    }
  }
  at::Tensor kernel;
};

TEST(WarmStart, TakesATrainingCheckpointOfTensorFlowSlotsIncluded) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  const Path theirs = data / "tensorflow/mnist_checkpoint";
  EstimatorOptions options{.model = [] { return std::make_shared<TensorFlowsCnn>(); },
                           .head = multi_class_head(10),
                           .optimizer = adam({.learning_rate = 1e-4})};
  // Two entries also reach slots.
  options.warm_start =
      WarmStartSettings{.ckpt_to_initialize_from = theirs, .vars_to_warm_start = {".*", ".*/Adam"}};
  const auto keeper = std::make_shared<KeepKernel>();
  const BundleReader ours = first_checkpoint(options, folder.path(), blank_images, {keeper});
  const BundleReader original(*latest_checkpoint(theirs));
  std::size_t compared = 0;
  for (const auto& name : ours.names()) {
    if (name == "global_step") continue;
    EXPECT_EQ(ours.spec(name).shape, original.spec(name).shape) << name;
    EXPECT_EQ(bytes_of(ours, name), bytes_of(original, name)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 8U * 3 + 2) << "8 variables, each with two slots, and Adam's two powers";

  // [3, 3, 32, 64] there is [64, 32, 3, 3] here.
  const std::string bytes = bytes_of(original, "conv2d_1/kernel");
  const auto* values = reinterpret_cast<const float*>(bytes.data());
  ASSERT_EQ(keeper->kernel.sizes(), (std::vector<std::int64_t>{64, 32, 3, 3}));
  for (const auto& [row, column, in, out] :
       std::vector<std::array<std::int64_t, 4>>{{0, 0, 0, 1}, {2, 1, 7, 40}, {1, 2, 31, 63}}) {
    EXPECT_EQ(keeper->kernel[out][in][row][column].item<float>(),
              values[((row * 3 + column) * 32 + in) * 64 + out]);
  }
}

}  // namespace
}  // namespace muster
