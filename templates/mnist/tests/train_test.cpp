// Trains for a few steps on pictures that are made here, and uses what comes out.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "data.h"
#include "train.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "failed: {}\n", what);
  std::exit(EXIT_FAILURE);
}

/// Bars, whose place is the digit.
void write_images(const muster::Path& file, std::uint64_t seed, int count, bool labelled) {
  muster::Random random(seed);
  muster::RecordWriter writer(file);
  for (int i = 0; i < count; ++i) {
    const auto digit = static_cast<std::int64_t>(random.uniform(0, kClasses));
    std::vector<float> image(kPixels);
    for (std::int64_t row = 0; row < kSide; ++row) {
      for (std::int64_t column = 0; column < kSide; ++column) {
        const bool is_bar = column / 3 == digit || column == 27;
        image[static_cast<std::size_t>(row * kSide + column)] =
            static_cast<float>(random.uniform(0, 0.3)) + (is_bar ? 0.7F : 0.0F);
      }
    }
    muster::ExampleBuilder example;
    example.add_floats("image", image);
    if (labelled) example.add_int(muster::kLabel, digit);
    writer.append(example.serialize());
  }
  writer.close();
}

}  // namespace

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    const auto folder = std::filesystem::temp_directory_path() /
                        fmt::format("@TARGET@_test_{}", static_cast<long>(::getpid()));
    std::filesystem::create_directories(folder);
    Options options;
    write_images(folder / "train.tfrecords", 1, 256, true);
    write_images(folder / "eval.tfrecords", 2, 64, true);
    write_images(folder / "test.tfrecords", 3, 64, false);
    options.train_files = {(folder / "train.tfrecords").string()};
    options.eval_files = {(folder / "eval.tfrecords").string()};
    options.test_files = {(folder / "test.tfrecords").string()};
    options.num_epochs = 4;
    options.run.job_dir = (folder / "run").string();
    const auto metrics = train(options);
    expect(metrics.at("accuracy") > 0.5, "it learns where the bar is");

    // What was trained goes on where it was, and trains no further.
    expect(train(options).at("accuracy") == metrics.at("accuracy"), "a second run resumes");
    expect(std::filesystem::exists(folder / "run/export/@TARGET@"), "the model is exported");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
  });
}
