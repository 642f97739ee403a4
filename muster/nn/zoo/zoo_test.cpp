#include "muster/nn/zoo.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "muster/base/error.h"
#include "muster/data/weights/weights.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/model/recompute.h"
#include "muster/nn/model/seeded_module.h"
#include "muster/nn/weights/weight_tensor.h"
#include "muster/nn/zoo/small_networks_fake.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::zoo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using ::testing::UnorderedElementsAreArray;

double greatest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

std::vector<std::string> keys_of(const torch::nn::Module& module) {
  std::vector<std::string> keys;
  for (const auto& variable : variables_of(module)) keys.push_back(variable.key);
  return keys;
}

class ZooFixtures : public ::testing::TestWithParam<std::string> {};

TEST_P(ZooFixtures, WeightsThatPyTorchWroteLoadByNameAndGiveItsOutput) {
  const torch::NoGradGuard no_grad;
  const auto network = small_network(GetParam());
  const WeightReport report = load_weights(*network, fixture(GetParam() + ".safetensors"));
  EXPECT_TRUE(report.is_complete()) << report.text();
  for (const auto& match : report.matched) EXPECT_EQ(match.variable, match.tensor);
  network->eval();
  const auto [features, wanted] = input_and_output(GetParam());
  const at::Tensor output = network->forward(features);
  ASSERT_EQ(output.sizes(), wanted.sizes());
  EXPECT_LE(greatest_difference(output, wanted), 1e-5);
  EXPECT_GT(greatest_difference(wanted[0], wanted[1]), 1e-3) << "both rows are alike";
  if (features.size() == 1) {
    EXPECT_TRUE(output.equal(network->logits(std::get<at::Tensor>(features.begin()->second))));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZooFixtures, ::testing::ValuesIn(small_networks()),
                         [](const auto& tested) { return tested.param; });

/// Models that PyTorch has just written: tests/zoo/check, which counts the lines that this prints.
class ZooWritten : public ::testing::TestWithParam<std::string> {};

/// The inputs under the names that features of a model of the published size have.
Features published_features(const std::string& name, const Features& input) {
  const bool is_recurrent = name == "lstm" || name == "gru";
  Features features;
  for (const auto& [key, value] : input) {
    const auto& tensor = std::get<at::Tensor>(value);
    features.add(key == "input" ? (is_recurrent ? "tokens" : "input_ids") : key, tensor);
  }
  return features;
}

void expect_outputs_of_pytorch(const std::string& name, const Path& folder, bool is_small) {
  const auto [input, wanted] = read_input_and_output(folder / (name + ".io.safetensors"));
  const Features features = is_small ? input : published_features(name, input);
  // Sums of thousands of terms, whose order is each library's own: relative to the largest.
  const double bound = 1e-5 * std::max(1.0, wanted.abs().max().item<double>());
  for (const std::string ending : {".pt", ".safetensors", ""}) {
    const Path weights = folder / (name + ending);
    if (!std::filesystem::exists(weights.string())) continue;
    const auto network = is_small ? small_network(name) : make(name);
    const WeightReport report = load_published_weights(*network, weights);
    EXPECT_TRUE(report.is_complete()) << report.text();
    network->eval();
    const at::Tensor output = network->forward(features);
    ASSERT_EQ(output.sizes(), wanted.sizes());
    const double difference = greatest_difference(output, wanted);
    EXPECT_LE(difference, bound) << weights.string();
    std::cout << fmt::format("compared {}: {:.1e}, at most {:.1e}\n", weights.string(), difference,
                             bound);
  }
}

TEST_P(ZooWritten, LoadsByNameAndGivesPyTorchsOutput) {
  const char* models = std::getenv("MUSTER_ZOO_MODELS");
  if (models == nullptr) GTEST_SKIP() << "tests/zoo/check has PyTorch write the models";
  const torch::NoGradGuard no_grad;
  for (const std::string folder : {"small", "full", "transformers", "transformers_full"}) {
    const Path path = Path(models) / folder;
    if (!std::filesystem::exists((path / (GetParam() + ".io.safetensors")).string())) continue;
    expect_outputs_of_pytorch(GetParam(), path, folder == "small" || folder == "transformers");
  }
}

std::vector<std::string> small_and_published() {
  auto all = names();
  for (const std::string& name : small_networks()) all.push_back(name);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ZooWritten, ::testing::ValuesIn(small_and_published()),
                         [](const auto& tested) { return tested.param; });

TEST_P(ZooFixtures, LearnsInAFewSteps) {
  at::manual_seed(1);
  const auto network = small_network(GetParam());
  const auto [features, output] = input_and_output(GetParam());
  network->train();
  auto parameters = network->parameters();
  // All of a wanted output's numbers at once, whatever they mean.
  const auto step = [&, features = features, wanted = output.sign()](std::int64_t number) {
    const RandomScope scope(1, number, 0);
    const auto loss = (network->forward(features) - wanted).square().mean();
    network->zero_grad();
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters) {
      EXPECT_TRUE(parameter.grad().defined());
      parameter.sub_(0.05 * parameter.grad());
    }
    return loss.item<double>();
  };
  seed_modules(*network, 1);
  const double first = step(0);
  double last = first;
  for (std::int64_t number = 1; number < 20; ++number) last = step(number);
  EXPECT_LT(last, 0.8 * first);
}

