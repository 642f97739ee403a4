#include "muster/train/engine/tensor_codec.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;
using testing::TempDir;

// Slots that Adam keeps of each variable, and the step.
std::vector<NamedTensor> state_of(const std::vector<std::string>& variables) {
  std::vector<NamedTensor> state{{"global_step", at::zeros({}, at::kLong)}};
  for (const char* slot : {"/Adam", "/Adam_1", ""}) {
    for (const std::string& name : variables) state.push_back({name + slot, at::ones({2})});
  }
  return state;
}

Path write_state(const TempDir& folder, const std::vector<NamedTensor>& state) {
  BundleWriter writer(folder / "model.ckpt-1");
  for (const TensorView& view : encode(state, CheckpointLayouts({})).views) writer.add(view);
  writer.finish();
  return folder / "model.ckpt-1";
}

TEST(RestoreFrom, SaysInOneLineWhichVariablesOfAnotherModelAreMissing) {
  const TempDir folder;
  const BundleReader bundle(write_state(folder, state_of({"wide/kernel"})));
  const auto targets = state_of({"a/kernel", "b/kernel", "c/kernel", "d/kernel", "wide/kernel"});
  const std::string message =
      message_of([&] { restore_from(bundle, targets, CheckpointLayouts({})); });
  EXPECT_THAT(message, AllOf(HasSubstr("model.ckpt-1 has no a/kernel, b/kernel, c/kernel and 9 "
                                       "more, of the 16 tensors"),
                             HasSubstr("use another model_dir"), Not(HasSubstr("Adam"))));
  EXPECT_THROW(restore_from(bundle, targets, CheckpointLayouts({})), NotFound);
}

TEST(RestoreFrom, NamesTheSlotsOfAnotherOptimizer) {
  const TempDir folder;
  const std::vector<NamedTensor> plain{{"global_step", at::zeros({}, at::kLong)},
                                       {"a/kernel", at::ones({2})}};
  const BundleReader bundle(write_state(folder, plain));
  EXPECT_THAT(
      message_of([&] { restore_from(bundle, state_of({"a/kernel"}), CheckpointLayouts({})); }),
      HasSubstr("has no a/kernel/Adam, a/kernel/Adam_1, of the 4 tensors"));
}

// A kernel whose rows are columns of its checkpoint.
TEST(EncodeParts, AreReadAsTheTensorThatTheyArePartsOf) {
  const TempDir folder;
  const ModuleVariable kernel{.name = "kernel", .layout = VariableLayout::kTransposed};
  const CheckpointLayouts layouts(std::span(&kernel, 1));
  const at::Tensor whole = at::arange(24, at::kFloat).view({6, 4});
  const auto part_of = [&](const char* name, std::int64_t first, std::int64_t last) {
    return TensorPart{name, {6, 4}, first, last, whole.view({-1}).narrow(0, first, last - first)};
  };
  const std::vector<std::vector<TensorPart>> holders{
      {part_of("kernel/Adam", 0, 8), part_of("plain", 0, 0)},
      {part_of("kernel/Adam", 8, 24), part_of("plain", 0, 24)}};
  BundleWriter writer(folder / "model.ckpt-1");
  std::vector<EncodedTensors> encoded;
  for (const auto& parts : holders) {
    encoded.push_back(encode_parts(parts, layouts));
    for (const TensorView& view : encoded.back().views) writer.add(view);
  }
  writer.finish();
  const BundleReader bundle(folder / "model.ckpt-1");
  EXPECT_EQ(bundle.spec("kernel/Adam").shape, (std::vector<std::int64_t>{4, 6}));
  EXPECT_TRUE(at::equal(decode(bundle, "kernel/Adam", layouts.of("kernel/Adam")), whole));
  EXPECT_TRUE(at::equal(decode(bundle, "plain"), whole));
}

}  // namespace
}  // namespace muster
