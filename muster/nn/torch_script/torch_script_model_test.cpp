#include "muster/nn/torch_script/torch_script_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/types.h>

#include <fstream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/model/module_variables.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

Path file_of(const std::string& name) { return Path(MODELS_DIR) / (name + ".pt"); }

std::shared_ptr<TorchScriptModel> model_of(const std::string& name,
                                           const TorchScriptOptions& options = {}) {
  return std::make_shared<TorchScriptModel>(file_of(name), options);
}

std::string refusal(const std::string& name, const TorchScriptOptions& options = {}) {
  return message_of([&] { torch_script_model(file_of(name), options); });
}

std::vector<std::string> variable_names(const torch::nn::Module& model) {
  std::vector<std::string> names;
  for (const ModuleVariable& variable : variables_of(model)) names.push_back(variable.name);
  return names;
}

Features four(std::int64_t rows = 2) { return Features{{"x", torch::ones({rows, 4})}}; }

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return torch::equal(a, b); }

TEST(TorchScriptModel, HasTheFilesVariablesUnderTheirNames) {
  const auto model = model_of("cnn");
  EXPECT_THAT(variable_names(*model),
              ElementsAre("conv/weight", "conv/bias", "norm/weight", "norm/bias", "logits/weight",
                          "logits/bias", "norm/running_mean", "norm/running_var",
                          "norm/num_batches_tracked"));
  EXPECT_TRUE(model->named_parameters()["conv.weight"].requires_grad());
  EXPECT_EQ(model->named_buffers()["norm.running_var"].sizes(), at::IntArrayRef({4}));
}

TEST(TorchScriptModel, ComputesWhatLibtorchComputesOfTheFile) {
  for (const std::string name : {"mlp", "traced_mlp"}) {
    const auto model = model_of(name);
    torch::jit::Module module = torch::jit::load(file_of(name).string());
    const torch::Tensor x = torch::randn({5, 4});
    EXPECT_TRUE(same_bits(model->forward({{"x", x}}), module.forward({x}).toTensor())) << name;
  }
}

TEST(TorchScriptModel, GradientsReachTheRegisteredParameters) {
  const auto model = model_of("encoder");
  model->eval();
  const Features features{{"tokens", torch::arange(16).view({2, 8})}};
  model->forward(features).square().sum().backward();
  for (const auto& parameter : model->named_parameters()) {
    EXPECT_GT(parameter.value().grad().abs().sum().item<double>(), 0) << parameter.key();
  }
}

TEST(TorchScriptModel, ReadsParametersWhereverTheirValuesAreMoved) {
  const auto model = model_of("mlp");
  const torch::Tensor before = model->forward(four());
  for (torch::Tensor& parameter : model->parameters()) {
    parameter.set_data(torch::zeros_like(parameter));
  }
  EXPECT_FALSE(same_bits(before, model->forward(four())));
  EXPECT_TRUE(same_bits(model->forward(four()), torch::zeros({2, 3})));
}

TEST(TorchScriptModel, TrainAndEvalReachTheFilesModules) {
  const auto model = model_of("cnn");
  const Features images{{"image", torch::randn({4, 1, 8, 8})}};
  model->eval();
  const torch::Tensor mean = model->named_buffers()["norm.running_mean"];
  const torch::Tensor before = mean.clone();
  EXPECT_TRUE(same_bits(model->forward(images), model->forward(images)));
  EXPECT_TRUE(same_bits(before, mean));
  model->train();
  EXPECT_FALSE(same_bits(model->forward(images), model->forward(images)));
  EXPECT_FALSE(same_bits(before, mean));
}

TEST(TorchScriptModel, DropoutIsAFunctionOfTheSeed) {
  const auto model = model_of("cnn");
  const Features images{{"image", torch::ones({4, 1, 8, 8})}};
  at::manual_seed(7);
  const torch::Tensor first = model->forward(images);
  const torch::Tensor second = model->forward(images);
  at::manual_seed(7);
  EXPECT_TRUE(same_bits(first, model->forward(images)));
  EXPECT_FALSE(same_bits(first, second));
}

// libtorch's executor profiles the first calls and runs other code afterwards.
TEST(TorchScriptModel, EveryCallGivesTheSameBits) {
  const auto model = model_of("encoder");
  const Features features{{"tokens", torch::arange(16).view({2, 8})},
                          {"mask", torch::ones({2, 8}, torch::kLong)}};
  std::vector<torch::Tensor> outcomes;
  for (int call = 0; call < 6; ++call) {
    at::manual_seed(3);
    model->zero_grad();
    torch::Tensor logits = model->forward(features);
    logits.square().sum().backward();
    std::vector<torch::Tensor> all{logits.detach().flatten()};
    for (const torch::Tensor& parameter : model->parameters()) {
      all.push_back(parameter.grad().flatten().clone());
    }
    outcomes.push_back(torch::cat(all));
  }
  for (const torch::Tensor& outcome : outcomes) EXPECT_TRUE(same_bits(outcome, outcomes[0]));
}

