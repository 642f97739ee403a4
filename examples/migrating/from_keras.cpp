// Handwritten digits, as a Keras program trains them. docs/guides/from_keras.md has both sides.
#include <fmt/core.h>
#include <torch/types.h>

#include "muster/muster.h"
#include "muster/nn/api.h"

constexpr std::int64_t kBatch = 32;

struct DigitNet : muster::Model {
  torch::Tensor forward(const muster::Features& x) override {
    const auto y = torch::relu(hidden->forward(x.tensor("image")));
    return logits->forward(dropout->forward(y));
  }
  // Its random numbers are muster's, so replicas need not take turns.
  bool draws_from_libtorch() const override { return false; }

  std::shared_ptr<muster::Dense> hidden =
      register_module("hidden", std::make_shared<muster::Dense>(784, 128));
  std::shared_ptr<muster::Dropout> dropout =
      register_module("dropout", std::make_shared<muster::Dropout>(0.2));
  std::shared_ptr<muster::Dense> logits =
      register_module("logits", std::make_shared<muster::Dense>(128, 10));
};

muster::InputFn digits(const std::string& file) {
  const auto parse =
      muster::parse_examples({{"image", muster::FixedLen{muster::FeatureKind::kFloat, {784}}},
                              {"label", muster::FixedLen{muster::FeatureKind::kInt64, {1}}}});
  return [=](const muster::InputContext& in) {
    auto records = muster::tfrecords({file});
    if (in.mode() == muster::Mode::kTrain) {
      records = records.global_shuffle(in.seed()).shard(in).repeat();
    }
    return records.batch(kBatch, parse);
  };
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    // Runs are counted in steps: an epoch is as many as the records fill.
    const std::string train = "records/train.tfrecords";
    const auto epoch =
        static_cast<std::int64_t>(muster::tfrecords({train}).size().value()) / kBatch;

    auto config = muster::RunConfig::from_env().with_model_dir("keras_digits");
    config.checkpoints.save_checkpoints_steps = epoch;
    config.reproducibility.tf_random_seed = 1;
    muster::Estimator estimator(
        {.model = [] { return std::make_shared<DigitNet>(); },
         .head = muster::multi_class_head(10),
         .optimizer = muster::adam({.learning_rate = 0.001, .epsilon = 1e-7})},
        config);

    const auto early_stopping = muster::stop_if_no_decrease("average_loss", 2 * epoch,
                                                            {.period = {.run_every_steps = epoch}});
    const auto request = muster::raw_serving_input({{"image", torch::rand({2, 784})}});
    const auto result = muster::train_and_evaluate(
        estimator, {.input_fn = digits(train), .max_steps = 5 * epoch, .hooks = {early_stopping}},
        {.input_fn = digits("records/validation.tfrecords"),
         .steps = {},
         .exporters = {muster::best_checkpoint_keeper({.metric = "average_loss"}),
                       muster::final_exporter("digits", request)},
         .every_steps = epoch});
    fmt::print("validation accuracy {:.3f} after {:.0f} steps\n", result.metrics.at("accuracy"),
               result.metrics.at("global_step"));

    const auto test = estimator.evaluate(
        digits("records/eval.tfrecords"),
        {.checkpoint_path = *muster::best_checkpoint(estimator.model_dir()), .name = "test"});
    fmt::print("test accuracy {:.3f}\n", test.at("accuracy"));
    return 0;
  });
}
