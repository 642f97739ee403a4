#include <fmt/core.h>

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/cli/command.h"
#include "muster/cli/records.h"
#include "muster/data/images/image_encoder.h"
#include "muster/data/images/resize.h"
#include "muster/data/records/cifar10.h"
#include "muster/data/records/synthetic_census.h"
#include "muster/data/records/synthetic_images.h"
#include "muster/data/records/synthetic_reviews.h"

namespace muster::cli {
namespace {

struct RecordsSynthOptions {
  std::string output;
  std::uint64_t train = 0;
  std::uint64_t test = 0;
  std::uint64_t seed = 1;
};

std::shared_ptr<RecordsSynthOptions> add_flags(CLI::App& command, std::uint64_t train,
                                               std::uint64_t test) {
  const auto options = std::make_shared<RecordsSynthOptions>();
  options->train = train;
  options->test = test;
  const CLI::Range range(std::uint64_t{1}, std::uint64_t{100'000'000});
  command.add_option("--output", options->output, "Folder for the files; made if missing")
      ->required();
  command.add_option("--train", options->train, "Training rows")
      ->check(range)
      ->capture_default_str();
  command.add_option("--test", options->test, "Test rows")->check(range)->capture_default_str();
  command.add_option("--seed", options->seed, "The same seed gives the same bytes everywhere")
      ->capture_default_str();
  return options;
}

void write(const RecordsSynthOptions& options, const std::string& name, std::string_view bytes) {
  const Path folder = options.output;
  file_system_for(folder).create_directories(folder);
  write_file_atomically(folder / name, bytes, /*durable=*/false);
}

// Training and test rows come from different streams: neither changes when the other grows.
std::uint64_t test_seed(const RecordsSynthOptions& options) { return derive_key(options.seed, 1); }

void synth_census(const RecordsSynthOptions& options) {
  const auto files = write_synthetic_census(
      options.output, {.train = options.train, .test = options.test, .seed = options.seed});
  for (const SyntheticCensusFile& file : {files.train, files.test}) {
    fmt::print("{}: {} rows, best possible AUC {:.4f}\n", file.path.string(), file.rows,
               file.best_auc);
  }
}

void report(const RecordsSynthOptions& options, const std::string& what,
            const SyntheticImages& images) {
  fmt::print("{}: {} {} images, best possible accuracy {:.4f}\n", options.output, images.size(),
             what, images.best_accuracy());
}

// In the layout of the binary version, training images spread over its five batches.
void synth_cifar10(const RecordsSynthOptions& options) {
  constexpr std::size_t kBatches = 5;
  const auto train = make_synthetic_cifar10({.count = options.train, .seed = options.seed});
  for (std::size_t b = 0; b < kBatches; ++b) {
    Cifar10Batch batch;
    for (std::size_t i = train.size() * b / kBatches; i < train.size() * (b + 1) / kBatches; ++i) {
      batch.labels.push_back(train.labels[i]);
      batch.pixels += train.image(i);
    }
    write(options, fmt::format("data_batch_{}.bin", b + 1), to_cifar10_binary(batch));
  }
  const auto test = make_synthetic_cifar10({.count = options.test, .seed = test_seed(options)});
  write(options, "test_batch.bin",
        to_cifar10_binary({.labels = test.labels, .pixels = test.pixels}));
  report(options, "training", train);
  report(options, "test", test);
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void write_idx(const RecordsSynthOptions& options, const std::string& set,
               const SyntheticImages& images) {
  constexpr std::uint32_t kImagesMagic = 2051;
  constexpr std::uint32_t kLabelsMagic = 2049;
  constexpr std::uint32_t kSide = 28;
  const auto count = static_cast<std::uint32_t>(images.size());
  write(options, set + "-images-idx3-ubyte",
        big_endian(kImagesMagic) + big_endian(count) + big_endian(kSide) + big_endian(kSide) +
            images.pixels);
  write(options, set + "-labels-idx1-ubyte",
        big_endian(kLabelsMagic) + big_endian(count) +
            std::string(images.labels.begin(), images.labels.end()));
}

void synth_mnist(const RecordsSynthOptions& options) {
  const auto train = make_synthetic_mnist({.count = options.train, .seed = options.seed});
  const auto test = make_synthetic_mnist({.count = options.test, .seed = test_seed(options)});
  write_idx(options, "train", train);
  write_idx(options, "t10k", test);
  report(options, "training", train);
  report(options, "test", test);
}

// Pictures of different sizes, made of cifar10's planes of 32 x 32.
Image picture_of(std::string_view planes, Random& random) {
  constexpr std::int64_t kSide = 32;
  constexpr std::size_t kPlane = std::size_t{32} * 32;
  Image small{.height = kSide, .width = kSide};
  small.pixels.reserve(3 * kPlane);
  for (std::size_t i = 0; i < kPlane; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      small.pixels.push_back(static_cast<std::uint8_t>(planes[c * kPlane + i]));
    }
  }
  const auto side = [&random] { return 90 + static_cast<std::int64_t>(random.below(60)); };
  const std::int64_t height = side();
  return resize(small, height, side(), ResizeFilter::kBicubic);
}

void write_pictures(const RecordsSynthOptions& options, const std::string& set,
                    const SyntheticImages& images) {
  for (std::size_t i = 0; i < images.size(); ++i) {
    Random random(options.seed, 2, i);
    const Path folder = Path(options.output) / set / fmt::format("class{}", images.labels[i]);
    file_system_for(folder).create_directories(folder);
    write_file_atomically(folder / fmt::format("{:05}.jpg", i),
                          encode_jpeg(picture_of(images.image(i), random)), /*durable=*/false);
  }
}

void synth_pictures(const RecordsSynthOptions& options) {
  const auto train = make_synthetic_cifar10({.count = options.train, .seed = options.seed});
  const auto test = make_synthetic_cifar10({.count = options.test, .seed = test_seed(options)});
  write_pictures(options, "train", train);
  write_pictures(options, "eval", test);
  report(options, "training", train);
  report(options, "test", test);
}

void write_reviews(const RecordsSynthOptions& options, const std::string& set,
                   const SyntheticReviews& reviews) {
  std::string lines;
  for (std::size_t i = 0; i < reviews.size(); ++i) {
    lines += fmt::format("{}\t{}\n", reviews.labels[i], reviews.texts[i]);
  }
  write(options, set + ".tsv", lines);
  fmt::print("{}/{}.tsv: {} reviews, best possible accuracy {:.4f}\n", options.output, set,
             reviews.size(), reviews.best_accuracy());
}

void synth_reviews(const RecordsSynthOptions& options) {
  write(options, "vocab.txt", synthetic_review_vocabulary());
  write_reviews(options, "train",
                make_synthetic_reviews({.count = options.train, .seed = options.seed}));
  write_reviews(options, "eval",
                make_synthetic_reviews({.count = options.test, .seed = test_seed(options)}));
}

void add_census(CLI::App& command) {
  const SyntheticCensusOptions defaults;
  const auto options = add_flags(command, defaults.train, defaults.test);
  command.callback([options] { synth_census(*options); });
}
void add_cifar10(CLI::App& command) {
  const auto options = add_flags(command, 50'000, 10'000);
  command.callback([options] { synth_cifar10(*options); });
}
void add_mnist(CLI::App& command) {
  const auto options = add_flags(command, 60'000, 10'000);
  command.callback([options] { synth_mnist(*options); });
}
void add_pictures(CLI::App& command) {
  const auto options = add_flags(command, 2'000, 500);
  command.callback([options] { synth_pictures(*options); });
}
void add_reviews(CLI::App& command) {
  const auto options = add_flags(command, 8'000, 1'000);
  command.callback([options] { synth_reviews(*options); });
}

constexpr Command kSynthCommands[] = {
    {"census", "people in the columns of Census Income, as CSV; prints the best possible AUC",
     add_census},
    {"cifar10", "pictures in the layout of CIFAR-10's binary version", add_cifar10},
    {"mnist", "digits in the layout of MNIST's IDX files", add_mnist},
    {"pictures", "JPEGs of different sizes in folders of ten classes", add_pictures},
    {"reviews", "reviews with a label per line, and a vocabulary of word pieces", add_reviews},
};

}  // namespace

void add_records_synth(CLI::App& command) { add_commands(command, kSynthCommands); }

}  // namespace muster::cli
