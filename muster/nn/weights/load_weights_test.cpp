#include "muster/nn/weights/load_weights.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_writer.h"
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

/// A convolution, batch norm and two dense layers.
struct SmallNetwork : torch::nn::Module {
  explicit SmallNetwork(std::int64_t classes = 3) {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 4, 3)));
    bn1 = register_module("bn1", torch::nn::BatchNorm2d(4));
    body = register_module("body", torch::nn::Linear(4, 5));
    fc = register_module("fc", torch::nn::Linear(5, classes));
  }
  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  torch::nn::Linear body{nullptr}, fc{nullptr};
};

void fill_randomly(torch::nn::Module& module, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  at::manual_seed(seed);
  for (const auto& variable : variables_of(module)) {
    if (variable.tensor.is_floating_point())
      variable.tensor.copy_(at::rand(variable.tensor.sizes()));
  }
}

void expect_equal(torch::nn::Module& a, torch::nn::Module& b) {
  const auto left = variables_of(a);
  const auto right = variables_of(b);
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].tensor.equal(right[i].tensor)) << left[i].key;
  }
}

class LoadWeights : public ::testing::TestWithParam<const char*> {};

TEST_P(LoadWeights, GivesAModuleTheValuesThatAnotherSaved) {
  const TempDir dir;
  SmallNetwork saved, loaded;
  fill_randomly(saved, 1);
  saved.bn1->num_batches_tracked.fill_(7);
  save_weights(saved, dir / GetParam());
  const WeightReport report = load_weights(loaded, dir / GetParam());
  EXPECT_TRUE(report.is_complete()) << report.text();
  EXPECT_EQ(report.matched.size(), 11);
  expect_equal(saved, loaded);
  EXPECT_TRUE(loaded.fc->weight.requires_grad());
}

INSTANTIATE_TEST_SUITE_P(Formats, LoadWeights,
                         ::testing::Values("m.safetensors", "m.pt", "m.npz", "m"));

TEST(LoadWeights, TakesACheckpointWithTensorFlowsNamesAndLayouts) {
  const TempDir dir;
  SmallNetwork saved, loaded;
  fill_randomly(saved, 1);
  BundleWriter writer(dir / "model.ckpt-1");
  for (const auto& variable : variables_of(saved)) {
    const at::Tensor value = to_checkpoint_layout(variable.tensor.detach(), variable.layout);
    writer.add({.name = variable.name,
                .type = value.is_floating_point() ? DataType::kFloat : DataType::kInt64,
                .shape = value.sizes().vec(),
                .bytes = {static_cast<const std::byte*>(value.data_ptr()), value.nbytes()}});
  }
  writer.finish();
  EXPECT_EQ(load_weights(loaded, dir / "model.ckpt-1").matched[0].tensor, "conv1/kernel");
  expect_equal(saved, loaded);
}

TEST(LoadWeights, TakesWhatLibtorchSaves) {
  const TempDir dir;
  const auto saved = std::make_shared<SmallNetwork>();
  SmallNetwork loaded;
  fill_randomly(*saved, 1);
  torch::save(saved, dir / "module.pt");
  const WeightReport report = load_weights(loaded, dir / "module.pt");
  EXPECT_TRUE(report.is_complete()) << report.text();
  expect_equal(*saved, loaded);
}

TEST(LoadWeights, TakesADictionaryOfLibtorchsPickler) {
  const TempDir dir;
  c10::Dict<std::string, at::Tensor> state;
  torch::nn::Linear saved(3, 2), loaded(3, 2);
  // Strided, and in one storage with the other.
  const at::Tensor both = at::rand({4, 2});
  state.insert("weight", both.slice(0, 0, 3).t());
  state.insert("bias", both[3]);
  const std::vector<char> bytes = torch::pickle_save(state);
  testing::write_bytes(dir / "state.pt", {bytes.data(), bytes.size()});
  EXPECT_TRUE(load_weights(*loaded, dir / "state.pt").is_complete());
  EXPECT_TRUE(loaded->weight.equal(both.slice(0, 0, 3).t()));
  EXPECT_TRUE(loaded->bias.equal(both[3]));
}

TEST(SaveWeights, WritesWhatLibtorchsUnpicklerReads) {
  const TempDir dir;
  SmallNetwork saved;
  fill_randomly(saved, 1);
  save_weights(saved, dir / "m.pt");
  const std::string bytes = testing::read_bytes(dir / "m.pt");
  const c10::IValue state = torch::pickle_load({bytes.begin(), bytes.end()});
  std::size_t count = 0;
  for (const auto& item : state.toGenericDict()) {
    for (const auto& variable : variables_of(saved)) {
      if (variable.key != item.key().toStringRef()) continue;
      EXPECT_TRUE(item.value().toTensor().equal(variable.tensor)) << variable.key;
      ++count;
    }
  }
  EXPECT_EQ(count, 11);
}

