// TorchScript files of PyTorch's as models of a run: the same weights as the model in C++, and for
// any layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/export/export_saved_model.h"
#include "muster/nn/torch_script/torch_script.h"
#include "muster/nn/torch_script/torch_script_model.h"
#include "muster/nn/weights/load_weights.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/message_of.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/small_net_internal.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::operator+;
using small_net::latest_values;
using small_net::quiet_config;

Path file_of(const std::string& name) { return Path(MODELS_DIR) / (name + ".pt"); }

// ----------------------------------------------------------------- the encoder in C++

// tests/torch_script/make_models.py has the same in Python. torch::nn::Linear computes by other
// operations than PyTorch's, so its weights go to PyTorch's operation.
torch::Tensor apply_linear(const torch::nn::Linear& layer, const torch::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

struct AttentionImpl : torch::nn::Module {
  AttentionImpl(std::int64_t width, std::int64_t head_count) : heads(head_count) {
    query = register_module("query", torch::nn::Linear(width, width));
    key = register_module("key", torch::nn::Linear(width, width));
    value = register_module("value", torch::nn::Linear(width, width));
    out = register_module("out", torch::nn::Linear(width, width));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
  }
  torch::Tensor split(const torch::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    const torch::Tensor q = split(apply_linear(query, x));
    const torch::Tensor k = split(apply_linear(key, x));
    const torch::Tensor v = split(apply_linear(value, x));
    torch::Tensor scores =
        torch::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
    scores = scores.masked_fill(mask.unsqueeze(1).unsqueeze(1) == 0, -1e9);
    const torch::Tensor attended = torch::matmul(dropout->forward(torch::softmax(scores, -1)), v);
    return apply_linear(out, attended.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  std::int64_t heads;
  torch::nn::Linear query{nullptr}, key{nullptr}, value{nullptr}, out{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Attention);

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t width, std::int64_t heads) {
    attention = register_module("attention", Attention(width, heads));
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    linear1 = register_module("linear1", torch::nn::Linear(width, 2 * width));
    linear2 = register_module("linear2", torch::nn::Linear(2 * width, width));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
  }
  torch::Tensor forward(torch::Tensor x, const torch::Tensor& mask) {
    x = norm1->forward(x + dropout->forward(attention->forward(x, mask)));
    const torch::Tensor inner = torch::gelu(apply_linear(linear1, x));
    return norm2->forward(x + dropout->forward(apply_linear(linear2, inner)));
  }
  Attention attention{nullptr};
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear linear1{nullptr}, linear2{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

struct Encoder : Model {
  Encoder() {
    positions = register_parameter("positions", torch::zeros({8, 16}));
    tokens = register_module("tokens", torch::nn::Embedding(20, 16));
    blocks = register_module("blocks", torch::nn::ModuleList());
    for (int i = 0; i < 2; ++i) blocks->push_back(Block(16, 2));
    logits = register_module("logits", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(const Features& features) override {
    torch::Tensor x = tokens->forward(features.tensor("tokens")) + positions;
    for (const auto& block : *blocks) {
      x = block->as<BlockImpl>()->forward(x, features.tensor("mask"));
    }
    return apply_linear(logits, x.mean(1));
  }
  torch::Tensor positions;
  torch::nn::Embedding tokens{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::Linear logits{nullptr};
};

// Eight tokens; the label is how often the first comes, and what is masked does not count.
Batch sentences(std::span<const std::int64_t> numbers) {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> mask;
  std::vector<std::int64_t> labels;
  for (const std::int64_t number : numbers) {
    Random random(17, 0, static_cast<std::uint64_t>(number));
    std::int64_t count = 0;
    for (int i = 0; i < 8; ++i) {
      tokens.push_back(static_cast<std::int64_t>(random.uniform(0, 20)));
      mask.push_back(random.uniform(0, 1) < 0.8 ? 1 : 0);
      count += tokens.back() < 4 && mask.back() == 1 ? 1 : 0;
    }
    labels.push_back(std::min<std::int64_t>(count, 2));
  }
  const auto rows = static_cast<std::int64_t>(numbers.size());
  return make_batch({{"tokens", tensor_of(std::move(tokens), {rows, 8})},
                     {"mask", tensor_of(std::move(mask), {rows, 8})}},
                    tensor_of(std::move(labels), {rows, 1}));
}

Dataset<Batch> sentence_input(const InputContext& in) {
  return range(400).shuffle(400, in.seed()).shard(in).repeat().batch(8, sentences);
}

// Noise of 8 x 8, brighter in one of three places.
Batch pictures(std::span<const std::int64_t> numbers) {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (const std::int64_t number : numbers) {
    Random random(19, 0, static_cast<std::uint64_t>(number));
    for (int i = 0; i < 64; ++i) {
      pixels.push_back(static_cast<float>(random.normal() + (i / 22 == number % 3 ? 1 : 0)));
    }
    labels.push_back(number % 3);
  }
  const auto rows = static_cast<std::int64_t>(numbers.size());
  return make_batch({{"image", tensor_of(std::move(pixels), {rows, 1, 8, 8})}},
                    tensor_of(std::move(labels), {rows, 1}));
}

Dataset<Batch> picture_input(const InputContext& in) {
  return range(300).shuffle(300, in.seed()).shard(in).repeat().batch(8, pictures);
}

Dataset<Batch> picture_evaluation(const InputContext&) {
  return range(420).skip(300).batch(60, pictures);
}

EstimatorOptions options_for(ModelFactory model) {
  return {.model = std::move(model),
          .head = multi_class_head(3),
          .optimizer = adam({.learning_rate = 0.01})};
}

EstimatorOptions script(const std::string& name) {
  return options_for(torch_script_model(file_of(name)));
}

// The values of a model's parameters and buffers when a run's last checkpoint is loaded into it.
std::map<std::string, torch::Tensor> trained_values(Model& model, const Path& model_dir) {
  load_weights(model, model_dir, {.strict = false});
  std::map<std::string, torch::Tensor> values;
  for (const auto& item : model.named_parameters()) values[item.key()] = item.value();
  for (const auto& item : model.named_buffers()) values[item.key()] = item.value();
  return values;
}

TEST(TorchScriptTraining, AnEncoderEndsWithTheWeightsOfTheSameModelInCpp) {
  for (const std::int64_t replicas : {1, 2}) {
    const TempDir folder;
    const auto train = [&](const char* name, const ModelFactory& model) {
      RunConfig config = quiet_config(folder / name);
      config.reproducibility.replicas = replicas;
      Estimator(options_for(model), config).train(sentence_input, {.max_steps = 25});
    };
    const ModelFactory in_cpp = [] {
      auto model = std::make_shared<Encoder>();
      load_weights(*model, file_of("encoder"));
      return model;
    };
    train("file", torch_script_model(file_of("encoder")));
    train("cpp", in_cpp);
    TorchScriptModel from_file(file_of("encoder"));
    Encoder from_cpp;
    const auto untrained = from_file.parameters()[0].clone();
    const auto file_values = trained_values(from_file, folder / "file");
    const auto cpp_values = trained_values(from_cpp, folder / "cpp");
    EXPECT_FALSE(torch::equal(untrained, from_file.parameters()[0]));
    ASSERT_EQ(file_values.size(), cpp_values.size());
    ASSERT_EQ(file_values.size(), 36U);
    for (const auto& [name, value] : file_values) {
      ASSERT_TRUE(cpp_values.contains(name)) << name;
      EXPECT_TRUE(torch::equal(value, cpp_values.at(name)))
          << name << " with " << replicas << " replicas differs by "
          << (value - cpp_values.at(name)).abs().max().item<double>();
    }
  }
}

TEST(TorchScriptTraining, ReplicasGiveTheSameBitsHoweverManyRunAtATime) {
  for (const std::string name : {"cnn", "counts"}) {
    const bool is_cnn = name == "cnn";
    const TempDir folder;
    std::vector<std::map<std::string, std::string>> outcomes;
    for (const int concurrent : {1, 2, 4}) {
      RunConfig config = quiet_config(folder / std::to_string(concurrent));
      config.reproducibility.replicas = 4;
      config.devices.concurrent_replicas = concurrent;
      Estimator estimator(script(name), config);
      const auto input = [&](const InputContext& in) {
        if (is_cnn) return picture_input(in);
        return picture_input(in).map([](const Batch& batch) {
          return make_batch({{"x", batch.features.tensor("image").flatten(1).narrow(1, 0, 4)}},
                            batch.labels.tensor(kLabel));
        });
      };
      estimator.train(input, {.max_steps = 9});
      outcomes.push_back(latest_values(config.model_dir));
    }
    EXPECT_EQ(outcomes[0], outcomes[1]) << name;
    EXPECT_EQ(outcomes[0], outcomes[2]) << name;
    EXPECT_TRUE(outcomes[0].contains(is_cnn ? "norm/running_mean" : "seen"));
  }
}

TEST(TorchScriptTraining, ResumesToTheBitAtEveryStep) {
  const TempDir folder;
  Estimator(script("cnn"), quiet_config(folder / "whole")).train(picture_input, {.max_steps = 9});
  for (std::int64_t step = 1; step <= 9; ++step) {
    Estimator(script("cnn"), quiet_config(folder / "parts"))
        .train(picture_input, {.max_steps = step});
  }
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "parts"));
}

TEST(TorchScriptTraining, LearnsEvaluatesAndExports) {
  const TempDir folder;
  Estimator estimator(script("cnn"), quiet_config(folder / "run"));
  estimator.train(picture_input, {.max_steps = 150});
  const EvaluationResult first = estimator.evaluate(picture_evaluation);
  EXPECT_GT(first.at("accuracy"), 0.7);
  EXPECT_EQ(first, estimator.evaluate(picture_evaluation)) << "dropout is off";

  const std::vector<std::int64_t> numbers{300, 301, 302, 303, 304};
  const torch::Tensor images = pictures(numbers).features.tensor("image");
  const Predictor predictor(estimator.options(), folder / "run");
  const torch::Tensor wanted =
      predictor.predict({{"image", images}}, {"probabilities"}).tensor("probabilities");
  const Path exported = export_saved_model(estimator, folder / "export",
                                           raw_serving_input({{"image", images.slice(0, 0, 2)}}));
  const auto answers =
      executor::ExecutableModel::load(exported).run("serving_default", {{"image", images}});
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answers.at("probabilities")), wanted, 1e-5, 1e-6));

  TorchScriptModel model(file_of("cnn"));
  load_weights(model, folder / "run", {.strict = false});
  model.eval();
  model.save_script(folder / "trained.pt");
  TorchScriptModel again(folder / "trained.pt");
  again.eval();
  EXPECT_TRUE(at::allclose(torch::softmax(again.forward({{"image", images}}), -1), wanted));
}

TEST(TorchScriptTraining, AnEncoderIsExported) {
  const TempDir folder;
  TorchScriptModel model(file_of("encoder"));
  model.eval();
  const std::vector<std::int64_t> numbers{1, 2, 3};
  const Features features = sentences(numbers).features;
  const auto head = multi_class_head(3);
  exporting::write_model(model, head.get(),
                         raw_serving_input({{"tokens", features.slice(0, 2).tensor("tokens")},
                                            {"mask", features.slice(0, 2).tensor("mask")}}),
                         folder / "export");
  const auto answers = executor::ExecutableModel::load(folder / "export")
                           .run("serving_default", {{"tokens", features.tensor("tokens")},
                                                    {"mask", features.tensor("mask")}});
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answers.at("logits")), model.forward(features),
                           1e-4, 1e-5));
}

