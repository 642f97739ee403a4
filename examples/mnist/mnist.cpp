// Handwritten digits: a convolutional network over TFRecord files, trained, evaluated, exported and
// predicted with. README.md shows how to make the files and what to expect.
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/muster.h"
#include "muster/nn/api.h"
#include "muster/platform/api.h"

namespace {

using muster::Batch;
using muster::Dataset;
using muster::Features;
using muster::Mode;
using muster::Path;

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kPixels = kSide * kSide;
constexpr std::int64_t kClasses = 10;

struct Flags {
  std::vector<std::string> train_files, eval_files, test_files;
  /// All flags, for TensorBoard's HPARAMS.
  std::map<std::string, std::string> hparams;
  double num_epochs = 0;
  std::int64_t train_steps = 0;
  std::size_t train_batch_size = 32;
  std::size_t eval_batch_size = 32;
  double learning_rate = 0.001;
  std::string schedule = "constant";
  double keep_prob = 0.5;
  double ema = 0;
  bool zero_debias = false;
  std::string export_path;
  std::string predictions;
  bool augment = false;
  bool flips = false;
  std::int64_t throttle_secs = 30;
  std::int64_t save_checkpoints_steps = 0;
  muster::RunFlags run{};
};

// ------------------------------------------------------------------------------------- the model

/// Two blocks of convolution, batch norm, ReLU and pooling, then two dense layers.
class MnistCnn : public muster::Model, public muster::SeededModule {
 public:
  explicit MnistCnn(double keep_prob) {
    conv1_ = register_module("conv1", convolution(1, 32));
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(norm2d(32)));
    conv2_ = register_module("conv2", convolution(32, 64));
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(norm2d(64)));
    dense_ = register_module("dense",
                             std::make_shared<muster::Dense>(kSide / 4 * (kSide / 4) * 64, 1024));
    norm3_ = register_module("norm3", torch::nn::BatchNorm1d(norm2d(1024)));
    dropout_ = register_module("dropout", std::make_shared<muster::Dropout>(1 - keep_prob));
    logits_ = register_module("logits", std::make_shared<muster::Dense>(1024, kClasses));
  }

  torch::Tensor forward(const Features& x) override {
    auto y = x.tensor("image").view({-1, 1, kSide, kSide});
    y = torch::max_pool2d(torch::relu(norm1_->forward(conv1_->forward(y))), 2);
    y = torch::max_pool2d(torch::relu(norm2_->forward(conv2_->forward(y))), 2);
    // Channels last, as TensorFlow flattens them, so that its dense kernels fit.
    y = y.permute({0, 2, 3, 1}).flatten(1);
    y = dropout_->forward(torch::relu(norm3_->forward(dense_->forward(y))));
    return logits_->forward(y);
  }

  muster::EstimatorSpec call(const Batch& batch, Mode mode, const muster::Head* head) override {
    auto spec = Model::call(batch, mode, head);
    spec.summaries.images.emplace_back("input",
                                       batch.features.tensor("image").view({-1, kSide, kSide, 1}));
    if (mode == Mode::kEval) {
      spec.metrics.insert("val_accuracy", spec.metrics.at("accuracy").clone());
    }
    return spec;
  }

  // Convolutions are libtorch's, which would draw their first weights by another rule.
  void seed_from(std::uint64_t seed, const std::string& /*name*/) override {
    const auto glorot = muster::glorot_uniform(muster::KernelLayout::kOutIn);
    const torch::NoGradGuard no_grad;
    glorot(conv1_->weight, muster::derive_key(seed, "conv1.kernel"));
    glorot(conv2_->weight, muster::derive_key(seed, "conv2.kernel"));
    conv1_->bias.zero_();
    conv2_->bias.zero_();
  }

  // Dropout is muster's own, so replicas need not take turns.
  bool draws_from_libtorch() const override { return false; }

 private:
  static torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
  }
  // The constants of tf.layers.batch_normalization; libtorch's momentum is 1 - TensorFlow's.
  static torch::nn::BatchNormOptions norm2d(std::int64_t channels) {
    return torch::nn::BatchNormOptions(channels).eps(1e-3).momentum(0.01);
  }

  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr};
  torch::nn::BatchNorm1d norm3_{nullptr};
  std::shared_ptr<muster::Dense> dense_, logits_;
  std::shared_ptr<muster::Dropout> dropout_;
};

// ------------------------------------------------------------------------------------- the input

