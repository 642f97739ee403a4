// Exports of muster, run by other engines: ONNX's own checker, ONNX's operators in numpy, and
// OpenCV's dnn module, each as a process.
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>

#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/records/cifar10.h"
#include "muster/data/records/idx.h"
#include "muster/export/export_saved_model.h"
#include "muster/nn/kernels/torch_compat.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/resnet.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/freeze.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/saved_model/onnx/convert.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

namespace nn = torch::nn;
using testing::run_program;
using testing::TempDir;

// Numpy takes a quarter of a minute for a thousand images.
const std::int64_t kExamples = testing::are_tests_long() ? 1000 : 100;

std::string npy_type(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kFloat) return "<f4";
  if (tensor.scalar_type() == at::kLong) return "<i8";
  if (tensor.scalar_type() == at::kInt) return "<i4";
  return "|u1";
}

// As numpy.save writes it.
void write_npy(const Path& path, const at::Tensor& given) {
  const auto tensor = given.contiguous();
  std::string shape;
  for (const auto size : tensor.sizes()) shape += std::to_string(size) + ",";
  std::string header =
      "{'descr': '" + npy_type(tensor) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() % 256)
      << static_cast<char>(header.size() / 256) << header;
  out.write(static_cast<const char*>(tensor.data_ptr()),
            static_cast<std::streamsize>(tensor.nbytes()));
}

void expect_success(const std::filesystem::path& program,
                    const std::vector<std::string>& arguments) {
  const auto outcome = run_program(program, arguments, {"MUSTER_LOG_LEVEL=warning"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  std::cout << outcome.out;
}

// Engines that npm installs, where MUSTER_NODE_ENGINES names their folder.
void expect_node_engines(const Path& folder) {
  const char* const engines = std::getenv("MUSTER_NODE_ENGINES");
  if (engines == nullptr) return;
  for (const std::string script : {"check_onnxruntime.mjs", "check_tfjs.mjs"}) {
    expect_success("/usr/bin/node", {ENGINES_DIR + ("/" + script), folder.string(), engines});
  }
}

void expect_script(const std::string& script, const Path& folder,
                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{ENGINES_DIR + ("/" + script), folder.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  expect_success(PYTHON_PROGRAM, arguments);
}

// Runs muster export.
void convert(const Path& saved_model, const std::string& format, const Path& file,
             const std::vector<std::string>& flags) {
  std::vector<std::string> arguments{"export",    format,     "--saved-model",
                                     saved_model, "--output", file};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const auto outcome = run_program(MUSTER_PROGRAM, arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

/// A model as engines see it: its inputs, what it answers, and the files that hold it.
class Case {
 public:
  Case(Model& model, const Head& head, const Features& examples) {
    exporting::write_model(model, &head, raw_serving_input(examples.slice(0, 2)),
                           folder_ / "saved_model");
    model.eval();
    const torch::NoGradGuard no_grad;
    for (const auto& [name, value] : examples) {
      write_npy(folder_ / ("in." + name + ".npy"), std::get<at::Tensor>(value));
    }
    for (const auto& [name, value] :
         model.call({.features = examples}, Mode::kPredict, &head).predictions) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) outputs_[name] = *tensor;
    }
  }

  /// Gives engines another value for an input than the model gets.
  void give(const std::string& name, const at::Tensor& value) {
    write_npy(folder_ / ("in." + name + ".npy"), value);
  }

  /// The conversions with these outputs alone; none: all of them.
  Path files(const std::string& outputs = "", const std::vector<std::string>& flags = {}) {
    for (const auto& [name, value] : outputs_) {
      const Path path = folder_ / ("out." + name + ".npy");
      std::filesystem::remove(path);
      if (outputs.empty() || outputs == name) write_npy(path, value);
    }
    std::vector<std::string> chosen = flags;
    if (!outputs.empty()) chosen.insert(chosen.end(), {"--outputs", outputs});
    convert(folder_ / "saved_model", "onnx", folder_ / "model.onnx", chosen);
    chosen.push_back("--reshaped-inputs");
    convert(folder_ / "saved_model", "graphdef", folder_ / "model.pb", chosen);
    return folder_.path();
  }

 private:
  TempDir folder_;
  std::map<std::string, at::Tensor> outputs_;
};

// Batch norm as a trained model has it; that of a new one changes nothing.
void randomise_norms(nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (auto& variable : model.named_parameters()) {
    if (variable.value().dim() == 1) variable.value().uniform_(0.25, 0.75);
  }
  for (auto& buffer : model.named_buffers()) {
    if (buffer.key().ends_with("running_mean")) buffer.value().uniform_(-0.5, 0.5);
    if (buffer.key().ends_with("running_var")) buffer.value().uniform_(0.5, 2);
  }
}

/// The network of examples/mnist, with fewer filters.
struct SmallCnn : Model {
  SmallCnn() {
    conv1 = register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 8, 3).padding(1)));
    norm1 = register_module("norm1", nn::BatchNorm2d(8));
    conv2 = register_module("conv2", nn::Conv2d(nn::Conv2dOptions(8, 16, 3).padding(1)));
    norm2 = register_module("norm2", nn::BatchNorm2d(16));
    dense = register_module("dense", std::make_shared<Dense>(784, 64));
    norm3 = register_module("norm3", nn::BatchNorm1d(64));
    logits = register_module("logits", std::make_shared<Dense>(64, 10));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = x.tensor("image").view({-1, 1, 28, 28});
    y = torch::max_pool2d(torch::relu(norm1->forward(conv1->forward(y))), 2);
    y = torch::max_pool2d(torch::relu(norm2->forward(conv2->forward(y))), 2);
    y = y.permute({0, 2, 3, 1}).flatten(1);
    return logits->forward(torch::relu(norm3->forward(dense->forward(y))));
  }
  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  nn::BatchNorm1d norm3{nullptr};
  std::shared_ptr<Dense> dense, logits;
};