// ------------------------------------------------------------------------- as processes

class TorchScriptProcess : public ::testing::Test {
 protected:
  Words flags(const std::string& name) const {
    return {"--model",
            SPIRAL_FILE,
            "--job-dir",
            folder_ / name,
            "--train-steps",
            "40",
            "--replicas",
            "2",
            "--seed",
            "3",
            "--save-checkpoints-steps",
            "5"};
  }
  std::string hash_alone(const std::string& name, const Words& more = {}) const {
    const Outcome outcome = testing::run_program(TORCHSCRIPT_PROGRAM, flags(name) + more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return hash_of(folder_ / name);
  }
  std::string hash_of_cluster(const std::string& name, const Words& cluster) const {
    const Words words = Words{"launch", "--log-dir", folder_ / (name + "-logs")} + cluster +
                        Words{"--", TORCHSCRIPT_PROGRAM} + flags(name);
    const Outcome outcome = testing::run_program(MUSTER_PROGRAM, words);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return hash_of(folder_ / name);
  }
  TempDir folder_;
};

TEST_F(TorchScriptProcess, LayoutsAndKillsChangeNoBit) {
  const std::string alone = hash_alone("alone");
  EXPECT_EQ(hash_alone("towers", {"--concurrent-replicas", "2"}), alone);
  EXPECT_EQ(hash_of_cluster("collective", {"--workers", "2", "--ps", "0"}), alone);
  EXPECT_EQ(hash_of_cluster("ps", {"--workers", "1", "--ps", "1"}), alone);
  {
    RunningProgram program(TORCHSCRIPT_PROGRAM, flags("killed"));
    while (!program.ended() && !latest_checkpoint(folder_ / "killed")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    program.send(SIGKILL);
    EXPECT_TRUE(program.wait().killed);
  }
  EXPECT_EQ(hash_alone("killed"), alone);
}

TEST_F(TorchScriptProcess, ABadFileIsNamedBeforeAnythingIsTrained) {
  const Path bad = folder_ / "bad.pt";
  testing::write_bytes(bad, testing::read_bytes(SPIRAL_FILE).substr(0, 5000));
  const Outcome outcome =
      testing::run_program(TORCHSCRIPT_PROGRAM, flags("bad") + Words{"--model", bad.string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("bad.pt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad"));
}

}  // namespace
}  // namespace muster
