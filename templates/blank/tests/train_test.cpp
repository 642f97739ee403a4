// Trains for a few steps on rows that are made here, and uses what comes out.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "train.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "failed: {}\n", what);
  std::exit(EXIT_FAILURE);
}

/// Points inside of a circle, in a ring around it, or outside.
void write_rows(const muster::Path& file, std::uint64_t seed, int count) {
  muster::Random random(seed);
  std::ofstream out(file);
  for (int i = 0; i < count; ++i) {
    const double x = random.uniform(-1, 1);
    const double y = random.uniform(-1, 1);
    const double square = x * x + y * y;
    out << fmt::format("{:.4f},{:.4f},{}\n", x, y, square < 0.25 ? 0 : square < 0.8 ? 1 : 2);
  }
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
      const auto file = folder / fmt::format("{}.csv", name);
      write_rows(file, ++seed, 1000);
      *files = {file.string()};
    }
    options.num_epochs = 10;
    options.run.job_dir = (folder / "run").string();
    const auto metrics = train(options);
    expect(metrics.at("accuracy") > 0.9, "it learns which ring a point is in");

    // What was trained goes on where it was, and trains no further.
    expect(train(options).at("accuracy") == metrics.at("accuracy"), "a second run resumes");
    expect(std::filesystem::exists(folder / "run/export/@TARGET@"), "the model is exported");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
  });
}