/// Further operations on images.
struct ManyImageOperations : Model {
  ManyImageOperations() {
    first = register_module("first", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).stride(2).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    second = register_module("second", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)));
    depthwise = register_module("depthwise", nn::Conv2d(nn::Conv2dOptions(8, 16, 3).groups(8)));
    grouped = register_module("grouped", nn::Conv2d(nn::Conv2dOptions(16, 8, 2).groups(2)));
    turned = register_module(
        "turned", nn::ConvTranspose2d(
                      nn::ConvTranspose2dOptions(8, 5, 3).stride(2).padding(1).output_padding(1)));
    logits = register_module("logits", nn::Linear(50, 4));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = torch::relu(norm->forward(first->forward(x.tensor("image"))));
    y = y + torch::leaky_relu(second->forward(y), 0.1);  // [batch, 8, 6, 6]
    const auto groups = turned->forward(grouped->forward(depthwise->forward(y)));  // [.., 5, 6, 6]
    const auto larger = torch::upsample_nearest2d(groups, at::IntArrayRef{12, 12}) +
                        torch::upsample_bilinear2d(groups, at::IntArrayRef{12, 12}, true) +
                        torch::upsample_bilinear2d(groups, at::IntArrayRef{12, 12}, false);
    const auto largest = torch::max_pool2d(y, 3, 2, 1);
    const auto mean = torch::avg_pool2d(y, 2);
    y = torch::cat({largest, mean}, 1);
    const auto whole = torch::adaptive_avg_pool2d(y, {1, 1}).flatten(1);
    return logits->forward(torch::cat({whole, y.mean({2, 3}), y.slice(1, 0, 8).amax({2, 3}),
                                       larger.amax({2, 3}), larger.flip(3).select(3, 2).sum(2)},
                                      1));
  }
  nn::Conv2d first{nullptr}, second{nullptr}, depthwise{nullptr}, grouped{nullptr};
  nn::ConvTranspose2d turned{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Linear logits{nullptr};
};