/// Features of an Example: `image` [784], and `label`, which files to predict over need not have.
muster::FeatureSpecs specs_of(Mode mode) {
  muster::FixedLen label{muster::FeatureKind::kInt64, {1}};
  if (mode == Mode::kPredict) label.default_value = std::vector<std::int64_t>{-1};
  return {{"image", muster::FixedLen{muster::FeatureKind::kFloat, {kPixels}}},
          {muster::kLabel, std::move(label)}};
}

// Turns the picture around its middle, with the pixels between four others as their weighted mean.
void rotate(std::span<float> image, double radians) {
  const std::vector<float> source(image.begin(), image.end());
  const double middle = (kSide - 1) / 2.0;
  const double sine = std::sin(radians);
  const double cosine = std::cos(radians);
  const auto pixel = [&source](std::int64_t row, std::int64_t column) {
    const bool inside = row >= 0 && row < kSide && column >= 0 && column < kSide;
    return inside ? static_cast<double>(source[static_cast<std::size_t>(row * kSide + column)])
                  : 0.0;
  };
  for (std::int64_t row = 0; row < kSide; ++row) {
    for (std::int64_t column = 0; column < kSide; ++column) {
      const double dy = static_cast<double>(row) - middle;
      const double dx = static_cast<double>(column) - middle;
      const double y = middle + cosine * dy - sine * dx;
      const double x = middle + sine * dy + cosine * dx;
      const auto top = static_cast<std::int64_t>(std::floor(y));
      const auto left = static_cast<std::int64_t>(std::floor(x));
      const double down = y - static_cast<double>(top);
      const double right = x - static_cast<double>(left);
      image[static_cast<std::size_t>(row * kSide + column)] = static_cast<float>(
          (1 - down) * ((1 - right) * pixel(top, left) + right * pixel(top, left + 1)) +
          down * ((1 - right) * pixel(top + 1, left) + right * pixel(top + 1, left + 1)));
    }
  }
}

void flip(std::span<float> image, muster::Random& random) {
  // Half a turn, which with a mirror is the picture upside down.
  if (random.coin()) std::reverse(image.begin(), image.end());
  if (!random.coin()) return;
  for (std::int64_t row = 0; row < kSide; ++row) {
    const auto begin = image.begin() + row * kSide;
    std::reverse(begin, begin + kSide);
  }
}

/// For each picture its own coins: half of them turned by up to 0.2 radians, half with noise. Flips
/// have a flag of their own: a digit in a mirror is another sign, or none.
struct Augmenter {
  bool flips = false;

  Batch operator()(Batch batch, muster::Random& random) const {
    const at::Tensor& images = batch.features.tensor("image");
    const std::span<float> all(images.data_ptr<float>(), static_cast<std::size_t>(images.numel()));
    for (std::size_t at = 0; at < all.size(); at += kPixels) {
      const auto image = all.subspan(at, kPixels);
      if (random.coin()) rotate(image, random.uniform(-0.2, 0.2));
      if (random.coin()) {
        for (float& value : image) {
          value = std::clamp(value + static_cast<float>(0.2 * random.normal()), 0.0F, 1.0F);
        }
      }
      if (flips) flip(image, random);
    }
    return batch;
  }
};

bool all_have_an_index(const std::vector<Path>& files) {
  return std::all_of(files.begin(), files.end(),
                     [](const Path& file) { return muster::TFRecordSource(file).random_access(); });
}

std::uint64_t count_records(const std::vector<Path>& files) {
  const auto records = muster::tfrecords(files);
  if (const auto known = records.size()) return *known;
  std::uint64_t count = 0;
  for (auto reader = records.iterate(); reader->next();) ++count;
  return count;
}

muster::InputFn training_input(const std::vector<Path>& files, const Flags& flags) {
  constexpr std::size_t kShuffleWindow = 10'000;
  const bool indexed = all_have_an_index(files);
  if (!indexed) {
    muster::log::info(
        "no index beside all training files, so they are shuffled within windows of {}",
        kShuffleWindow);
  }
  return [=](const muster::InputContext& in) {
    auto records = muster::tfrecords(files);
    records =
        indexed ? records.global_shuffle(in.seed()) : records.shuffle(kShuffleWindow, in.seed());
    auto batches = records.shard(in).repeat().batch(flags.train_batch_size,
                                                    muster::parse_examples(specs_of(in.mode())));
    if (flags.augment) batches = batches.map(Augmenter{flags.flips}, {.seed = in.seed()});
    return batches.prefetch(2);
  };
}

