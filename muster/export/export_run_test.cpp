#include <gtest/gtest.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>

#include "muster/export/export_saved_model.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/resnet.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/testing/temp_dir.h"

// Tests that an export gives the same answers as the model.
namespace muster::exporting {
namespace {

namespace nn = torch::nn;

struct Images : Model {
  Images() {
    first = register_module("first", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).stride(2).padding(1)));
    norm = register_module("norm", nn::BatchNorm2d(8));
    second = register_module("second", nn::Conv2d(nn::Conv2dOptions(8, 8, 3).padding(1)));
    logits = register_module("logits", nn::Linear(40, 4));
    const torch::NoGradGuard no_grad;
    norm->running_mean.uniform_(-1, 1);
    norm->running_var.uniform_(0.5, 2);
    norm->weight.uniform_(0.5, 2);
    norm->bias.uniform_(-1, 1);
  }
  torch::Tensor forward(const Features& x) override {
    auto y = norm->forward(first->forward(x.tensor("image")));
    y.relu_();
    y = y + torch::leaky_relu(second->forward(y), 0.1);
    const auto largest = torch::max_pool2d(y, 3, 2, 1);
    const auto mean = torch::avg_pool2d(y, 2);
    y = torch::cat({largest, mean}, 1);
    const auto whole = torch::adaptive_avg_pool2d(y, {1, 1}).flatten(1);
    return logits->forward(torch::cat({whole, y.mean({2, 3}), y.slice(1, 0, 8).amax({2, 3})}, 1));
  }
  nn::Conv2d first{nullptr};
  nn::BatchNorm2d norm{nullptr};
  nn::Conv2d second{nullptr};
  nn::Linear logits{nullptr};
};

struct Rows : Model {
  Rows() {
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
    const auto mixed = torch::stack({y.select(2, 0), y.select(2, -1), y.sum(2)}, 1);
    return logits->forward(mixed.narrow(1, 1, 2).mean(1).view({x.batch_size(), 6}));
  }
  nn::Embedding table{nullptr};
  nn::Linear logits{nullptr};
  torch::Tensor scale;
};

void expect_same_answers(const std::shared_ptr<Model>& model, const HeadPtr& head,
                         const Features& example) {
  const testing::TempDir folder;
  write_model(*model, head.get(), raw_serving_input(example), folder / "export");
  const auto exported = executor::ExecutableModel::load(folder / "export");
  model->eval();
  const torch::NoGradGuard no_grad;
  for (const std::int64_t rows : {std::int64_t{1}, example.batch_size()}) {
    const Features features = example.slice(0, rows);
    executor::Values inputs;
    for (const auto& [name, value] : features) inputs.emplace(name, std::get<at::Tensor>(value));
    const auto answers = exported.run("serving_default", inputs);
    const auto wanted = model->call({.features = features}, Mode::kPredict, head.get()).predictions;
    EXPECT_EQ(answers.size(), wanted.size());
    for (const auto& [name, value] : wanted) {
      const auto& answer = answers.at(name);
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
        EXPECT_EQ(std::get<at::Tensor>(answer).sizes(), tensor->sizes()) << name;
        EXPECT_TRUE(at::allclose(std::get<at::Tensor>(answer), *tensor, 1e-5, 1e-5))
            << name << std::get<at::Tensor>(answer) << *tensor;
      } else {
        const auto words = std::get<StringColumn>(value).values();
        EXPECT_EQ(std::get<executor::StringTensor>(answer).values(),
                  std::vector<std::string>(words.begin(), words.end()))
            << name;
      }
    }
  }
}

TEST(ExportedModel, AnswersAboutImagesAsTheModelDoes) {
  torch::manual_seed(3);
  expect_same_answers(std::make_shared<Images>(), multi_class_head(4),
                      {{"image", torch::randn({9, 3, 11, 11})}});
}

TEST(ExportedModel, AnswersAboutRowsAsTheModelDoes) {
  torch::manual_seed(4);
  const Features example{{"ids", torch::randint(11, {9, 3}, torch::kLong)},
                         {"weights", torch::randint(1, 5, {9, 3}, torch::kInt)}};
  expect_same_answers(std::make_shared<Rows>(),
                      multi_class_head(4, {.label_vocabulary = {"a", "b", "c", "d"}}), example);
  expect_same_answers(std::make_shared<Rows>(), regression_head(4), example);
}

struct Linear : Model {
  explicit Linear(std::int64_t logits_dimension) {
    logits = register_module("logits", nn::Linear(4, logits_dimension));
  }
  torch::Tensor forward(const Features& x) override { return logits->forward(x.tensor("x")); }
  nn::Linear logits{nullptr};
};

// The words of two heads begin alike, so only their own are right.
TEST(ExportedModel, AnswersAsEveryHeadOfAMultiHeadDoes) {
  torch::manual_seed(6);
  const auto head =
      multi_head({multi_class_head(3, {.name = "kind", .label_vocabulary = {"a", "b", "c"}}),
                  multi_class_head(4, {.name = "colour", .label_vocabulary = {"a", "b", "d", "e"}}),
                  multi_class_head(3, {.name = "size"}), binary_class_head({.name = "click"}),
                  regression_head(2, {.name = "place"})});
  expect_same_answers(std::make_shared<Linear>(head->logits_dimension()), head,
                      {{"x", torch::randn({9, 4})}});
}

// Its moving statistics are those of some images, and not a new model's.
std::shared_ptr<ResNet> used_resnet(const at::Tensor& images) {
  const auto model = std::make_shared<ResNet>(
      ResNetOptions{.num_layers = 8, .num_classes = 11, .batch_norm_decay = 0.5});
  const torch::NoGradGuard no_grad;
  for (const auto& batch : images.slice(0, 0, 48).split(16)) model->forward({{"image", batch}});
  return model;
}

TEST(ExportedModel, AnswersAboutImagesAsAResNetDoes) {
  torch::manual_seed(5);
  const auto images = torch::randint(0, 256, {64, 32, 32, 3}, torch::kFloat);
  expect_same_answers(used_resnet(images), multi_class_head(11), {{"image", images}});
}

}  // namespace
}  // namespace muster::exporting
