// An exported model run by the executor against the model itself in eval mode: what a server loses
// by answering from a SavedModel.
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/allocations.h"
#include "benchmarks/report.h"
#include "muster/base/log.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/records/example_builder.h"
#include "muster/export/export_saved_model.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/resnet.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/api.h"

namespace {

using muster::Features;

/// The network of examples/mnist.
struct MnistCnn : muster::Model {
  MnistCnn() {
    namespace nn = torch::nn;
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 32, 3).padding(1)));
    norm1 = register_module("norm1", nn::BatchNorm2d(32));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)));
    norm2 = register_module("norm2", nn::BatchNorm2d(64));
    dense = register_module("dense", std::make_shared<muster::Dense>(7 * 7 * 64, 1024));
    norm3 = register_module("norm3", nn::BatchNorm1d(1024));
    logits = register_module("logits", std::make_shared<muster::Dense>(1024, 10));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = x.tensor("image").view({-1, 1, 28, 28});
    y = torch::max_pool2d(torch::relu(norm1->forward(conv1->forward(y))), 2);
    y = torch::max_pool2d(torch::relu(norm2->forward(conv2->forward(y))), 2);
    y = dense->forward(y.permute({0, 2, 3, 1}).flatten(1));
    return logits->forward(torch::relu(norm3->forward(y)));
  }
  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr};
  torch::nn::Conv2d conv2{nullptr};
  torch::nn::BatchNorm2d norm2{nullptr};
  std::shared_ptr<muster::Dense> dense;
  torch::nn::BatchNorm1d norm3{nullptr};
  std::shared_ptr<muster::Dense> logits;
};

/// Two layers of an LSTM over sequences of 64 numbers a step, of which the last state is
/// classified.
struct LstmClassifier : muster::Model {
  explicit LstmClassifier(std::int64_t hidden) {
    lstm = register_module(
        "lstm",
        torch::nn::LSTM(torch::nn::LSTMOptions(64, hidden).num_layers(2).batch_first(true)));
    logits = register_module("logits", std::make_shared<muster::Dense>(hidden, 10));
  }
  torch::Tensor forward(const Features& x) override {
    return logits->forward(std::get<0>(lstm->forward(x.tensor("image"))).select(1, -1));
  }
  torch::nn::LSTM lstm{nullptr};
  std::shared_ptr<muster::Dense> logits;
};

/// An exported model on a GPU, with a CUDA graph for each batch size and operation by operation.
void compare_on_gpu(muster::bench::Report& report, const std::string& name,
                    const muster::Path& folder, const at::Tensor& images) {
  if (muster::gpu_count() == 0) return;
  const auto load = [&](bool capture) {
    return muster::executor::ExecutableModel::load(
        folder, {.device = at::Device(at::kCUDA, 0), .capture = capture});
  };
  const auto captured = load(true);
  const auto one_by_one = load(false);
  for (const std::int64_t rows : {std::int64_t{1}, images.size(0)}) {
    const auto row = fmt::format("{}, {} images on a GPU, captured", name, rows);
    if (!report.wants(row)) continue;
    const muster::executor::Values inputs{{"image", images.slice(0, 0, rows).contiguous()}};
    // Captured after the first ones.
    for (int i = 0; i < 5; ++i) captured.run("serving_default", inputs);
    const auto times = muster::bench::median_pair(
        [&] { captured.run("serving_default", inputs); },
        [&] { one_by_one.run("serving_default", inputs); }, report.effort());
    report.add({.name = row,
                .value = times.limit_seconds / times.work_seconds,
                .unit = "times the speed of operation by operation",
                .at_least = 1});
    report.add({.name = row + ", executor", .value = times.work_seconds * 1e3, .unit = "ms"});
  }
}