/// Operations on rows.
struct ManyRowOperations : Model {
  ManyRowOperations() {
    table = register_module("table", nn::Embedding(11, 6));
    logits = register_module("logits", nn::Linear(6, 4));
    scale = register_parameter("scale", torch::rand({3, 1}) + 0.5);
  }
  torch::Tensor forward(const Features& x) override {
    auto y = table->forward(x.tensor("ids")) * scale;                         // [batch, 3, 6]
    y = torch::softmax(y, 1) + torch::log_softmax(y, 2) - y.clamp(-0.5, 1);   // over two axes
    y = torch::tanh(y.transpose(1, 2)) / 2 + y.permute({0, 2, 1}).sigmoid();  // [batch, 6, 3]
    const auto weights = x.tensor("weights").unsqueeze(1).to(torch::kFloat);  // [batch, 1, 3]
    y = torch::where(y > 0.6, y * weights, torch::zeros_like(y));
    y = torch::constant_pad_nd(y, {1, 2}, 0.25);  // [batch, 6, 6]
    y = y + torch::exp(-y.abs()) + torch::rsqrt(y * y + 1) + torch::softplus(y) + torch::elu(y) +
        torch::erf(y) + torch::log1p(y.square()) + torch::relu6(y);
    y = y + torch::cumsum(y, 1) + torch::flip(y, {2}) * torch::sin(y) + torch::remainder(y, 0.3) +
        torch::matmul(y, y.transpose(1, 2)).cos() + std::get<0>(torch::topk(y, 6, 2)) +
        torch::where(torch::isnan(y), torch::zeros_like(y), y.floor());
    const auto halves = torch::chunk(y, 2, 1);
    y = torch::cat({halves[1], halves[0] - halves[1].repeat({1, 1, 1})}, 1);
    const auto mixed = torch::stack({y.select(2, 0), y.select(2, -1), y.sum(2)}, 1);
    return logits->forward(mixed.narrow(1, 1, 2).mean(1).view({x.batch_size(), 6}));
  }
  nn::Embedding table{nullptr};
  nn::Linear logits{nullptr};
  torch::Tensor scale;
};

/// Sequences [batch, channels, length].
struct SequenceNet : Model {
  SequenceNet() {
    first = register_module("first", nn::Conv1d(nn::Conv1dOptions(3, 8, 3).padding(1)));
    norm = register_module("norm", nn::BatchNorm1d(8));
    second = register_module("second", nn::Conv1d(nn::Conv1dOptions(8, 6, 4).stride(2).padding(2)));
    grouped = register_module("grouped", nn::Conv1d(nn::Conv1dOptions(6, 4, 2).groups(2)));
    logits = register_module("logits", nn::Linear(8, 4));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = torch::relu(norm->forward(first->forward(x.tensor("sequence"))));
    y = torch::max_pool1d(torch::relu(second->forward(y)), 2);
    y = grouped->forward(y);
    return logits->forward(torch::cat({y.mean(2), y.amax({2})}, 1));
  }
  nn::Conv1d first{nullptr}, second{nullptr}, grouped{nullptr};
  nn::BatchNorm1d norm{nullptr};
  nn::Linear logits{nullptr};
};

