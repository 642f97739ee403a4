#include "muster/serving/executable/torch_script_servable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/executor/value.h"
#include "muster/serving/codec/model_files.h"
#include "muster/serving/core/version_folders.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::serving {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using testing::message_of;
using testing::TempDir;

/// Copies of the files of the tests, with a signature beside them.
class TorchScriptServableTest : public ::testing::Test {
 protected:
  Path copy(const std::string& name, const std::string& signature = "") {
    Path file = dir_ / (name + ".pt");
    std::filesystem::copy_file(Path(MODELS_DIR) / (name + ".pt"), file);
    if (!signature.empty()) testing::write_bytes(torch_script_signature_path(file), signature);
    return file;
  }
  std::shared_ptr<const Servable> load(const std::string& name, const std::string& signature = "") {
    return load_torch_script(copy(name, signature), {});
  }
  std::string refusal(const std::string& name, const std::string& signature) {
    return message_of([&] { load(name, signature); });
  }

  TempDir dir_;
};

constexpr const char* kFour = R"({"inputs": {"x": {"dtype": "float32", "shape": [-1, 4]}}})";

graph::TensorValue value_of(const at::Tensor& tensor) { return executor::to_tensor_value(tensor); }

at::Tensor tensor_in(const Tensors& answer, const std::string& name) {
  return std::get<at::Tensor>(executor::to_value(answer.at(name)));
}

TEST_F(TorchScriptServableTest, AnswersWithWhatLibtorchComputesOfTheFile) {
  const auto servable = load("cnn", R"({"inputs": {"image": {"shape": [-1, 1, 8, 8]}}})");
  const at::Tensor image = torch::rand({3, 1, 8, 8});
  torch::jit::Module module = torch::jit::load(Path(MODELS_DIR) / "cnn.pt");
  module.eval();
  const auto answer = servable->run("serving_default", {{"image", value_of(image)}});
  EXPECT_TRUE(torch::equal(tensor_in(answer, "output_0"), module.forward({image}).toTensor()));
}

TEST_F(TorchScriptServableTest, KnowsTypesAndShapesOfOutputsByRunningForward) {
  const auto servable = load("named", kFour);
  const graph::SignatureDef& signature = servable->signatures().at("serving_default");
  EXPECT_EQ(signature.method_name, graph::kPredictMethod);
  EXPECT_THAT(signature.inputs, ElementsAre(Key("x")));
  ASSERT_THAT(signature.outputs, ElementsAre(Key("logits"), Key("probabilities")));
  EXPECT_EQ(signature.outputs.at("logits").dtype, graph::DataType::kFloat);
  EXPECT_EQ(signature.outputs.at("logits").shape, (graph::Shape{-1, 3}));
}

TEST_F(TorchScriptServableTest, NamesOutputsAsTheSignatureDoes) {
  const auto servable =
      load("pair", R"({"inputs": {"a": {"shape": [-1, 2]}, "b": {"shape": [-1, 3]}},
                                         "outputs": ["probabilities", "logits"]})");
  const auto answer = servable->run("serving_default", {{"a", value_of(torch::ones({1, 2}))},
                                                        {"b", value_of(torch::ones({1, 3}))}});
  EXPECT_NEAR(tensor_in(answer, "probabilities").sum().item<float>(), 1, 1e-6);
  EXPECT_TRUE(answer.contains("logits"));
  EXPECT_THAT(refusal("named", R"({"inputs": {"x": {"shape": [-1, 4]}}, "outputs": ["one"]})"),
              HasSubstr("it gives 2 outputs, and the signature names 1"));
}

TEST_F(TorchScriptServableTest, TakesOptionalTensorsThatTheSignatureHas) {
  const std::string tokens = R"("tokens": {"dtype": "int64", "shape": [-1, 8]})";
  const auto without = load("encoder", "{\"inputs\": {" + tokens + "}}");
  std::filesystem::remove(dir_ / "encoder.pt");
  const auto with = load("encoder", "{\"inputs\": {" + tokens +
                                        R"(, "mask": {"dtype": "float32", "shape": [-1, 8]}}})");
  const auto row = value_of(torch::arange(8).reshape({1, 8}));
  const auto all = tensor_in(without->run("", {{"tokens", row}}), "output_0");
  at::Tensor mask = torch::ones({1, 8});
  EXPECT_TRUE(torch::allclose(
      all, tensor_in(with->run("", {{"mask", value_of(mask)}, {"tokens", row}}), "output_0")));
  mask[0][7] = 0;
  EXPECT_FALSE(torch::allclose(
      all, tensor_in(with->run("", {{"mask", value_of(mask)}, {"tokens", row}}), "output_0")));
}