muster::InputFn input_in_order(const std::vector<Path>& files, std::size_t batch_size) {
  return [=](const muster::InputContext& in) {
    return muster::tfrecords(files)
        .batch(batch_size, muster::parse_examples(specs_of(in.mode())))
        .prefetch(2);
  };
}

// --------------------------------------------------------------------------------------- the run

muster::LearningRate learning_rate(const Flags& flags, std::int64_t max_steps) {
  if (flags.schedule == "cosine") {
    return muster::cosine({.initial = flags.learning_rate, .decay_steps = max_steps});
  }
  return flags.learning_rate;
}

muster::EstimatorOptions estimator_options(const Flags& flags, std::int64_t max_steps) {
  muster::EstimatorOptions options{
      .model = [keep = flags.keep_prob] { return std::make_shared<MnistCnn>(keep); },
      .head = muster::multi_class_head(kClasses),
      .optimizer = muster::adam({.learning_rate = learning_rate(flags, max_steps)}),
      .zero_debias_batch_norm = flags.zero_debias};
  if (flags.ema > 0) options.moving_average = muster::MovingAverageOptions{.decay = flags.ema};
  return options;
}

muster::RunConfig run_config(const Flags& flags) {
  auto config = muster::run_config(flags.run);
  // Part of the arithmetic, but not visible in model and optimizers.
  config.cluster.terms = {{"--train-batch-size", std::to_string(flags.train_batch_size)},
                          {"--augment", flags.augment ? "true" : "false"},
                          {"--flips", flags.flips ? "true" : "false"}};
  config.hparams = flags.hparams;
  return config;
}

// A server hands in `image`, [n, 784] float. The two rows tell so; what they show does not matter.
muster::ServingInput serving_input() {
  return muster::raw_serving_input(
      {{"image", torch::linspace(0, 1, 2 * kPixels).view({2, kPixels})}});
}

std::vector<std::shared_ptr<muster::Exporter>> exporters(const Flags& flags) {
  if (!flags.export_path.empty()) return {};  // Exported there, when all is done.
  return {muster::final_exporter("mnist", serving_input())};
}

// A line of JSON for each picture.
std::string lines_of(const Features& predictions) {
  std::string lines;
  const auto classes = predictions.tensor("class_ids").contiguous();
  const auto probabilities = predictions.tensor("probabilities").contiguous();
  for (std::int64_t row = 0; row < predictions.batch_size(); ++row) {
    const float* first = probabilities.data_ptr<float>() + row * kClasses;
    lines += fmt::format("{{\"class_id\": {}, \"probabilities\": [{:.9g}]}}\n",
                         classes.data_ptr<std::int64_t>()[row],
                         fmt::join(first, first + kClasses, ", "));
  }
  return lines;
}

// Predictions and labels come from two passes over the same files, in the same order.
void predict(muster::Estimator& estimator, const muster::InputFn& input,
             const std::string& lines_file) {
  auto predictions = estimator.predict(
      input, {.predict_keys = {"class_ids", "probabilities"}, .yield_single_examples = false});
  std::optional<muster::AtomicFile> lines;
  if (!lines_file.empty()) lines.emplace(lines_file);
  const auto batches = input(muster::InputContext(Mode::kPredict, 1, 0, 0)).iterate();
  std::int64_t count = 0;
  std::int64_t labelled = 0;
  std::int64_t right = 0;
  while (const auto row = predictions.next()) {
    const auto labels = batches->next()->labels.tensor(muster::kLabel);
    count += row->batch_size();
    labelled += labels.ge(0).sum().item<std::int64_t>();
    right += labels.eq(row->tensor("class_ids")).sum().item<std::int64_t>();
    if (lines) lines->write(lines_of(*row));
  }
  if (lines) lines->commit();
  fmt::print("predicted {} images", count);
  if (labelled > 0) {
    fmt::print(", {} of {} labelled ones right: {:.2f} %", right, labelled,
               100.0 * static_cast<double>(right) / static_cast<double>(labelled));
  }
  fmt::print("\n");
}