/// Recurrent layers in the forms that libtorch has.
struct RecurrentNet : Model {
  RecurrentNet() {
    lstm = register_module(
        "lstm",
        nn::LSTM(nn::LSTMOptions(6, 5).num_layers(2).bidirectional(true).batch_first(true)));
    gru = register_module("gru", nn::GRU(nn::GRUOptions(10, 4).batch_first(true)));
    packed = register_module("packed",
                             nn::LSTM(nn::LSTMOptions(6, 3).bidirectional(true).batch_first(true)));
    rnn = register_module("rnn", nn::RNN(nn::RNNOptions(4, 3).batch_first(true).bias(false)));
    logits = register_module("logits", nn::Linear(21, 4));
  }
  torch::Tensor forward(const Features& x) override {
    namespace rnn_utils = torch::nn::utils::rnn;
    const auto steps = x.tensor("steps");
    const auto [states, last] = gru->forward(std::get<0>(lstm->forward(steps)));
    const auto [sequences, ends] = packed->forward_with_packed_input(
        rnn_utils::pack_padded_sequence(steps, x.tensor("lengths"), true, false));
    const auto padded =
        std::get<0>(rnn_utils::pad_packed_sequence(sequences, true, 0.5, steps.size(1)));
    const auto ended = std::get<0>(ends).transpose(0, 1).flatten(1);
    return logits->forward(
        torch::cat({std::get<0>(rnn->forward(states)).select(1, -1), last.squeeze(0), ended,
                    padded.mean(1), padded.slice(2, 0, 2).sum(1)},
                   1));
  }
  nn::LSTM lstm{nullptr}, packed{nullptr};
  nn::GRU gru{nullptr};
  nn::RNN rnn{nullptr};
  nn::Linear logits{nullptr};
};

/// Convolutions that few models have.
struct RareConvolutions : Model {
  RareConvolutions() {
    volumes = register_module(
        "volumes", nn::Conv3d(nn::Conv3dOptions(2, 4, {2, 3, 3}).stride({1, 2, 1}).padding(1)));
    grouped = register_module("grouped",
                              nn::Conv3d(nn::Conv3dOptions(4, 6, 2).groups(2).dilation({2, 1, 1})));
    dilated = register_module(
        "dilated",
        nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 3, 3).stride(2).dilation({2, 3})));
    groups = register_module(
        "groups", nn::ConvTranspose2d(
                      nn::ConvTranspose2dOptions(4, 6, 3).groups(2).stride(2).output_padding(1)));
    logits = register_module("logits", nn::Linear(15, 4));
  }
  torch::Tensor forward(const Features& x) override {
    const auto deep = grouped->forward(torch::relu(volumes->forward(x.tensor("volume"))));
    const auto image = x.tensor("image");
    return logits->forward(torch::cat({deep.mean({2, 3, 4}), dilated->forward(image).amax({2, 3}),
                                       groups->forward(image).mean({2, 3})},
                                      1));
  }
  nn::Conv3d volumes{nullptr}, grouped{nullptr};
  nn::ConvTranspose2d dilated{nullptr}, groups{nullptr};
  nn::Linear logits{nullptr};
};

/// Attention of several heads, and RMS norm.
struct AttentionNet : Model {
  AttentionNet() {
    heads = register_module("heads", nn::MultiheadAttention(nn::MultiheadAttentionOptions(6, 2)));
    logits = register_module("logits", nn::Linear(6, 4));
    scale = register_parameter("scale", torch::rand({6}) + 0.5);
  }
  torch::Tensor forward(const Features& x) override {
    const auto steps = x.tensor("steps");
    auto y = steps * torch::rsqrt(steps.square().mean({2}, true) + 1e-6) * scale;
    const auto turned = y.transpose(0, 1);
    y = y + std::get<0>(heads->forward(turned, turned, turned)).transpose(0, 1);
    const auto parts = y.unflatten(2, {2, 3}).transpose(1, 2);
#if MUSTER_TORCH_AT_LEAST(2, 0)
    const auto mixed = at::scaled_dot_product_attention(parts, parts, parts, {}, 0, true);
#else
    const auto mixed =
        std::get<0>(at::_scaled_dot_product_attention(parts, parts, parts, {}, 0, false, true));
#endif
    return logits->forward(mixed.transpose(1, 2).flatten(2).mean(1));
  }
  nn::MultiheadAttention heads{nullptr};
  nn::Linear logits{nullptr};
  torch::Tensor scale;
};

