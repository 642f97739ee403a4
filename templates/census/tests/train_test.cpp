// Trains for a few steps on people that are made here, and uses what comes out.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "train.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "failed: {}\n", what);
  std::exit(EXIT_FAILURE);
}

}  // namespace

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [] {
    const auto folder = std::filesystem::temp_directory_path() /
                        fmt::format("@TARGET@_test_{}", static_cast<long>(::getpid()));
    const auto people = muster::write_synthetic_census(folder, {.train = 2000, .test = 1000});
    Options options;
    options.train_files = {people.train.path.string()};
    options.eval_files = {people.test.path.string()};
    options.test_files = {people.test.path.string()};
    options.num_epochs = 5;
    options.run.job_dir = (folder / "run").string();
    const auto metrics = train(options);
    expect(metrics.at("auc") > 0.85, "it learns who earns more");

    // What was trained goes on where it was, and trains no further.
    expect(train(options).at("auc") == metrics.at("auc"), "a second run resumes");
    expect(std::filesystem::exists(folder / "run/export/@TARGET@"), "the model is exported");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
  });
}
