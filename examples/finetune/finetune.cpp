// Fine-tuning: ResNet-18 by its name, with weights of a file, learns handwritten digits.
// docs/guides/zoo.md shows it.
#include <fmt/core.h>

#include <string>

#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/nn/zoo.h"

namespace {

struct Flags {
  std::string records = "records";
  std::string job_dir = "finetuned";
  std::string weights;
  std::string save;
  std::int64_t steps = 100;
};

std::shared_ptr<muster::zoo::Network> resnet18() {
  // The records have floats from 0 to 1.
  auto pixels = muster::zoo::imagenet_pixels();
  pixels.scale = 1;
  return muster::zoo::make("resnet18", {.num_classes = 10, .image = pixels});
}

/// Digits as images of three channels, which published weights are for.
muster::InputFn digits(const std::string& file) {
  const auto parse =
      muster::parse_examples({{"image", muster::FixedLen{muster::FeatureKind::kFloat, {28, 28, 1}}},
                              {"label", muster::FixedLen{muster::FeatureKind::kInt64, {1}}}});
  const auto colour = [parse](std::span<const muster::Record> records) {
    muster::Batch batch = parse(records);
    batch.features.set("image", batch.features.tensor("image").expand({-1, -1, -1, 3}));
    return batch;
  };
  return [file, colour](const muster::InputContext& in) {
    auto records = muster::tfrecords({file}).shard(in);
    if (in.mode() == muster::Mode::kTrain) records = records.shuffle(5000, in.seed()).repeat();
    return records.batch(32, colour);
  };
}

int run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Fine-tunes ResNet-18 on handwritten digits.");
  set.add("--records", &flags.records, "Folder with the digits' records");
  set.add("--job-dir", &flags.job_dir, "Checkpoints go here");
  set.add("--weights", &flags.weights, "Weights to begin with, except for the last layer");
  set.add("--save", &flags.save, "Writes the weights that were trained to this file");
  set.add("--train-steps", &flags.steps, "Train up to this step").positive();
  if (!set.parse(argc, argv)) return 0;

  const auto model = [&flags] {
    auto network = resnet18();
    if (!flags.weights.empty()) {
      muster::zoo::load_published_weights(*network, flags.weights, {.keep = {"fc\\..*"}});
    }
    return network;
  };
  muster::Estimator estimator(
      {.model = model,
       .head = muster::multi_class_head(10),
       .optimizer = muster::momentum({.learning_rate = 0.01, .momentum = 0.9})},
      muster::RunConfig::from_env().with_model_dir(flags.job_dir));
  const auto result = muster::train_and_evaluate(
      estimator, {digits(flags.records + "/train.tfrecords"), flags.steps},
      {.input_fn = digits(flags.records + "/eval.tfrecords")});
  for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);
  if (!flags.save.empty()) {
    const auto trained = resnet18();
    // A checkpoint has the optimizer's slots too.
    muster::load_weights(*trained, flags.job_dir, {.strict = false});
    muster::save_weights(*trained, flags.save);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