at::Tensor mnist_images(const Path& data) {
  const auto images = read_idx(data / "mnist" / "t10k-images-idx3-ubyte.gz");
  return torch::from_blob(const_cast<char*>(images.data.data()), {kExamples, 784}, torch::kByte)
             .to(torch::kFloat) /
         255;
}

at::Tensor cifar10_images(const Path& data) {
  const auto batch = read_cifar10_binary(data / "cifar-10" / "test_batch.bin.xz");
  return torch::from_blob(const_cast<char*>(batch.pixels.data()), {kExamples, 3, 32, 32},
                          torch::kByte)
      .permute({0, 2, 3, 1})
      .to(torch::kFloat)
      .contiguous();
}

TEST(OtherEngines, AnswerAboutMnistAsTheModelDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  torch::manual_seed(1);
  const auto model = std::make_shared<SmallCnn>();
  randomise_norms(*model);
  Case mnist(*model, *multi_class_head(10), {{"image", mnist_images(data)}});
  expect_script("check_onnx.py", mnist.files());
  expect_script("check_opencv.py", mnist.files("probabilities"), {"28"});
}

TEST(OtherEngines, AnswerAboutCifar10AsAResNetDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  torch::manual_seed(2);
  const auto model = std::make_shared<ResNet>(ResNetOptions{.num_layers = 8, .num_classes = 11});
  randomise_norms(*model);
  Case cifar10(*model, *multi_class_head(11), {{"image", cifar10_images(data)}});
  expect_script("check_onnx.py", cifar10.files());
  expect_script("check_opencv.py", cifar10.files("probabilities"), {"32"});
}

// The example takes images as files have them, bytes; OpenCV has floats.
TEST(OtherEngines, AnswerAboutBytesThatAreHandedInAsFloats) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  torch::manual_seed(5);
  const auto model = std::make_shared<ResNet>(ResNetOptions{.num_layers = 8, .num_classes = 11});
  randomise_norms(*model);
  const auto images = cifar10_images(data).slice(0, 0, kExamples / 5);
  Case cifar10(*model, *multi_class_head(11), {{"image", images.to(torch::kByte)}});
  cifar10.give("image", images);
  expect_script("check_onnx.py", cifar10.files("", {"--float-inputs"}));
  expect_script("check_opencv.py", cifar10.files("probabilities", {"--float-inputs"}), {"32"});
}

TEST(OtherEngines, RunConvolutionsOverSequencesInONNX) {
  torch::manual_seed(6);
  const auto model = std::make_shared<SequenceNet>();
  randomise_norms(*model);
  Case sequences(*model, *multi_class_head(4), {{"sequence", torch::randn({9, 3, 21})}});
  expect_script("check_onnx.py", sequences.files());
}

TEST(OtherEngines, RunEveryOperationOfImagesInONNX) {
  torch::manual_seed(3);
  const auto model = std::make_shared<ManyImageOperations>();
  randomise_norms(*model);
  Case images(*model, *multi_class_head(4), {{"image", torch::randn({9, 3, 11, 11})}});
  expect_script("check_onnx.py", images.files());
}

TEST(OtherEngines, RunEveryOperationOfRowsInONNX) {
  torch::manual_seed(4);
  const auto model = std::make_shared<ManyRowOperations>();
  const Features examples{{"ids", torch::randint(11, {9, 3}, torch::kLong)},
                          {"weights", torch::randint(1, 5, {9, 3}, torch::kInt)}};
  Case rows(*model, *multi_class_head(4, {.label_vocabulary = {"a", "b", "c", "d"}}), examples);
  expect_script("check_onnx.py", rows.files());
  Case numbers(*model, *regression_head(4), examples);
  expect_script("check_onnx.py", numbers.files());
}