int run(const Flags& flags) {
  const auto train_files = muster::files_of(flags.train_files, "--train-files");
  const auto eval_files = muster::files_of(flags.eval_files, "--eval-files");
  const auto test_files = muster::files_of(flags.test_files, "--test-files");
  const auto images = static_cast<double>(count_records(train_files));
  auto config = run_config(flags);
  const auto step_images = static_cast<double>(flags.train_batch_size) * config.batches_per_step();
  const auto epoch_steps = static_cast<std::int64_t>(std::max(1.0, images / step_images));
  const std::int64_t save_steps = flags.save_checkpoints_steps;
  if (save_steps > 0 || !config.checkpoints.save_checkpoints_secs) {
    config.checkpoints.save_checkpoints_steps = save_steps > 0 ? save_steps : epoch_steps;
  }
  const std::int64_t max_steps =
      flags.train_steps > 0
          ? flags.train_steps
          : std::max<std::int64_t>(1, std::llround(flags.num_epochs * images / step_images));

  muster::Estimator estimator(estimator_options(flags, max_steps), std::move(config));
  const auto result = muster::train_and_evaluate(
      estimator, {.input_fn = training_input(train_files, flags), .max_steps = max_steps},
      {.input_fn = input_in_order(eval_files, flags.eval_batch_size),
       .steps = {},
       .exporters = exporters(flags),
       .throttle_secs = std::chrono::seconds(flags.throttle_secs)});
  // In a cluster, the task that evaluates does the rest as well.
  if (result.metrics.empty()) return EXIT_SUCCESS;
  for (const auto& [name, value] : result.metrics) fmt::print("{} = {:g}\n", name, value);
  if (!flags.export_path.empty()) {
    muster::export_saved_model(estimator, flags.export_path, serving_input());
  }
  predict(estimator, input_in_order(test_files, flags.eval_batch_size), flags.predictions);
  return EXIT_SUCCESS;
}

// ------------------------------------------------------------------------------------- the flags

void add_data_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--train-files", &flags.train_files, "TFRecord files or patterns").required();
  set.add("--eval-files", &flags.eval_files, "TFRecord files or patterns").required();
  set.add("--test-files", &flags.test_files, "TFRecord files or patterns").required();
  set.add("--export-path", &flags.export_path,
          "The SavedModel goes to a numbered folder here, not to JOB_DIR/export/mnist");
  set.add("--predictions", &flags.predictions,
          "Write what is predicted of the test files here, a line of JSON an image");
  set.add("--augment", &flags.augment, "Turn pictures a little and add noise");
  set.add("--flips", &flags.flips, "With --augment: also mirror pictures");
}

void add_training_flags(muster::FlagSet& set, Flags& flags) {
  set.add("--num-epochs", &flags.num_epochs, "Passes over the training files").positive();
  set.add("--train-steps", &flags.train_steps,
          "Train up to this global step; wins over --num-epochs")
      .positive();
  set.add("--train-batch-size", &flags.train_batch_size, "Images of a step, of each replica")
      .positive();
  set.add("--eval-batch-size", &flags.eval_batch_size, "Images evaluated at a time").positive();
  set.add("--learning-rate", &flags.learning_rate, "Of Adam").positive();
  set.add("--schedule", &flags.schedule, "Of the learning rate").one_of({"constant", "cosine"});
  set.add("--keep-prob", &flags.keep_prob, "The part of values that dropout keeps")
      .between(0.01, 1.0);
  set.add("--ema", &flags.ema, "Evaluate moving averages of this decay; 0 for none")
      .between(0.0, 1.0);
  set.add("--zero-debias", &flags.zero_debias,
          "Keep what batch norm's moving averages begin with out of them, so that early "
          "evaluations are as good as the training");
}

void add_run_flags(muster::FlagSet& set, Flags& flags) {
  muster::add_run_flags(set, flags.run);
  set.add("--save-checkpoints-steps", &flags.save_checkpoints_steps, "0: once an epoch")
      .not_negative();
  set.add("--throttle-secs", &flags.throttle_secs, "Evaluate at most this often").not_negative();
}

int parse_and_run(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Trains a convolutional network on MNIST.");
  add_data_flags(set, flags);
  add_training_flags(set, flags);
  add_run_flags(set, flags);
  if (!set.parse(argc, argv)) return EXIT_SUCCESS;
  flags.hparams = set.hparams();
  if (flags.train_steps == 0 && flags.num_epochs == 0) {
    throw muster::UsageError("give --num-epochs or --train-steps");
  }
  return run(flags);
}

}  // namespace

int main(int argc, char** argv) {
  muster::register_stores();
  return muster::run_main(argc, argv, parse_and_run);
}
