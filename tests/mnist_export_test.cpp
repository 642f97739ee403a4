// The mnist example's export predicts the same for real images as the estimator.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "muster/data/records/example_builder.h"
#include "muster/data/records/idx.h"
#include "muster/data/records/npy.h"
#include "muster/data/records/record_writer.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

const std::size_t kImages = testing::are_tests_long() ? 1000 : 250;
constexpr std::int64_t kPixels = 784;

// The first images of a set in MNIST's files, as pixels in [0, 1], and as a file of records.
std::vector<float> write_images(const Path& data, const std::string& set, const Path& file) {
  const IdxArray images = read_idx(data / "mnist" / (set + "-images-idx3-ubyte.gz"));
  const IdxArray labels = read_idx(data / "mnist" / (set + "-labels-idx1-ubyte.gz"));
  std::vector<float> all;
  RecordWriter writer(file, {.durable = false});
  for (std::size_t i = 0; i < kImages; ++i) {
    std::vector<float> pixels;
    for (const char byte : images.item(i)) {
      pixels.push_back(static_cast<float>(static_cast<unsigned char>(byte)) / 255.0F);
    }
    writer.append(ExampleBuilder()
                      .add_floats("image", pixels)
                      .add_int("label", static_cast<unsigned char>(labels.data[i]))
                      .serialize());
    all.insert(all.end(), pixels.begin(), pixels.end());
  }
  writer.close();
  return all;
}

// From the lines of JSON that --predictions asks for.
struct Predictions {
  std::vector<std::int64_t> class_ids;
  std::vector<float> probabilities;
};

Predictions read_predictions(const Path& file) {
  Predictions result;
  std::istringstream lines(testing::read_bytes(file));
  for (std::string line; std::getline(lines, line);) {
    const auto row = nlohmann::json::parse(line);
    result.class_ids.push_back(row.at("class_id"));
    for (const auto& value : row.at("probabilities")) {
      result.probabilities.push_back(value.get<float>());
    }
  }
  return result;
}

// As many of the values as the shape has.
void write_npy(const Path& path, std::vector<std::size_t> shape, const std::vector<float>& values) {
  const std::size_t count =
      std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  std::string bytes(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
  testing::write_bytes(
      path,
      encode_npy({.type = NpyType::kFloat, .shape = std::move(shape), .data = std::move(bytes)}));
}

void expect_success(const Path& program, const std::vector<std::string>& arguments) {
  const auto outcome = testing::run_program(program, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

// The same of ONNX's operators in numpy, and of OpenCV from the ONNX model and the frozen graph.
void expect_other_engines_agree(const Path& exported, const std::vector<float>& images,
                                const std::vector<float>& probabilities) {
  const testing::TempDir folder;
  // Numpy takes a quarter of a minute for a thousand.
  const std::size_t count = testing::are_tests_long() ? kImages : 50;
  write_npy(folder / "in.image.npy", {count, kPixels}, images);
  write_npy(folder / "out.probabilities.npy", {count, 10}, probabilities);
  expect_success(MUSTER_PROGRAM, {"export", "onnx", "--saved-model", exported, "--outputs",
                                  "probabilities", "--output", folder / "model.onnx"});
  expect_success(MUSTER_PROGRAM,
                 {"export", "graphdef", "--saved-model", exported, "--outputs", "probabilities",
                  "--reshaped-inputs", "--output", folder / "model.pb"});
  const std::string engines = ENGINES_DIR;
  expect_success("/usr/bin/python3", {engines + "/check_onnx.py", folder.path()});
  expect_success("/usr/bin/python3", {engines + "/check_opencv.py", folder.path(), "28"});
}

TEST(MnistExport, AnswersAboutRealTestImagesAsTheEstimatorDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const testing::TempDir folder;
  write_images(data, "train", folder / "train.tfrecords");
  std::vector<float> images = write_images(data, "t10k", folder / "test.tfrecords");
  // Batch norm's averages are corrected for where they began, or it would take 500 steps.
  const std::string steps = testing::are_tests_long() ? "200" : "100";
  const std::vector<std::string> arguments{
      "--train-files=" + (folder / "train.tfrecords").string(),
      "--eval-files=" + (folder / "test.tfrecords").string(),
      "--test-files=" + (folder / "test.tfrecords").string(),
      "--job-dir=" + (folder / "job").string(),
      "--predictions=" + (folder / "predictions.jsonl").string(),
      "--train-steps=" + steps,
      "--zero-debias",
      "--train-batch-size=8",
      "--eval-batch-size=250",
      "--ema=0.8",
      "--seed=1"};
  const auto outcome = testing::run_program(MNIST_PROGRAM, arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Predictions wanted = read_predictions(folder / "predictions.jsonl");
  ASSERT_EQ(wanted.class_ids.size(), kImages);

  const Path exported = graph::latest_export(folder / "job/export/mnist");
  const auto model = executor::ExecutableModel::load(exported);
  const auto rows = static_cast<std::int64_t>(kImages);
  const auto answers =
      model.run("serving_default",
                {{"image", torch::from_blob(images.data(), {rows, kPixels}, torch::kFloat)}});
  const auto ids = std::get<at::Tensor>(answers.at("class_ids")).contiguous();
  EXPECT_EQ(std::vector<std::int64_t>(ids.data_ptr<std::int64_t>(),
                                      ids.data_ptr<std::int64_t>() + ids.numel()),
            wanted.class_ids);
  const auto& probabilities = std::get<at::Tensor>(answers.at("probabilities"));
  const double difference =
      (probabilities.flatten() - torch::tensor(wanted.probabilities)).abs().max().item<double>();
  EXPECT_LE(difference, 1e-5);
  RecordProperty("largest_difference", fmt::format("{:g}", difference));

  // It has learnt something, so that there are differences to be found.
  std::vector<std::int64_t> seen = wanted.class_ids;
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()) - seen.begin(), 10);

  expect_other_engines_agree(exported, images, wanted.probabilities);
}

}  // namespace
}  // namespace muster
