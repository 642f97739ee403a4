#include "muster/estimator/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <string>

#include "muster/base/error.h"
#include "muster/checkpoint/bundle_reader.h"
#include "muster/estimator/small_net_internal.h"
#include "muster/records/idx.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

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
                              const InputFn& input) {
  RunConfig config = quiet_config(folder);
  config.keep_checkpoint_max = 0;
  Estimator(options, config).train(input, {.max_steps = 1});
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

/// The model whose training checkpoint tf.estimator wrote.
struct TensorFlowsCnn : Model {
  TensorFlowsCnn() {
    const auto convolution = [](std::int64_t in, std::int64_t out) {
      return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(2));
    };
    conv1 = register_module("conv2d", convolution(1, 32));
    conv2 = register_module("conv2d_1", convolution(32, 64));
    hidden = register_module("dense", std::make_shared<Dense>(7 * 7 * 64, 1024));
    dropout = register_module("dropout", std::make_shared<Dropout>(0.4));
    logits = register_module("dense_1", std::make_shared<Dense>(1024, 10));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = x.tensor("image").view({-1, 1, 28, 28});
    y = torch::max_pool2d(torch::relu(conv1->forward(y)), 2);
    y = torch::max_pool2d(torch::relu(conv2->forward(y)), 2);
    y = torch::relu(hidden->forward(y.permute({0, 2, 3, 1}).flatten(1)));
    return logits->forward(dropout->forward(y));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  std::shared_ptr<Dense> hidden, logits;
  std::shared_ptr<Dropout> dropout;
};

// The first pictures of MNIST's test set.
InputFn mnist_input(const Path& data, std::int64_t count) {
  const auto images = read_idx(data / "mnist/t10k-images-idx3-ubyte.gz");
  const auto labels = read_idx(data / "mnist/t10k-labels-idx1-ubyte.gz");
  std::vector<float> pixels;
  std::vector<std::int64_t> digits;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    for (const char c : images.item(i)) {
      pixels.push_back(static_cast<float>(static_cast<unsigned char>(c)) / 255.0F);
    }
    digits.push_back(static_cast<unsigned char>(labels.data[i]));
  }
  const Batch all = make_batch(Features{{"image", tensor_of(std::move(pixels), {count, 784})}},
                               tensor_of(std::move(digits), {count, 1}));
  return [all](const InputContext&) {
    return range(static_cast<std::uint64_t>(all.size()))
        .batch(100, [all](std::span<const std::int64_t> rows) {
          return all.slice(rows.front(), rows.back() + 1);
        });
  };
}

TEST(WarmStart, TakesATrainingCheckpointOfTensorFlowSlotsIncluded) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  const Path theirs = data / "tensorflow/mnist_checkpoint";
  EstimatorOptions options{.model = [] { return std::make_shared<TensorFlowsCnn>(); },
                           .head = multi_class_head(10),
                           .optimizers = {{"", adam({.learning_rate = 1e-4})}}};
  // Two entries also reach slots.
  options.warm_start =
      WarmStartSettings{.ckpt_to_initialize_from = theirs, .vars_to_warm_start = {".*", ".*/Adam"}};
  const InputFn input = mnist_input(data, 500);
  const BundleReader ours = first_checkpoint(options, folder.path(), input);
  const BundleReader original(*latest_checkpoint(theirs));
  std::size_t compared = 0;
  for (const auto& name : ours.names()) {
    if (name == "global_step") continue;
    EXPECT_EQ(ours.spec(name).shape, original.spec(name).shape) << name;
    EXPECT_EQ(bytes_of(ours, name), bytes_of(original, name)) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 8 * 3 + 2) << "8 variables, each with two slots, and Adam's two powers";

  // Only right layouts let the pictures be read as they were by TensorFlow.
  Estimator estimator(options, quiet_config(folder.path()));
  const auto result = estimator.evaluate(input, {.checkpoint_path = folder / "model.ckpt-0"});
  EXPECT_GT(result.at("accuracy"), 0.985);
}

}  // namespace
}  // namespace muster