TEST(OtherEngines, RunRecurrentLayers) {
  torch::manual_seed(8);
  const auto model = std::make_shared<RecurrentNet>();
  const auto lengths = torch::tensor({5, 1, 3, 2, 5, 4, 1, 2, 5}, torch::kLong);
  Case sequences(*model, *regression_head(4),
                 {{"steps", torch::randn({9, 5, 6})}, {"lengths", lengths}});
  const Path folder = sequences.files();
  expect_script("check_onnx.py", folder);
  expect_node_engines(folder);
}

TEST(OtherEngines, RunConvolutionsOverVolumesAndTransposedOnes) {
  torch::manual_seed(9);
  const auto model = std::make_shared<RareConvolutions>();
  Case images(*model, *regression_head(4),
              {{"volume", torch::randn({9, 2, 4, 7, 6})}, {"image", torch::randn({9, 4, 5, 4})}});
  const Path folder = images.files();
  expect_script("check_onnx.py", folder);
  expect_node_engines(folder);
}

TEST(OtherEngines, RunAttention) {
  torch::manual_seed(10);
  const auto model = std::make_shared<AttentionNet>();
  Case steps(*model, *regression_head(4), {{"steps", torch::randn({9, 5, 6})}});
  const Path folder = steps.files();
  expect_script("check_onnx.py", folder);
  expect_node_engines(folder);
}