TEST(TorchScriptModel, ABufferThatIsAssignedAnewStaysTheRegisteredOne) {
  const auto model = model_of("counts");
  const torch::Tensor seen = model->named_buffers()["seen"];
  model->forward(four(2));
  const torch::Tensor second = model->forward(four(3));
  EXPECT_EQ(seen.item<float>(), 5);
  EXPECT_TRUE(model->named_buffers()["seen"].is_same(seen));
  model->eval();
  EXPECT_TRUE(same_bits(model->forward(four(3)), second)) << "forward reads the registered buffer";
  seen.zero_();
  EXPECT_FALSE(same_bits(model->forward(four(3)), second));
}

TEST(TorchScriptModel, TwoModelsOfAFactoryShareNothing) {
  const ModelFactory factory = torch_script_model(file_of("mlp"));
  const auto first = factory();
  const auto second = factory();
  const torch::NoGradGuard no_grad;
  first->parameters()[0].zero_();
  EXPECT_FALSE(same_bits(first->forward(four()), second->forward(four())));
}

TEST(TorchScriptModel, OneTensorUnderTwoNamesStaysOne) {
  const auto model = model_of("tied");
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(parameters["first.weight"].is_same(parameters["second.weight"]));
  model->forward(four()).sum().backward();
  EXPECT_TRUE(parameters["first.weight"].grad().defined());
}

TEST(TorchScriptModel, ArgumentsTakeFeaturesByOptionByNameElseInOrder) {
  const torch::Tensor a = torch::randn({2, 2});
  const torch::Tensor b = torch::randn({2, 3});
  const auto pair = model_of("pair", {.output = "1"});
  const torch::Tensor by_name = pair->forward({{"b", b}, {"a", a}});
  EXPECT_TRUE(same_bits(by_name, pair->forward({{"first", a}, {"second", b}}))) << "in order";
  EXPECT_TRUE(same_bits(by_name, pair->forward({{"b", b}, {"more", b}, {"a", a}})));
  const auto named = model_of("pair", {.inputs = {{"a", "left"}, {"b", "right"}}, .output = "1"});
  EXPECT_TRUE(same_bits(by_name, named->forward({{"right", b}, {"left", a}})));
}

TEST(TorchScriptModel, AnArgumentWithoutAFeatureIsNamed) {
  const auto pair = model_of("pair", {.output = "1"});
  const torch::Tensor a = torch::randn({2, 2});
  EXPECT_THAT(message_of([&] {
                pair->forward({{"a", a}, {"c", a}});
              }),
              AllOf(HasSubstr("pair.pt: forward(Tensor a, Tensor b, float scale=1"),
                    HasSubstr("there is no feature for its argument `b`"),
                    HasSubstr("the features are a: a Float tensor [2, 2], c: a "
                              "Float tensor [2, 2]"),
                    HasSubstr("TorchScriptOptions::inputs, {{\"b\", FEATURE}}")));
  EXPECT_THAT(refusal("pair", {.inputs = {{"aa", "x"}}}),
              AllOf(HasSubstr("has no argument `aa`"), HasSubstr("did you mean a?")));
}