/// Fills a row for each number of rows.
void compare(muster::bench::Report& report, const std::string& name,
             const std::shared_ptr<muster::Model>& model, std::int64_t classes,
             const at::Tensor& images, const std::string& examples = "images",
             std::optional<double> at_least = 1) {
  const muster::testing::TempDir folder;
  const auto head = muster::multi_class_head(classes);
  muster::exporting::write_model(*model, head.get(),
                                 muster::raw_serving_input({{"image", images.slice(0, 0, 2)}}),
                                 folder / "export");
  compare_on_gpu(report, name, folder / "export", images);
  const auto exported = muster::executor::ExecutableModel::load(folder / "export");
  model->eval();
  const torch::NoGradGuard no_grad;
  for (const std::int64_t rows : {std::int64_t{1}, images.size(0)}) {
    const auto row = fmt::format("{}, {} {}", name, rows, examples);
    if (!report.wants(row)) continue;
    const Features features{{"image", images.slice(0, 0, rows)}};
    const muster::executor::Values inputs{{"image", features.tensor("image")}};
    const auto times = muster::bench::median_pair(
        [&] { exported.run("serving_default", inputs); },
        [&] { model->call({.features = features}, muster::Mode::kPredict, head.get()); },
        report.effort());
    report.add({.name = row,
                .value = times.limit_seconds / times.work_seconds,
                .unit = "times the model's speed",
                .at_least = at_least,
                .aim = at_least ? std::optional(1.5) : std::nullopt});
    report.add({.name = row + ", executor", .value = times.work_seconds * 1e3, .unit = "ms"});
    report.add({.name = row + ", allocations",
                .value = static_cast<double>(muster::bench::allocations_of(
                    [&] { exported.run("serving_default", inputs); })),
                .unit = "a run"});
  }
}

/// Inputs of a signature of census.
muster::executor::Values people(const muster::graph::SignatureDef& signature, std::int64_t rows) {
  const std::map<std::string, std::string> words{{"workclass", "State-gov"},
                                                 {"education", "Bachelors"},
                                                 {"marital_status", "Never-married"},
                                                 {"occupation", "Adm-clerical"},
                                                 {"relationship", "Not-in-family"},
                                                 {"race", "White"},
                                                 {"gender", "Male"},
                                                 {"native_country", "United-States"}};
  muster::executor::Values inputs;
  for (const auto& [name, info] : signature.inputs) {
    std::vector<std::int64_t> sizes = info.shape.dims;
    for (auto& size : sizes) size = size < 0 ? rows : size;
    if (info.dtype == muster::graph::DataType::kString) {
      std::vector<std::string> values(static_cast<std::size_t>(rows), words.at(name));
      inputs.emplace(name, muster::executor::StringTensor(std::move(values), sizes));
    } else {
      inputs.emplace(name, torch::full(sizes, 39, muster::executor::scalar_type(info.dtype)));
    }
  }
  return inputs;
}