std::vector<at::Tensor> gradients_of(const std::string& name, const std::string& recompute) {
  at::manual_seed(1);
  const auto network = small_network(name);
  seed_modules(*network, 1);
  network->train();
  if (!recompute.empty()) {
    EXPECT_EQ(recompute_modules(*network, recompute), 2U) << name;
  }
  const RandomScope scope(1, 0, 0);
  const auto [features, output] = input_and_output(name);
  const at::Tensor loss = (network->forward(features) - output.sign()).square().mean();
  loss.backward();
  std::vector<at::Tensor> gradients{loss.detach()};
  for (const at::Tensor& parameter : network->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

TEST(ZooRecompute, BlocksThatAreComputedAgainGiveTheSameGradients) {
  const std::map<std::string, std::string> blocks{{"gpt2", R"(.*\.h\.\d+)"},
                                                  {"bert_base", R"(.*\.layer\.\d+)"},
                                                  {"llama", ".*layers.*"},
                                                  {"vit_b_16", R"(encoder\.layers\..*)"}};
  for (const auto& [name, pattern] : blocks) {
    const auto kept = gradients_of(name, "");
    const auto again = gradients_of(name, pattern);
    ASSERT_EQ(kept.size(), again.size());
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(kept[i].equal(again[i])) << name;
  }
}

// transformers 4.40, BertForSequenceClassification with one layer.
TEST(ZooNames, OfBertAreThoseOfTransformers) {
  std::set<std::string> wanted;
  for (const std::string dense :
       {"bert.embeddings.LayerNorm", "bert.encoder.layer.0.attention.self.query",
        "bert.encoder.layer.0.attention.self.key", "bert.encoder.layer.0.attention.self.value",
        "bert.encoder.layer.0.attention.output.dense",
        "bert.encoder.layer.0.attention.output.LayerNorm",
        "bert.encoder.layer.0.intermediate.dense", "bert.encoder.layer.0.output.dense",
        "bert.encoder.layer.0.output.LayerNorm", "bert.pooler.dense", "classifier"}) {
    wanted.insert({dense + ".weight", dense + ".bias"});
  }
  for (const std::string table : {"word", "position", "token_type"}) {
    wanted.insert("bert.embeddings." + table + "_embeddings.weight");
  }
  const auto network = bert({.vocabulary = 4, .hidden = 4, .layers = 1, .heads = 1});
  EXPECT_THAT(keys_of(*network), UnorderedElementsAreArray(wanted));
}

// transformers 4.40, GPT2LMHeadModel with one layer; safetensors leave out lm_head.weight, which is
// transformer.wte.weight.
TEST(ZooNames, OfGpt2AreThoseOfTransformers) {
  std::set<std::string> wanted{"transformer.wte.weight", "transformer.wpe.weight"};
  for (const std::string dense :
       {"transformer.h.0.ln_1", "transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_proj",
        "transformer.h.0.ln_2", "transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj",
        "transformer.ln_f"}) {
    wanted.insert({dense + ".weight", dense + ".bias"});
  }
  const auto network = gpt2({.vocabulary = 4, .hidden = 4, .layers = 1, .heads = 1});
  EXPECT_THAT(keys_of(*network), UnorderedElementsAreArray(wanted));
}

// transformers 4.40, LlamaForCausalLM with one layer.
TEST(ZooNames, OfLlamaAreThoseOfTransformers) {
  std::set<std::string> wanted{"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  for (const std::string part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
                                 "mlp.down_proj", "input_layernorm", "post_attention_layernorm"}) {
    wanted.insert("model.layers.0." + part + ".weight");
  }
  LlamaOptions options{
      .vocabulary = 4, .hidden = 4, .layers = 1, .heads = 2, .key_value_heads = 1, .mlp_units = 6};
  EXPECT_THAT(keys_of(*llama(options)), UnorderedElementsAreArray(wanted));
  options.tied_embeddings = true;
  wanted.erase("lm_head.weight");
  EXPECT_THAT(keys_of(*llama(options)), UnorderedElementsAreArray(wanted));
}

TEST(ZooMake, MakesModelsOfThePublishedSizes) {
  const std::map<std::string, std::int64_t> published{{"resnet18", 11'689'512},
                                                      {"resnet34", 21'797'672},
                                                      {"resnet50", 25'557'032},
                                                      {"mobilenet_v2", 3'504'872},
                                                      {"unet", 7'763'041}};
  for (const auto& [name, parameters] : published) {
    std::int64_t count = 0;
    for (const auto& parameter : make(name)->parameters()) count += parameter.numel();
    EXPECT_EQ(count, parameters) << name;
  }
}

TEST(ZooMake, ChangesWhatItIsToldTo) {
  const auto network =
      make("mobilenet_v2", {.num_classes = 7, .image = imagenet_pixels("picture"), .dropout = 0});
  const auto pixels = at::randint(256, {2, 32, 32, 3}, at::kByte);
  EXPECT_EQ(network->forward({{"picture", pixels}}).sizes(), (std::vector<std::int64_t>{2, 7}));
  EXPECT_EQ(
      make("lstm", {.feature = "words"})->forward({{"words", at::ones({3, 4}, at::kLong)}}).sizes(),
      (std::vector<std::int64_t>{3, 2}));
}

TEST(ZooMake, AnUnknownNameIsAnsweredWithTheNearestAndAll) {
  EXPECT_THAT(message_of([] { make("resnet_50"); }),
              AllOf(HasSubstr("no model \"resnet_50\""), HasSubstr("did you mean resnet50?"),
                    HasSubstr("mobilenet_v2, unet")));
  EXPECT_THROW(make("zebra"), NotFound);
}

TEST(ZooMake, RefusesOptionsThatTheModelDoesNotHave) {
  EXPECT_THAT(message_of([] { make("gru", {.image = ImageInput()}); }),
              AllOf(HasSubstr("MakeOptions::image"), HasSubstr("making gru")));
  EXPECT_THAT(message_of([] { make("resnet18", {.dropout = 0.5}); }),
              HasSubstr("MakeOptions::dropout"));
  EXPECT_THAT(message_of([] { make("resnet18", {.num_classes = 0}); }),
              HasSubstr("ResNetOptions::num_classes must be positive: 0"));
  EXPECT_THAT(message_of([] { resnet({.groups = 2}); }), HasSubstr("bottleneck"));
  EXPECT_THAT(message_of([] { gpt2({.hidden = 10, .heads = 3}); }), HasSubstr("multiple of heads"));
  EXPECT_THAT(message_of([] { make("llama2_7b", {.num_classes = 2}); }),
              HasSubstr("MakeOptions::num_classes"));
  EXPECT_THAT(message_of([] { llama({.hidden = 6, .heads = 2}); }), HasSubstr("must be even"));
  EXPECT_THAT(message_of([] { vision_transformer({.image_size = 30}); }), HasSubstr("patch_size"));
  EXPECT_THAT(message_of([] { mobilenet_v2({.width = 0}); }), HasSubstr("width"));
  EXPECT_THAT(message_of([] {
                resnet({.image = {.mean = {1, 2}}});
              }),
              HasSubstr("ImageInput::mean has 2 numbers"));
}

TEST(ZooImages, PixelsAreNormalisedAsTorchvisionDoes) {
  const torch::NoGradGuard no_grad;
  at::manual_seed(1);
  const auto plain = resnet({.units = {1}, .base_channels = 4, .num_classes = 3});
  const auto pixels =
      resnet({.units = {1}, .base_channels = 4, .num_classes = 3, .image = imagenet_pixels()});
  const TempDir dir;
  save_weights(*plain, dir / "w.safetensors");
  load_weights(*pixels, dir / "w.safetensors");
  const auto bytes = at::randint(256, {2, 16, 16, 3}, at::kByte);
  auto image = bytes.permute({0, 3, 1, 2}).to(at::kFloat) / 255;
  const std::vector<double> mean{0.485, 0.456, 0.406}, deviation{0.229, 0.224, 0.225};
  for (std::int64_t i = 0; i < 3; ++i) image.select(1, i).sub_(mean[i]).div_(deviation[i]);
  plain->eval();
  pixels->eval();
  EXPECT_LE(
      greatest_difference(plain->forward({{"image", image}}), pixels->forward({{"image", bytes}})),
      1e-5);
}

TEST(ZooImages, AnotherShapeIsRefusedWithWhatToDo) {
  const auto network = resnet({.units = {1}, .base_channels = 4});
  EXPECT_THAT(message_of([&] {
                network->forward({{"image", at::ones({2, 16, 16, 3})}});
              }),
              AllOf(HasSubstr("feature \"image\""), HasSubstr("channels_last")));
  EXPECT_THAT(message_of([&] {
                network->logits(at::ones({2, 4, 16, 16}));
              }),
              HasSubstr("resnet takes images [batch, 3, height, width]"));
  EXPECT_THAT(message_of([] {
                unet()->logits(at::ones({1, 3, 16, 24}));
              }),
              HasSubstr("multiples of 16"));
  EXPECT_THAT(message_of([] {
                small_network("vit_b_16")->logits(at::ones({1, 3, 24, 24}));
              }),
              HasSubstr("16 x 16"));
}

TEST(ZooText, IdsOfAnotherShapeAreRefusedWithWhatToDo) {
  EXPECT_THAT(message_of([] {
                small_network("gpt2")->logits(at::ones({1, 17}, at::kLong));
              }),
              AllOf(HasSubstr("16 positions"), HasSubstr("17 long")));
  EXPECT_THAT(message_of([] {
                small_network("bert_base")->logits(at::ones({1, 4}));
              }),
              HasSubstr("whole numbers [batch, length]"));
  EXPECT_THAT(message_of([] {
                small_network("bert_base")
                    ->forward({{"input", at::ones({1, 4}, at::kLong)},
                               {"attention_mask", at::ones({1, 5}, at::kLong)}});
              }),
              HasSubstr("of the ids' shape"));
}

TEST(ZooText, PaddingChangesNothing) {
  const torch::NoGradGuard no_grad;
  const auto whole = at::arange(1, 7).reshape({1, 6});
  const auto mask = (whole < 5).to(at::kLong);
  for (const char* name : {"bert_base", "gpt2_classifier"}) {
    const auto network = small_network(name);
    network->eval();
    const auto padded = network->forward({{"input", whole}, {"attention_mask", mask}});
    const auto cut = network->logits(whole.slice(1, 0, 4));
    EXPECT_LE(greatest_difference(padded, cut), 1e-6) << name;
    EXPECT_GT(greatest_difference(network->logits(whole), cut), 1e-6) << name;
  }
}

TEST(ZooText, Gpt2WithoutAHeadLearnsTheNextToken) {
  const torch::NoGradGuard no_grad;
  const auto network = small_network("gpt2");
  network->eval();
  const auto ids = at::arange(10).reshape({2, 5});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 0, 0}).reshape({2, 5});
  const auto log_probabilities = network->logits(ids).log_softmax(2);
  double sum = 0;
  for (const auto& [row, from] :
       std::vector<std::pair<int, int>>{{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}}) {
    sum -= log_probabilities[row][from][ids[row][from + 1].item<std::int64_t>()].item<double>();
  }
  const Batch batch{.features = {{"input", ids}, {"attention_mask", mask}}};
  const auto spec = network->call(batch, Mode::kEval, nullptr);
  EXPECT_NEAR(spec.loss.item<double>(), sum / 6, 1e-5);
  EXPECT_NEAR(spec.metrics.at("average_loss").compute(), sum / 6, 1e-5);
  EXPECT_NEAR(spec.metrics.at("perplexity").compute(), std::exp(sum / 6), 1e-3);
  EXPECT_TRUE(spec.metrics.contains("accuracy"));
  const auto predictions = network->call(batch, Mode::kPredict, nullptr).predictions;
  EXPECT_TRUE(predictions.tensor("logits")[1].allclose(network->logits(ids)[1][2], 1e-5, 1e-5));
  EXPECT_EQ(predictions.tensor("next_token").sizes(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_THAT(message_of([&] {
                network->call({.features = {{"input", ids.slice(1, 0, 1)}}}, Mode::kTrain, nullptr);
              }),
              HasSubstr("give two tokens"));
}

TEST(ZooUNet, WithoutAHeadLearnsAClassForEveryPixel) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t classes : {1, 3}) {
    const auto network = unet({.base_channels = 2, .levels = 1, .num_classes = classes});
    network->eval();
    const auto images = at::rand({2, 3, 4, 6});
    const auto labels = at::randint(std::max<std::int64_t>(classes, 2), {2, 4, 6}, at::kLong);
    const Batch batch{.features = {{"image", images}}, .labels = {{"label", labels}}};
    auto logits = network->logits(images);
    if (classes == 1) logits = at::cat({at::zeros_like(logits), logits}, 1);
    const auto wanted = logits.log_softmax(1).gather(1, labels.unsqueeze(1)).neg().mean();
    const auto spec = network->call(batch, Mode::kEval, nullptr);
    EXPECT_NEAR(spec.loss.item<double>(), wanted.item<double>(), 1e-5);
    EXPECT_NEAR(spec.metrics.at("accuracy").compute(),
                (logits.argmax(1) == labels).to(at::kFloat).mean().item<double>(), 1e-6);
    const auto predictions = network->call(batch, Mode::kPredict, nullptr).predictions;
    EXPECT_TRUE(predictions.tensor("class_ids").equal(logits.argmax(1)));
    EXPECT_EQ(predictions.tensor("probabilities").size(1), classes);
  }
  EXPECT_THAT(message_of([] {
                unet({.base_channels = 2, .levels = 1})
                    ->call({.features = {{"image", at::rand({2, 3, 4, 6})}},
                            .labels = {{"label", at::ones({2, 1}, at::kLong)}}},
                           Mode::kTrain, nullptr);
              }),
              HasSubstr("give a class per pixel"));
}

