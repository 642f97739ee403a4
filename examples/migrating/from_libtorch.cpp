// A convolutional network that was trained by a loop of its own over libtorch.
// docs/guides/from_libtorch.md has both sides.
#include <fmt/core.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/muster.h"
#include "muster/nn/api.h"

// The module, as it was; its last log_softmax is now a part of the head.
struct Net : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop->forward(conv2->forward(x)), 2));
    x = torch::relu(fc1->forward(x.view({-1, 320})));
    x = torch::dropout(x, 0.5, is_training());
    return fc2->forward(x);
  }
  torch::nn::Conv2d conv1{register_module("conv1", torch::nn::Conv2d(1, 10, 5))};
  torch::nn::Conv2d conv2{register_module("conv2", torch::nn::Conv2d(10, 20, 5))};
  torch::nn::Dropout2d conv2_drop{register_module("conv2_drop", torch::nn::Dropout2d())};
  torch::nn::Linear fc1{register_module("fc1", torch::nn::Linear(320, 50))};
  torch::nn::Linear fc2{register_module("fc2", torch::nn::Linear(50, 10))};
};

std::shared_ptr<muster::Model> model() {
  auto net = std::make_shared<Net>();
  return muster::model_from(net, [net](const muster::Features& x) {
    return net->forward((x.tensor("image") - 0.1307) / 0.3081);
  });
}

muster::InputFn digits(const std::string& file, std::size_t batch_size) {
  const auto parse =
      muster::parse_examples({{"image", muster::FixedLen{muster::FeatureKind::kFloat, {1, 28, 28}}},
                              {"label", muster::FixedLen{muster::FeatureKind::kInt64, {1}}}});
  return [=](const muster::InputContext& in) {
    auto records = muster::tfrecords({file});
    if (in.mode() == muster::Mode::kTrain) {
      records = records.global_shuffle(in.seed()).shard(in).repeat();
    }
    return records.batch(batch_size, parse).prefetch(2);
  };
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    auto config = muster::RunConfig::from_env().with_model_dir("libtorch_digits");
    config.checkpoints.save_checkpoints_steps = 75;
    config.reproducibility.tf_random_seed = 1;
    muster::Estimator estimator(
        {.model = model,
         .head = muster::multi_class_head(10),
         .optimizer = muster::momentum({.learning_rate = 0.01, .momentum = 0.5})},
        config);
    const auto result = muster::train_and_evaluate(
        estimator, {.input_fn = digits("records/train.tfrecords", 64), .max_steps = 150},
        {.input_fn = digits("records/eval.tfrecords", 1000), .steps = {}, .every_steps = 75});
    fmt::print("test loss {:.4f}, accuracy {:.3f}\n", result.metrics.at("average_loss"),
               result.metrics.at("accuracy"));
    return 0;
  });
}
