// Pictures in folders: a small network learns the classes that the folders are named after.
// docs/guides/pictures.md shows it.
#include <fmt/core.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <string>
#include <utility>
#include <vector>

#include "muster/muster.h"
#include "muster/nn/api.h"

namespace {

constexpr std::int64_t kSide = 48;

struct Flags {
  std::string pictures = "pictures";
  std::string job_dir = "pictures-run";
  std::int64_t steps = 200;
  std::int64_t threads = 0;
};

/// Four convolutions, each of which halves the picture, and the mean of what they see.
struct PictureNet : muster::Model {
  explicit PictureNet(std::int64_t classes) : logits(torch::nn::Linear(64, classes)) {
    register_module("logits", logits);
    const std::vector<std::pair<int, int>> channels = {{3, 16}, {16, 32}, {32, 64}, {64, 64}};
    layers.reserve(channels.size());
    for (const auto& [in, out] : channels) {
      layers.push_back(register_module(
          fmt::format("layer{}", layers.size()),
          torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(2).padding(1))));
    }
  }
  torch::Tensor forward(const muster::Features& features) override {
    torch::Tensor x = features.tensor("image");
    for (auto& layer : layers) x = torch::relu(layer->forward(x));
    return logits->forward(x.mean({2, 3}));
  }
  std::vector<torch::nn::Conv2d> layers;
  torch::nn::Linear logits;
};

muster::Batch batch_of(const std::vector<muster::LabelledImage>& images) {
  return muster::to_batch(muster::normalised_batch(images));
}

muster::InputFn training_input(const muster::ImageFiles& images, std::size_t threads) {
  const muster::RandomResizedCrop crop{.height = kSide, .width = kSide, .min_area = 0.3};
  return [=](const muster::InputContext& in) {
    const auto load = [crop](const muster::ImageFile& file, muster::Random& random) {
      return muster::load_image(file, crop, random);
    };
    return muster::image_files(images)
        .global_shuffle(in.seed())
        .shard(in)
        .repeat()
        .map(load, {.parallelism = threads, .seed = in.seed()})
        .batch(32)
        .map(batch_of)
        .prefetch(2);
  };
}

muster::InputFn evaluation_input(const muster::ImageFiles& images, std::size_t threads) {
  const muster::CenterCrop crop{.height = kSide, .width = kSide, .resize = kSide};
  return [=](const muster::InputContext&) {
    const auto load = [crop](const muster::ImageFile& file) {
      return muster::load_image(file, crop);
    };
    return muster::image_files(images).map(load, {.parallelism = threads}).batch(100).map(batch_of);
  };
}

int run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Learns the classes of pictures in folders.");
  set.add("--pictures", &flags.pictures, "Folder with train/CLASS/ and eval/CLASS/");
  set.add("--job-dir", &flags.job_dir, "Checkpoints go here");
  set.add("--train-steps", &flags.steps, "Train up to this step").positive();
  set.add("--threads", &flags.threads, "That decode; 0: one a processor").not_negative();
  if (!set.parse(argc, argv)) return 0;

  const auto train = muster::image_folder(flags.pictures + "/train");
  const auto eval = muster::image_folder(flags.pictures + "/eval", train.classes);
  const auto classes = static_cast<std::int64_t>(train.classes.size());
  const auto threads = static_cast<std::size_t>(flags.threads);
  muster::Estimator estimator({.model = [classes] { return std::make_shared<PictureNet>(classes); },
                               .head = muster::multi_class_head(classes),
                               .optimizer = muster::adam({.learning_rate = 0.002})},
                              muster::RunConfig::from_env().with_model_dir(flags.job_dir));
  const auto result =
      muster::train_and_evaluate(estimator, {training_input(train, threads), flags.steps},
                                 {.input_fn = evaluation_input(eval, threads)});
  for (const auto& [name, value] : result.metrics) fmt::print("{} = {:.4g}\n", name, value);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
