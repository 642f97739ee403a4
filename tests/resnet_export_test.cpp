#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>

#include "muster/data/records/cifar10.h"
#include "muster/export/export_saved_model.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/resnet.h"
#include "muster/saved_model/executor/executable_model.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

constexpr std::int64_t kImages = 1000;
constexpr std::int64_t kAtOnce = 250;

// [images, height, width, colours]
at::Tensor test_images(const Path& data) {
  auto batch = read_cifar10_binary(data / "cifar-10" / "test_batch.bin.xz");
  return torch::from_blob(batch.pixels.data(), {kImages, 3, 32, 32}, torch::kByte)
      .permute({0, 2, 3, 1})
      .contiguous();
}

// Moving statistics that are those of some images, and not a new model's.
std::shared_ptr<ResNet> used_resnet(const at::Tensor& images) {
  const auto model = std::make_shared<ResNet>(
      ResNetOptions{.num_layers = 8, .num_classes = 11, .batch_norm_decay = 0.5});
  for (const auto& batch : images.slice(0, 0, 48).split(16)) model->forward({{"image", batch}});
  model->eval();
  return model;
}

TEST(ResNetExport, AnswersAboutRealImagesAsTheModelDoes) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const torch::NoGradGuard no_grad;
  const auto images = test_images(data);
  const auto model = used_resnet(images);
  const auto head = multi_class_head(11);
  const testing::TempDir folder;
  exporting::write_model(*model, head.get(), raw_serving_input({{"image", images.slice(0, 0, 2)}}),
                         folder / "export");
  const auto registry = graph::OpRegistry::read(data / "tensorflow" / "ops_v1.pbtxt.xz");
  registry.check(graph::read_saved_model(folder / "export").meta_graphs.at(0).graph);
  const auto exported = executor::ExecutableModel::load(folder / "export");
  for (const auto& batch : images.split(kAtOnce)) {
    const auto answers = exported.run("serving_default", {{"image", batch}});
    const auto wanted =
        model->call({.features = {{"image", batch}}}, Mode::kPredict, head.get()).predictions;
    for (const char* name : {"logits", "probabilities"}) {
      EXPECT_TRUE(
          at::allclose(std::get<at::Tensor>(answers.at(name)), wanted.tensor(name), 1e-5, 1e-5))
          << name;
    }
    EXPECT_TRUE(
        at::equal(std::get<at::Tensor>(answers.at("class_ids")), wanted.tensor("class_ids")));
  }
}

}  // namespace
}  // namespace muster