/// Writes a network's variables under other names, with more tensors that the network lacks.
void write_published(Network& network, const Path& path, const WeightMap& map,
                     const std::vector<std::string>& more) {
  WeightsOfTensors all;
  std::vector<Weight> tensors;
  for (const auto& variable : variables_of(network)) {
    tensors.push_back(all.weight_of(variable.key, variable.tensor));
  }
  tensors = map.apply(std::move(tensors));
  for (const std::string& name : more) tensors.push_back(all.weight_of(name, at::ones({2, 2})));
  write_weights(path, tensors, {});
}

TEST(ZooPublishedWeights, LoadUnderTheNamesThatTheyWerePublishedWith) {
  struct Published {
    std::string name{};
    WeightMap map{};
    std::vector<std::string> more{};
  };
  const std::vector<Published> all{
      {"bert_base",
       WeightMap()
           .replace("LayerNorm.weight", "LayerNorm.gamma")
           .replace("LayerNorm.bias", "LayerNorm.beta"),
       {"cls.predictions.bias", "bert.embeddings.position_ids"}},
      {"bert_base", WeightMap().rename("bert\\.(.*)", "$1"), {"embeddings.position_ids"}},
      {"gpt2",
       WeightMap().rename("transformer\\.(.*)", "$1"),
       {"h.0.attn.bias", "h.1.attn.bias", "h.1.attn.masked_bias"}},
      {"gpt2", {}, {"lm_head.weight", "transformer.h.0.attn.bias"}},
      {"vit_b_16",
       WeightMap().replace("mlp\\.0", "mlp.linear_1").replace("mlp\\.3", "mlp.linear_2"),
       {}},
      {"resnet18", WeightMap().rename("(.*)", "module.$1"), {}},
      {"llama", {}, {"model.layers.0.self_attn.rotary_emb.inv_freq"}},
      {"resnet18", {}, {}}};
  const torch::NoGradGuard no_grad;
  const TempDir dir;
  for (const Published& one : all) {
    const auto saved = small_network(one.name), loaded = small_network(one.name);
    write_published(*saved, dir / "w.safetensors", one.map, one.more);
    EXPECT_TRUE(load_published_weights(*loaded, dir / "w.safetensors").is_complete());
    saved->eval();
    loaded->eval();
    const auto features = input_and_output(one.name).first;
    EXPECT_TRUE(saved->forward(features).equal(loaded->forward(features))) << one.name;
  }
}

TEST(ZooPublishedWeights, AnotherLastLayerIsKeptAndOthersAreNamed) {
  const TempDir dir;
  const auto saved = small_network("resnet18");
  save_weights(*saved, dir / "w.safetensors");
  const auto loaded = resnet({.units = {2, 2, 1, 1}, .base_channels = 2, .num_classes = 8});
  EXPECT_THAT(message_of([&] { load_published_weights(*loaded, dir / "w.safetensors"); }),
              HasSubstr("another shape: fc.weight is float [8, 16]"));
  const auto report = load_published_weights(*loaded, dir / "w.safetensors", {.keep = {"fc\\..*"}});
  EXPECT_THAT(report.kept, ElementsAre("fc.weight", "fc.bias"));
}

}  // namespace
}  // namespace muster::zoo