TEST(LoadWeights, ConvertsFloatingPointTypesAndNoOthers) {
  const TempDir dir;
  torch::nn::Linear half(2, 2), single(2, 2);
  half->to(at::kHalf);
  save_weights(*half, dir / "half.safetensors");
  load_weights(*single, dir / "half.safetensors");
  EXPECT_EQ(single->weight.scalar_type(), at::kFloat);
  EXPECT_TRUE(single->weight.equal(half->weight.to(at::kFloat)));

  struct Counter : torch::nn::Module {
    Counter() { register_buffer("weight", at::zeros({2, 2}, at::kLong)); }
  };
  Counter counter;
  EXPECT_THAT(
      message_of([&] { load_weights(counter, dir / "half.safetensors", {.strict = false}); }),
      HasSubstr("variable weight is long [2, 2], which the tensor weight, float16 [2, 2], "
                "is not converted to"));
}

TEST(LoadWeights, NamesWhatDoesNotFitAndChangesNothing) {
  const TempDir dir;
  SmallNetwork saved, loaded(4), untouched(4);
  fill_randomly(loaded, 2);
  fill_randomly(untouched, 2);
  save_weights(saved, dir / "w.safetensors",
               {.map = WeightMap().rename("bn1\\.weight", "bn_1.weight").drop("body.bias")});
  const std::string message = message_of([&] { load_weights(loaded, dir / "w.safetensors"); });
  EXPECT_THAT(message,
              AllOf(HasSubstr("7 variables loaded, 2 missing, 2 of another shape, 1 tensors"),
                    HasSubstr("missing bn1.weight, float [4]; the nearest tensor is bn_1.weight"),
                    HasSubstr("missing body.bias, float [5]"),
                    HasSubstr("another shape: fc.weight is float [4, 5], fc.weight in the "
                              "file float32 [3, 5]"),
                    HasSubstr("unused bn_1.weight")));
  expect_equal(loaded, untouched);
}

TEST(LoadWeights, LoadsWhatFitsWhereItIsNotStrict) {
  const TempDir dir;
  SmallNetwork saved, loaded(4);
  fill_randomly(saved, 1);
  save_weights(saved, dir / "w.safetensors");
  const WeightReport report = load_weights(loaded, dir / "w.safetensors", {.strict = false});
  EXPECT_EQ(report.other_shape.size(), 2);
  EXPECT_TRUE(loaded.body->weight.equal(saved.body->weight));
}

TEST(LoadWeights, KeepsTheLayersThatItIsToldTo) {
  const TempDir dir;
  SmallNetwork saved, loaded(4);
  fill_randomly(saved, 1);
  fill_randomly(loaded, 2);
  const at::Tensor before = loaded.fc->weight.clone();
  save_weights(saved, dir / "w.safetensors");
  const WeightReport report = load_weights(loaded, dir / "w.safetensors", {.keep = {"fc\\..*"}});
  EXPECT_TRUE(report.is_complete()) << report.text();
  EXPECT_THAT(report.kept, ElementsAre("fc.weight", "fc.bias"));
  EXPECT_TRUE(loaded.fc->weight.equal(before));
  EXPECT_TRUE(loaded.conv1->weight.equal(saved.conv1->weight));
}

TEST(LoadWeights, NeedsNoCountOfBatches) {
  const TempDir dir;
  SmallNetwork saved, loaded;
  save_weights(saved, dir / "w.safetensors", {.map = WeightMap().drop(".*num_batches_tracked")});
  EXPECT_THAT(load_weights(loaded, dir / "w.safetensors").kept,
              ElementsAre("bn1.num_batches_tracked"));
}

TEST(LoadWeights, SaysHowToTakeAPrefixOff) {
  const TempDir dir;
  SmallNetwork saved, loaded;
  save_weights(saved, dir / "w.safetensors", {.map = WeightMap().rename("(.*)", "module.$1")});
  EXPECT_THAT(message_of([&] { load_weights(loaded, dir / "w.safetensors", {.strict = false}); }),
              HasSubstr("the rule 'rename module\\.(.*) $1' takes it off"));
  load_weights(loaded, dir / "w.safetensors", {.map = WeightMap().rename("module\\.(.*)", "$1")});
  expect_equal(saved, loaded);
}

TEST(LoadWeights, FindsAVariableUnderOneOfItsTwoNames) {
  struct Tied : torch::nn::Module {
    Tied() {
      a = register_parameter("a", at::rand({2}));
      register_parameter("b", a);
    }
    at::Tensor a;
  };
  const TempDir dir;
  Tied saved, loaded;
  save_weights(saved, dir / "w.safetensors", {.map = WeightMap().drop("b")});
  EXPECT_TRUE(load_weights(loaded, dir / "w.safetensors").is_complete());
  EXPECT_TRUE(loaded.a.equal(saved.a));
}

}  // namespace
}  // namespace muster
