// How many CIFAR-10 images a second the input of examples/cifar10 makes: what a GPU has to wait
// for.
#include <ATen/Parallel.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "benchmarks/report.h"
#include "examples/cifar10/input.h"
#include "muster/base/thread_pool.h"
#include "muster/data/records/example_builder.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/records/synthetic_images.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

const std::size_t kImages = bench::sized<std::size_t>(10'000, 500);
constexpr std::int64_t kBatch = 128;
const int kBatches = bench::sized(400, 2);

Path write_images(const Path& folder) {
  const Path path = folder / "train.tfrecords";
  RecordWriter writer(path, {.write_index = true});
  const auto images = make_synthetic_cifar10({.count = kImages});
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::string record;
    ExampleBuilder()
        .add_bytes("image", images.image(i))
        .add_int("label", images.labels[i])
        .serialize_to(record);
    writer.append(record);
  }
  writer.close();
  return path;
}

cifar10::TrainingInput input_of(const Path& file, std::size_t threads) {
  return {.files = {file},
          .images = static_cast<std::int64_t>(kImages),
          .batch_size = kBatch,
          .distortion = cifar10::Distortion{.crop = {.padding = 4, .mirror = true}},
          .threads = threads};
}

/// Images a second, once the window is full.
void measure(bench::Report& report, const std::string& name, const cifar10::TrainingInput& input,
             double at_least, double aim) {
  bench::Row row{.name = "cifar10 input: " + name,
                 .unit = "thousand images/s",
                 .at_least = at_least,
                 .aim = aim};
  if (!report.wants(row.name)) return;
  const auto pass = cifar10::training_batches(input, InputContext(Mode::kTrain, 1, 0, 1)).iterate();
  const double seconds = bench::median_seconds(
      [&] {
        for (int i = 0; i < kBatches; ++i) bench::keep(pass->next());
      },
      report.effort());
  row.value = static_cast<double>(kBatch) * kBatches / seconds / 1e3;
  report.add(std::move(row));
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  using namespace muster;
  bench::Report report(argc, argv);
  at::set_num_threads(1);
  const muster::testing::TempDir folder;
  const Path file = write_images(folder.path());
  // A step of 1 ms takes 128,000 images a second.
  measure(report, "crop and mirror, 1 thread", input_of(file, 1), 128, 300);
  const std::size_t processors = ThreadPool::available_processors();
  measure(report, fmt::format("crop and mirror, {} threads", processors),
          input_of(file, processors), 128, 600);
  auto later = input_of(file, 1);
  later.distortion->crop_later = true;
  measure(report, "crops for the GPU, 1 thread", later, 128, 300);
  auto colours = input_of(file, 1);
  colours.distortion->max_brightness = 63;
  colours.distortion->min_contrast = 0.2;
  colours.distortion->max_contrast = 1.8;
  measure(report, "also brightness and contrast, 1 thread", colours, 20, 60);
  return report.finish();
}