graph::NodeDef node(const std::string& name, const std::string& op, std::vector<std::string> inputs,
                    graph::Attrs attrs = {}) {
  attrs.emplace("T", graph::DataType::kFloat);
  return {.name = name, .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

graph::TensorInfo tensor(const std::string& name, graph::DataType type, graph::Shape shape) {
  return {.name = name + ":0", .sparse = {}, .dtype = type, .shape = std::move(shape)};
}

std::vector<std::string> first_lines(const Path& file, std::int64_t count) {
  std::ifstream text(file);
  std::vector<std::string> lines;
  for (std::string line; std::ssize(lines) < count && std::getline(text, line);) {
    lines.push_back(line);
  }
  return lines;
}

// A key as part of a file's name.
std::string file_name(const std::string& prefix, std::string key) {
  std::replace(key.begin(), key.end(), '/', '|');
  return prefix + "." + key + ".npy";
}

// As numpy.save writes an array of bytes.
void write_words(const Path& path, const std::vector<std::string>& words) {
  std::size_t width = 1;
  for (const auto& word : words) width = std::max(width, word.size());
  std::string header = "{'descr': '|S" + std::to_string(width) +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(words.size()) +
                       ",), }";
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out << "\x93NUMPY\x01" << '\0' << static_cast<char>(header.size() % 256)
      << static_cast<char>(header.size() / 256) << header;
  for (std::string word : words) {
    word.resize(width, '\0');
    out << word;
  }
}

// Rows of CSV, hashes and crosses stay outside of ONNX, so the executor computes what they give,
// and its own answers. Vocabularies, buckets and numbers are inside.
TEST(OtherEngines, AnswerAboutCensusFromItsFeatures) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const TempDir folder;
  const Path test_file = data / "census" / "adult.test.csv";
  const auto outcome = run_program(
      CENSUS_PROGRAM, {"--train-files", data / "census" / "adult.data.csv", "--eval-files",
                       test_file, "--job-dir", folder / "job", "--train-steps", "200",
                       "--eval-steps", "1", "--seed", "3", "--export-format", "CSV"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Path exported = graph::latest_export(folder / "job" / "export" / "census");
  convert(exported, "onnx", folder / "model.onnx", {"--signature_def", "predict"});

  auto meta = graph::find_meta_graph(graph::read_saved_model(exported), {"serve"});
  const auto predict = graph::find_signature(meta, "predict");
  const BundleReader bundle(graph::variables_prefix(exported));
  const auto frozen = graph::freeze(meta, predict, &bundle, {.numeric = true, .lookups = true});
  graph::SignatureDef columns{.inputs = predict.inputs, .method_name = predict.method_name};
  for (const auto* outside : {&frozen.columns, &frozen.features}) {
    for (const auto& [key, tensor] : *outside) {
      columns.outputs[key] = frozen.signature.inputs.at(key);
      columns.outputs[key].name = tensor;
    }
  }
  EXPECT_TRUE(frozen.features.contains("age") && frozen.features.contains("gender"));
  EXPECT_TRUE(frozen.columns.contains("occupation/ids"));
  EXPECT_EQ(columns.outputs.size(), frozen.signature.inputs.size());
  meta.signatures["columns"] = columns;
  const auto model = executor::ExecutableModel::from(std::move(meta), exported);
  const executor::Values rows{
      {"csv_row", executor::StringTensor(first_lines(test_file, kExamples))}};
  for (const auto& [key, value] : model.run("columns", rows)) {
    if (const auto* words = std::get_if<executor::StringTensor>(&value)) {
      write_words(folder / file_name("in", key), words->values());
    } else {
      write_npy(folder / file_name("in", key), std::get<at::Tensor>(value));
    }
  }
  const auto answers = model.run("predict", rows);
  for (const auto& [key, info] : frozen.signature.outputs) {
    write_npy(folder / file_name("out", key), std::get<at::Tensor>(answers.at(key)));
  }
  EXPECT_TRUE(frozen.signature.outputs.contains("probabilities"));
  // Capital gains go up to 99,999 and are not scaled, so float rounds in the hidden layers.
  expect_script("check_onnx.py", folder.path(), {"1e-4"});
}

// All that is inside a GraphDef is TensorFlow's, so that features are all it needs: the executor
// here knows nothing of how it was made.
TEST(OtherEngines, AnswerAboutCensusFromItsFeaturesInAGraphDef) {
  const TempDir folder;
  const auto data = run_program(MUSTER_PROGRAM, {"records", "synth", "census", "--output",
                                                 folder.path(), "--train", "500", "--test", "100"});
  ASSERT_EQ(data.status, 0) << data.err;
  const auto outcome = run_program(
      CENSUS_PROGRAM, {"--train-files", folder / "adult.data.csv", "--eval-files",
                       folder / "adult.test.csv", "--job-dir", folder / "job", "--train-steps",
                       "50", "--eval-steps", "1", "--seed", "3", "--export-format", "JSON"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Path exported = graph::latest_export(folder / "job" / "export" / "census");
  convert(exported, "graphdef", folder / "model.pb", {"--signature_def", "predict"});

  graph::MetaGraph alone;
  alone.graph = graph::decode_graph(testing::read_bytes(folder / "model.pb"));
  if (const char* const known = std::getenv("MUSTER_DATA_DIR")) {
    const auto file = Path(known) / "tensorflow" / "ops_v1.pbtxt.xz";
    EXPECT_NO_THROW(graph::OpRegistry::read(file).check(alone.graph));
  }
  const auto model = executor::ExecutableModel::load(exported);
  const auto& whole = model.signatures().at("predict");
  auto& signature = alone.signatures["predict"];
  for (const auto& node : alone.graph.nodes) {
    if (node.op == "Placeholder") signature.inputs[node.name] = whole.inputs.at(node.name);
    EXPECT_NE(node.op, "HashTableV2") << node.name;
  }
  EXPECT_TRUE(signature.inputs.contains("age") && signature.inputs.contains("occupation"));
  signature.outputs["logits"] = whole.outputs.at("logits");
  executor::Values people;
  const std::vector<std::string> words{"Private", "Male", "Bachelors", "nonsense", ""};
  for (const auto& [key, info] : whole.inputs) {
    people[key] = info.dtype == graph::DataType::kString
                      ? executor::Value(executor::StringTensor(words))
                      : executor::Value(torch::tensor({20, 35, 50, 64, 90}, torch::kFloat));
  }
  executor::Values features;
  for (const auto& [key, info] : signature.inputs) features[key] = people.at(key);
  const auto wanted = std::get<at::Tensor>(model.run("predict", people).at("logits"));
  const auto found = std::get<at::Tensor>(
      executor::ExecutableModel::from(alone, {}).run("predict", features).at("logits"));
  EXPECT_TRUE(torch::allclose(found, wanted, 1e-5, 1e-5)) << found << wanted;
}

// Exports of feature columns have ids with the numbers of their rows, and a table.
TEST(OtherEngines, LookUpRowsOfATableInONNX) {
  using graph::DataType;
  const auto table = torch::rand({5, 3}) - 0.5;
  const auto ids = torch::tensor({4, 0, 0, 2, 1}, torch::kLong);
  const auto rows = torch::tensor({0, 0, 1, 3, 3}, torch::kInt);
  const graph::Attrs types{{"Tidx", DataType::kInt64},
                           {"Tsegmentids", DataType::kInt32},
                           {"Tindices", DataType::kInt32},
                           {"Tnumsegments", DataType::kInt32}};
  const auto flat = table.contiguous();
  graph::FrozenGraph frozen;
  frozen.graph.nodes = {
      graph::placeholder_node("ids", DataType::kInt64, {-1}),
      graph::placeholder_node("rows", DataType::kInt32, {-1}),
      graph::placeholder_node("count", DataType::kInt32, {}),
      graph::constant_node("table",
                           graph::TensorValue::of<float>(
                               {5, 3}, std::span<const float>(flat.data_ptr<float>(), 15))),
      graph::constant_node("axis", graph::TensorValue::scalar(std::int32_t{0})),
      node("sum", "SparseSegmentSumWithNumSegments", {"table", "ids", "rows", "count"}, types),
      node("mean", "SparseSegmentMeanWithNumSegments", {"table", "ids", "rows", "count"}, types),
      node("sqrtn", "SparseSegmentSqrtNWithNumSegments", {"table", "ids", "rows", "count"}, types),
      node("gathered", "GatherV2", {"table", "ids", "axis"},
           {{"Tparams", DataType::kFloat}, {"Tindices", DataType::kInt64}}),
      node("unsorted", "UnsortedSegmentSum", {"gathered", "rows", "count"}, types),
      node("quotient", "DivNoNan", {"mean", "unsorted"}),
  };
  frozen.signature.inputs = {{"ids", tensor("ids", DataType::kInt64, {-1})},
                             {"rows", tensor("rows", DataType::kInt32, {-1})},
                             {"count", tensor("count", DataType::kInt32, {})}};
  for (const auto* name : {"mean", "quotient", "sqrtn", "sum", "unsorted"}) {
    frozen.signature.outputs.emplace(name, tensor(name, DataType::kFloat, {-1, 3}));
  }
  const auto sum =
      torch::zeros({4, 3}).index_add(0, rows.to(torch::kLong), table.index_select(0, ids));
  const auto counts = torch::tensor({2.0F, 1.0F, 1.0F, 2.0F}).unsqueeze(1);
  const auto mean = sum / counts;
  const TempDir folder;
  write_npy(folder / "in.ids.npy", ids);
  write_npy(folder / "in.rows.npy", rows);
  write_npy(folder / "in.count.npy", torch::tensor(4, torch::kInt));
  write_npy(folder / "out.sum.npy", sum);
  write_npy(folder / "out.unsorted.npy", sum);
  write_npy(folder / "out.mean.npy", mean);
  write_npy(folder / "out.sqrtn.npy", sum / counts.sqrt());
  write_npy(folder / "out.quotient.npy",
            torch::where(sum == 0, torch::zeros_like(sum), mean / sum));
  testing::write_bytes(folder / "model.onnx", onnx::encode_model(onnx::convert(frozen)));
  expect_script("check_onnx.py", folder.path());
}

}  // namespace
}  // namespace muster
