#include "muster/train/engine/memory_plan.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/nn/model/head.h"
#include "muster/nn/model/model.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/estimator.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

// 4 MiB, a table of 1 MiB, and 1 KiB that is not trained; none of it is there.
std::vector<ModuleVariable> planned_variables() {
  const auto absent = [](at::IntArrayRef sizes) { return at::zeros({1}).expand(sizes); };
  return {{.name = "kernel", .tensor = absent({1024, 1024})},
          {.name = "table", .tensor = absent({1024, 256}), .sparse = true},
          {.name = "mean", .tensor = absent({256}), .trainable = false}};
}

EstimatorOptions with_adam() {
  return {.optimizer = adam(), .moving_average = MovingAverageOptions{}};
}

TEST(MemoryPlan, CountsWhatAProcessHoldsOfARun) {
  constexpr std::uint64_t kKernel = 4U << 20, kTable = 1U << 20, kMean = 1U << 10;
  const MemoryPlan alone = plan_memory(with_adam(), planned_variables(), {.saves = false});
  EXPECT_EQ(alone.values, kKernel + kTable + kMean);
  EXPECT_EQ(alone.slots, 2 * (kKernel + kTable));
  EXPECT_EQ(alone.averages, kKernel + kTable);
  EXPECT_EQ(alone.gradients, kKernel);
  EXPECT_EQ(alone.copy, 0U);
  EXPECT_EQ(alone.variables[0].name, "kernel");
  EXPECT_EQ(alone.variables[0].bytes, 5 * kKernel);

  // Tables are not divided; each task copies its share for a checkpoint.
  const MemoryPlan sharded =
      plan_memory(with_adam(), planned_variables(), {.shards = 4, .is_shared = true});
  EXPECT_EQ(sharded.values, alone.values);
  EXPECT_EQ(sharded.slots, 2 * (kKernel / 4 + kTable));
  EXPECT_EQ(sharded.averages, kKernel / 4 + kTable);
  EXPECT_EQ(sharded.gradients, 2 * kKernel);
  EXPECT_EQ(sharded.copy, kKernel + 4 * kTable + kMean);

  // The sum over tasks is of a share; a replica's own gradients are whole while it is made.
  const MemoryPlan divided =
      plan_memory(with_adam(), planned_variables(),
                  {.shards = 4, .divides_gradients = true, .is_shared = true});
  EXPECT_EQ(divided.gradients, kKernel + kKernel / 4);
  EXPECT_EQ(divided.all(), sharded.all() - 3 * kKernel / 4);
}

TEST(MemoryPlan, ThatDoesNotFitNamesItsPartsAndRemediesWithTheirEffect) {
  const MemoryLayout layout{.lanes = 2, .replicas = 2};
  const std::uint64_t needed = plan_memory(with_adam(), planned_variables(), layout).all();
  EXPECT_NO_THROW(check_memory(with_adam(), planned_variables(), layout, needed));
  const std::string why =
      message_of([&] { check_memory(with_adam(), planned_variables(), layout, 16U << 20); });
  EXPECT_THAT(
      why, AllOf(HasSubstr("takes 56.0 MiB, and this process may use 16.0 MiB"),
                 HasSubstr("values 5.0 MiB, slots 10.0 MiB, averages 5.0 MiB, gradients 16.0 MiB"),
                 HasSubstr("the copy that checkpoints are written from 20.0 MiB"),
                 HasSubstr("kernel 32.0 MiB, table 4.0 MiB")));
  EXPECT_THAT(why, AllOf(HasSubstr("between 4 tasks, --sharding optimizer ("),
                         HasSubstr("--concurrent-replicas 1 (52.0 MiB)"),
                         HasSubstr("leave out the moving averages (46.0 MiB)")));
}

/// A model of 4 TiB, of which nothing is there.
struct HugeModel : Model {
  HugeModel() {
    kernel = register_parameter("kernel", at::zeros({1}).expand({std::int64_t{1} << 20, 1 << 20}),
                                /*requires_grad=*/true);
  }
  at::Tensor forward(const Features&) override { return kernel; }
  at::Tensor kernel;
};

TEST(MemoryPlan, IsCheckedBeforeTheFirstStep) {
  const testing::TempDir folder;
  Estimator estimator({.model = [] { return std::make_shared<HugeModel>(); },
                       .head = regression_head(),
                       .optimizer = adam()},
                      {.model_dir = folder.path()});
  const InputFn input = [](const InputContext&) -> Dataset<Batch> {
    throw Internal("an input is opened");
  };
  EXPECT_THAT(message_of([&] { estimator.train(input, {.max_steps = 1}); }),
              AllOf(HasSubstr("the state of this run takes "), HasSubstr("kernel 16.0 TiB")));
}

}  // namespace
}  // namespace muster