TEST(TorchScriptModel, ADictionaryHasAllFeatures) {
  const auto model = model_of("dictionary", {.output = "logits"});
  const Features features{{"a", torch::ones({2, 2})}, {"b", torch::ones({2, 3})}};
  EXPECT_EQ(model->forward(features).sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(model->outputs(features).size(), 2U);
}

TEST(TorchScriptModel, OutputsAreNamedByKeyFieldOrPlace) {
  const Features x = four();
  const auto logits = model_of("named", {.output = "logits"})->forward(x);
  EXPECT_TRUE(same_bits(logits, model_of("named", {.output = "1"})->forward(x)));
  EXPECT_TRUE(same_bits(torch::softmax(logits, -1),
                        model_of("named", {.output = "probabilities"})->forward(x)));
  EXPECT_THAT(message_of([&] { model_of("named")->forward(x); }),
              HasSubstr("it gives 2 outputs, probabilities, logits: name the one with the logits"));
  EXPECT_THAT(message_of([&] { model_of("named", {.output = "logit"})->forward(x); }),
              HasSubstr("gives no `logit`, but probabilities, logits"));
}

TEST(TorchScriptModel, AFailingOperationIsNamedWithItsPlaceInTheFile) {
  EXPECT_THAT(
      message_of([] {
        model_of("mlp")->forward({{"x", torch::ones({2, 5})}});
      }),
      AllOf(HasSubstr("mlp.pt: forward(Tensor x)"), HasSubstr("code/__torch__"), HasSubstr("5")));
}

TEST(TorchScriptModel, RefusesWhatCannotBeTrainedAndSaysWhatToDo) {
  EXPECT_THAT(refusal("half"), AllOf(HasSubstr("half.pt: the parameter `hidden.weight` is Half"),
                                     HasSubstr("save module.float()")));
  EXPECT_THAT(refusal("frozen"),
              AllOf(HasSubstr("no parameters"), HasSubstr("before it is frozen")));
  EXPECT_THAT(refusal("without_gradients"), HasSubstr("module.requires_grad_(True)"));
  EXPECT_THAT(refusal("remembers"), AllOf(HasSubstr("forward changes the attribute `calls`, a int"),
                                          HasSubstr("register_buffer(\"calls\"")));
  EXPECT_THAT(refusal("traced_in_eval"),
              AllOf(HasSubstr("is in the mode for evaluation"),
                    HasSubstr("torch.jit.script(module)"), HasSubstr("fixed_modes")));
  EXPECT_EQ(refusal("traced_in_eval", {.fixed_modes = true}), "nothing was thrown");
}

TEST(TorchScriptModel, RefusesFilesThatAreNoTorchScriptWithTheirName) {
  const TempDir folder;
  EXPECT_THAT(refusal("none"), HasSubstr("none.pt"));
  EXPECT_THAT(refusal("weights_only"),
              AllOf(HasSubstr("weights_only.pt holds weights"), HasSubstr("load_weights()")));
  EXPECT_THAT(refusal("unknown_operator"),
              AllOf(HasSubstr("unknown_operator.pt needs what this libtorch ("),
                    HasSubstr("relu_of_tomorrow")));
  write_file_atomically(folder / "text.pt", "no archive");
  EXPECT_THAT(message_of([&] { torch_script_model(folder / "text.pt"); }),
              AllOf(HasSubstr("text.pt is no TorchScript file"), HasSubstr("torch.jit.script")));
  EXPECT_THAT(message_of([&] { torch_script_model(file_of("mlp"), {.limit_bytes = 100}); }),
              HasSubstr("mlp.pt"));
}

TEST(TorchScriptModel, RefusesTruncatedAndDamagedFilesWithTheirName) {
  const TempDir folder;
  const std::string whole = read_file(file_of("mlp"));
  const Path path = folder / "damaged.pt";
  for (const double part : {0.0, 0.1, 0.5, 0.9, 0.999}) {
    write_file_atomically(
        path, whole.substr(0, static_cast<std::size_t>(part * static_cast<double>(whole.size()))));
    EXPECT_THAT(message_of([&] { torch_script_model(path); }), HasSubstr("damaged.pt")) << part;
  }
  // Values are held to their checksums.
  const std::size_t name = whole.find("data/0");
  ASSERT_NE(name, std::string::npos);
  const std::size_t values = (name + 10 + 63) / 64 * 64;
  std::string flipped = whole;
  flipped[values] = static_cast<char>(flipped[values] ^ 1);
  write_file_atomically(path, flipped);
  EXPECT_THAT(message_of([&] { torch_script_model(path); }), HasSubstr("damaged.pt"));
}

TEST(TorchScriptModel, WritesItsValuesAsAFileForPython) {
  const TempDir folder;
  const auto model = model_of("cnn");
  const torch::Tensor flat = torch::full({1000}, 0.5F);
  std::int64_t at = 0;
  for (torch::Tensor& parameter : model->parameters()) {
    // As in a run, whose variables lie side by side.
    parameter.set_data(flat.narrow(0, at, parameter.numel()).view(parameter.sizes()));
    at += parameter.numel();
  }
  model->eval();
  model->save_script(folder / "trained.pt");
  torch::jit::Module module = torch::jit::load((folder / "trained.pt").string());
  const torch::Tensor images = torch::randn({2, 1, 8, 8});
  EXPECT_FALSE(module.is_training());
  EXPECT_TRUE(same_bits(module.forward({images}).toTensor(), model->forward({{"image", images}})));
  EXPECT_LT(std::filesystem::file_size(folder / "trained.pt"), 20'000);
}

}  // namespace
}  // namespace muster
