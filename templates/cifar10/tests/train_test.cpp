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

/// Pictures of one colour and some noise; the colour is the class.
void write_images(const muster::Path& file, std::uint64_t seed, int count) {
  muster::Random random(seed);
  muster::RecordWriter writer(file);
  for (int i = 0; i < count; ++i) {
    const auto label = static_cast<std::int64_t>(random.uniform(0, kClasses));
    std::string planes;
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      const double level = 255.0 * static_cast<double>((label >> channel) % 2);
      for (std::int64_t pixel = 0; pixel < kSide * kSide; ++pixel) {
        planes += static_cast<char>(0.8 * level + random.uniform(0, 50));
      }
    }
    muster::ExampleBuilder example;
    example.add_bytes("image", planes).add_int(muster::kLabel, label);
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
    std::uint64_t seed = 0;
    for (auto [name, files] : {std::pair{"train", &options.train_files},
                               {"eval", &options.eval_files},
                               {"test", &options.test_files}}) {
      const auto file = folder / fmt::format("{}.tfrecords", name);
      write_images(file, ++seed, 128);
      *files = {file.string()};
    }
    options.num_epochs = 20;
    options.run.job_dir = (folder / "run").string();
    const auto metrics = train(options);
    // Eight colours for ten classes: two of them look like two others.
    expect(metrics.at("accuracy") > 0.5, "it learns colours");

    // What was trained goes on where it was, and trains no further.
    expect(train(options).at("accuracy") == metrics.at("accuracy"), "a second run resumes");
    expect(std::filesystem::exists(folder / "run/export/@TARGET@"), "the model is exported");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
  });
}
