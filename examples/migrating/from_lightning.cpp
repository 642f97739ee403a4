// An autoencoder of handwritten digits, as a LightningModule. docs/guides/from_lightning.md has
// both sides.
#include <fmt/core.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/muster.h"
#include "muster/nn/api.h"

using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::Sequential;

constexpr std::int64_t kBatch = 32;

struct AutoEncoder : muster::Model {
  // forward() of the LightningModule: what predictions are.
  torch::Tensor forward(const muster::Features& x) override {
    return encoder->forward(x.tensor("image"));
  }

  // training_step(), validation_step() and predict_step().
  muster::EstimatorSpec call(const muster::Batch& batch, muster::Mode mode,
                             const muster::Head* /*head*/) override {
    muster::EstimatorSpec spec{.mode = mode};
    const auto code = forward(batch.features);
    if (mode == muster::Mode::kPredict) {
      spec.predictions = {{"code", code}};
      return spec;
    }
    const torch::Tensor& image = batch.features.tensor("image");
    const auto decoded = decoder->forward(code);
    spec.loss = torch::nn::functional::mse_loss(decoded, image);
    if (mode == muster::Mode::kEval) {
      spec.metrics.add("mae", muster::Mean()).update((decoded - image).abs());
    } else {
      spec.summaries.scalars.emplace_back("code_norm", code.norm(2, 1).mean());
    }
    return spec;
  }

  // It draws no random numbers, so replicas need not take turns.
  bool draws_from_libtorch() const override { return false; }

  Sequential encoder =
      register_module("encoder", Sequential(Linear(784, 64), ReLU(), Linear(64, 3)));
  Sequential decoder =
      register_module("decoder", Sequential(Linear(3, 64), ReLU(), Linear(64, 784)));
};

// The DataModule. A feature that is not named is not parsed.
muster::InputFn images(const std::string& file) {
  const auto parse =
      muster::parse_examples({{"image", muster::FixedLen{muster::FeatureKind::kFloat, {784}}}});
  return [=](const muster::InputContext& in) {
    auto records = muster::tfrecords({file});
    if (in.mode() == muster::Mode::kTrain) {
      records = records.global_shuffle(in.seed()).shard(in).repeat();
    }
    return records.batch(kBatch, parse).prefetch(2);
  };
}

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    const std::string train = "records/train.tfrecords";
    const auto epoch =
        static_cast<std::int64_t>(muster::tfrecords({train}).size().value()) / kBatch;
    const std::int64_t steps = 5 * epoch;

    auto config = muster::RunConfig::from_env().with_model_dir("lightning_digits");
    config.reproducibility.tf_random_seed = 1;          // seed_everything(1)
    config.checkpoints.save_checkpoints_steps = epoch;  // ModelCheckpoint
    config.log_step_count_steps = 50;                   // log_every_n_steps

    // configure_optimizers() and gradient_clip_val.
    const auto rate = muster::cosine({.initial = 0.001, .decay_steps = steps});
    muster::Estimator estimator({.model = [] { return std::make_shared<AutoEncoder>(); },
                                 .optimizer = muster::adamw({.learning_rate = rate}),
                                 .clip = {.global_norm = 1.0}},
                                config);

    // Trainer.fit() with EarlyStopping(monitor="val_loss", patience=2) and the best checkpoint.
    const auto early_stopping =
        muster::stop_if_no_decrease("loss", 2 * epoch, {.period = {.run_every_steps = epoch}});
    const auto result = muster::train_and_evaluate(
        estimator, {.input_fn = images(train), .max_steps = steps, .hooks = {early_stopping}},
        {.input_fn = images("records/validation.tfrecords"),
         .steps = {},
         .exporters = {muster::best_checkpoint_keeper()},
         .every_steps = epoch});
    for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);

    // Trainer.predict(ckpt_path="best").
    auto codes =
        estimator.predict(images("records/eval.tfrecords"),
                          {.checkpoint_path = *muster::best_checkpoint("lightning_digits")});
    const auto first = codes.next();
    fmt::print("codes have {} numbers\n", first->tensor("code").numel());
    return 0;
  });
}
