// The program of README.md: handwritten digits, from records to a model that is exported.
#include <fmt/core.h>
#include <torch/nn/modules/linear.h>

#include "muster/muster.h"
#include "muster/nn/api.h"

struct DigitNet : muster::Model {
  torch::Tensor forward(const muster::Features& x) override {
    return logits->forward(torch::relu(hidden->forward(x.tensor("image"))));
  }
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(784, 128))};
  torch::nn::Linear logits{register_module("logits", torch::nn::Linear(128, 10))};
};

muster::InputFn digits(const std::string& file) {
  return [file](const muster::InputContext& in) {
    auto records = muster::tfrecords({file}).shard(in);
    if (in.mode() == muster::Mode::kTrain) records = records.shuffle(5000, in.seed()).repeat();
    const muster::FeatureSpecs specs{
        {"image", muster::FixedLen{muster::FeatureKind::kFloat, {784}}},
        {"label", muster::FixedLen{muster::FeatureKind::kInt64, {1}}}};
    return records.batch(100, muster::parse_examples(specs));
  };
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    muster::Estimator estimator({.model = [] { return std::make_shared<DigitNet>(); },
                                 .head = muster::multi_class_head(10),
                                 .optimizer = muster::adam({.learning_rate = 0.001})},
                                muster::RunConfig::from_env().with_model_dir("digits"));
    const auto request = muster::raw_serving_input({{"image", torch::rand({2, 784})}});
    const auto result = muster::train_and_evaluate(
        estimator, {digits("records/train.tfrecords"), /*max_steps=*/500},
        {.input_fn = digits("records/eval.tfrecords"),
         .exporters = {muster::final_exporter("digits", request)}});
    for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);
    return 0;
  });
}
