// Trains for a few steps on data that is made here, and uses what comes out.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "made_data.h"
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
    std::filesystem::create_directories(folder);
    const MadeData data = make_data(folder);
    Options options;
    options.train_files = {data.train.string()};
    options.eval_files = {data.eval.string()};
    options.test_files = {data.test.string()};
    options.num_epochs = data.num_epochs;
    options.run.job_dir = (folder / "run").string();
    const double reached = train(options).at(data.metric);
    expect(reached > data.more_than, "it learns");

    // A finished run is resumed, and trains no further.
    expect(train(options).at(data.metric) == reached, "a second run resumes");
    expect(std::filesystem::exists(folder / "run/export/@TARGET@"), "the model is exported");
    std::filesystem::remove_all(folder);
    return EXIT_SUCCESS;
  });
}