/// Six element-wise steps on `count` floats, as one step and one by one.
void compare_chain(muster::bench::Report& report, std::int64_t count) {
  const auto row = fmt::format("six element-wise steps on {} floats as one", count);
  if (!report.wants(row)) return;
  using muster::graph::DataType;
  using muster::graph::Shape;
  muster::graph::MetaGraph meta;
  auto& nodes = meta.graph.nodes;
  nodes.push_back(muster::graph::placeholder_node("x", DataType::kFloat, Shape::any()));
  const auto add = [&](const char* name, const char* op, std::vector<std::string> inputs) {
    nodes.push_back(
        {.name = name, .op = op, .inputs = std::move(inputs), .attrs = {{"T", DataType::kFloat}}});
  };
  nodes.push_back({.name = "half",
                   .op = "Const",
                   .inputs = {},
                   .attrs = {{"value", muster::graph::TensorValue::scalar<float>(0.5F)}}});
  add("a", "Sub", {"x", "half"});
  add("b", "RealDiv", {"a", "half"});
  add("c", "Square", {"b"});
  add("d", "Mul", {"c", "x"});
  add("e", "AddV2", {"d", "x"});
  add("y", "Neg", {"e"});
  auto& signature = meta.signatures["f"];
  signature.inputs["x"] = {.name = "x:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  signature.outputs["y"] = {.name = "y:0", .dtype = DataType::kFloat, .shape = Shape::any()};
  const auto fused = muster::executor::ExecutableModel::from(meta, {}, {.fuse_layers = true});
  const auto plain = muster::executor::ExecutableModel::from(meta, {}, {.fuse_layers = false});
  const muster::executor::Values inputs{{"x", torch::rand({count})}};
  const auto seconds = [&](const auto& model) {
    return muster::bench::least_thread_seconds([&] { model.run("f", inputs); }, report.effort());
  };
  const double together = seconds(fused);
  report.add({.name = row,
              .value = seconds(plain) / together,
              .unit = "times the speed of one by one",
              .at_least = 1});
  report.add({.name = row + ", executor", .value = together * 1e6, .unit = "us"});
}

/// The same people as serialized tf.Examples.
muster::executor::Values as_examples(const muster::executor::Values& people, std::int64_t rows) {
  muster::ExampleBuilder one;
  for (const auto& [name, value] : people) {
    if (const auto* words = std::get_if<muster::executor::StringTensor>(&value)) {
      one.add_bytes(name, words->values()[0]);
    } else {
      one.add_float(name, 39);
    }
  }
  const std::vector<std::string> examples(static_cast<std::size_t>(rows), one.serialize());
  return {{"examples", muster::executor::StringTensor(examples)}};
}

/// Requests of a signature, by the least time of the thread.
void measure_rows(muster::bench::Report& report, const std::string& row,
                  const muster::executor::ExecutableModel& model, const std::string& signature,
                  const muster::executor::Values& inputs) {
  if (!report.wants(row)) return;
  const auto run = [&] { model.run(signature, inputs); };
  report.add({.name = row,
              .value = 1e6 * muster::bench::least_thread_seconds(run, report.effort()),
              .unit = "us"});
  report.add({.name = row + ", allocations",
              .value = static_cast<double>(muster::bench::allocations_of(run)),
              .unit = "a run"});
}

/// The wide and deep model of census, for one person and for several.
void measure_census(muster::bench::Report& report) {
  if (!report.wants("census, 1 rows") && !report.wants("census, 64 rows") &&
      !report.wants("census, 1 Examples") && !report.wants("census, 64 Examples")) {
    return;
  }
  namespace executor = muster::executor;
  const muster::testing::TempDir folder;
  const auto columns = muster::internal::census_columns();
  muster::log::set_level(muster::log::Level::kWarning);
  auto estimator =
      muster::dnn_linear_combined_classifier({.linear_columns = columns.wide,
                                              .dnn_columns = columns.deep,
                                              .hidden_units = {100, 70, 48, 34}},
                                             muster::RunConfig{.model_dir = folder / "job"});
  const muster::Batch batch = muster::make_batch(muster::internal::census_features(40),
                                                 torch::randint(0, 2, {40, 1}).to(torch::kFloat));
  estimator.train(
      [&](const muster::InputContext&) { return muster::from_vector<muster::Batch>({batch}); });
  muster::FeatureColumnList all = columns.wide;
  all.insert(all.end(), columns.deep.begin(), columns.deep.end());
  const auto model = executor::ExecutableModel::load(
      muster::export_saved_model(estimator, folder / "census", muster::json_serving_input(all)));
  const auto by_examples = executor::ExecutableModel::load(muster::export_saved_model(
      estimator, folder / "examples", muster::example_serving_input(all)));
  for (const std::int64_t rows : {1, 64}) {
    const executor::Values inputs = people(model.signatures().at("serving_default"), rows);
    measure_rows(report, fmt::format("census, {} rows", rows), model, "serving_default", inputs);
    measure_rows(report, fmt::format("census, {} Examples", rows), by_examples, "predict",
                 as_examples(inputs, rows));
  }
}

}  // namespace

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  at::set_num_threads(1);
  torch::manual_seed(1);
  for (const std::int64_t count : {1, 100, 10'000, 1'000'000}) compare_chain(report, count);
  measure_census(report);
  compare(report, "mnist CNN", std::make_shared<MnistCnn>(), 10, torch::rand({32, 784}));
  compare(
      report, "ResNet-8",
      std::make_shared<muster::ResNet>(muster::ResNetOptions{.num_layers = 8, .num_classes = 11}),
      11, torch::rand({32, 32, 32, 3}) * 255);
  compare(
      report, "ResNet-44",
      std::make_shared<muster::ResNet>(muster::ResNetOptions{.num_layers = 44, .num_classes = 11}),
      11, torch::rand({32, 32, 32, 3}) * 255);
  for (const std::int64_t hidden : {64, 256}) {
    compare(report, fmt::format("LSTM of {} units, 32 steps", hidden),
            std::make_shared<LstmClassifier>(hidden), 10, torch::randn({32, 32, 64}), "sequences",
            /*at_least=*/{});
  }
  return report.finish();
}