TEST_F(TorchScriptServableTest, TakesFloatsOfAnyShapeWithoutASignature) {
  const auto servable = load("mlp");
  const auto answer = servable->run("", {{"x", value_of(torch::ones({2, 4}))}});
  EXPECT_EQ(tensor_in(answer, "output_0").sizes(), at::IntArrayRef({2, 3}));
  EXPECT_THAT(message_of([&] {
                servable->run("", {{"x", value_of(torch::ones({2, 5}))}});
              }),
              AllOf(HasSubstr("mlp.pt"), HasSubstr("forward(Tensor x)")));
}

TEST_F(TorchScriptServableTest, RefusesInputsThatDoNotFit) {
  const auto servable = load("mlp", kFour);
  const auto run = [&](const Tensors& inputs) {
    return message_of([&] { servable->run("", inputs); });
  };
  EXPECT_THAT(run({}), HasSubstr("needs the input x"));
  EXPECT_THAT(run({{"x", value_of(torch::ones({1, 4}))}, {"y", value_of(torch::ones({1}))}}),
              HasSubstr("has no input y"));
  EXPECT_THAT(run({{"x", value_of(torch::ones({1, 5}))}}),
              HasSubstr("the input x must be DT_FLOAT (-1, 4), but is DT_FLOAT [1, 5]"));
  EXPECT_THAT(run({{"x", value_of(torch::ones({1, 4}, torch::kInt64))}}),
              HasSubstr("but is DT_INT64 [1, 4]"));
}

TEST_F(TorchScriptServableTest, RefusesSignaturesWithFileAndReason) {
  EXPECT_THAT(refusal("mlp", "{"), AllOf(HasSubstr("mlp.signature.json is no signature such as"),
                                         HasSubstr("parse error")));
  EXPECT_THAT(refusal("traced_mlp", R"({"inputs": {"y": {}}})"),
              HasSubstr("the signature has no input for its argument `x`"));
  EXPECT_THAT(refusal("named", R"({"inputs": {"x": {"dtype": "string"}}})"),
              AllOf(HasSubstr("named.signature.json"), HasSubstr("the dtype \"string\"")));
  EXPECT_THAT(refusal("tied", R"({"inputs": {"x": {"shape": [-2]}}})"), HasSubstr("[-2]"));
  EXPECT_THAT(refusal("cnn", R"({"inputs": {"image": {"shape": [-1, 2, 8, 8]}}})"),
              HasSubstr("cnn.pt: forward(Tensor image)"));
  EXPECT_THAT(refusal("dictionary", kFour), HasSubstr("which no request has"));
}

TEST_F(TorchScriptServableTest, AnswersRequestsOfSeveralThreadsInTurnWhereForwardChangesTheModule) {
  const auto servable = load("remembers", kFour);
  const auto x = value_of(torch::ones({1, 4}));
  constexpr int kThreads = 4;
  constexpr int kCalls = 50;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        for (int call = 0; call < kCalls; ++call) servable->run("", {{"x", x}});
      });
    }
  }
  // The module counts its calls; the first two were examples.
  torch::jit::Module module = torch::jit::load(Path(MODELS_DIR) / "remembers.pt");
  const at::Tensor once = module.forward({torch::ones({1, 4})}).toTensor();
  const auto last = tensor_in(servable->run("", {{"x", x}}), "output_0");
  EXPECT_TRUE(torch::allclose(last, once * (2 + kThreads * kCalls + 1)));
}

TEST_F(TorchScriptServableTest, IsAVersionByItselfAndInAFolderOfVersions) {
  const Path file = copy("mlp", kFour);
  EXPECT_THAT(versions_in(file), ElementsAre(std::pair<const std::int64_t, Path>(1, file)));
  const std::string before = version_fingerprint(file);
  testing::write_bytes(torch_script_signature_path(file), "{}");
  EXPECT_NE(version_fingerprint(file), before);
  std::filesystem::create_directories(dir_ / "mlp/7");
  EXPECT_FALSE(is_version(dir_ / "mlp/7"));
  std::filesystem::copy_file(file, dir_ / "mlp/7/model.pt");
  EXPECT_TRUE(is_version(dir_ / "mlp/7"));
  EXPECT_EQ(torch_script_in(dir_ / "mlp/7"), dir_ / "mlp/7/model.pt");
  EXPECT_THAT(versions_in(dir_ / "mlp"), ElementsAre(Key(7)));
}

}  // namespace
}  // namespace muster::serving
