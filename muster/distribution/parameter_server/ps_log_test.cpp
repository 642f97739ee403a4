#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/distribution/parameter_server/ps_log_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::internal {
namespace {

using testing::TempDir;

/// The second of two servers: it holds parts of a kernel and of a table, and updates them by Adam,
/// whose powers of beta belong to all.
class SecondServer {
 public:
  explicit SecondServer(const Path& folder)
      : variables({{.name = "kernel", .shape = {1 << 17}},
                   {.name = "table", .shape = {1 << 14, 2}, .sparse = true},
                   {.name = "mean", .shape = {3}, .trainable = false}}),
        updater(variables, {{"", adam({.learning_rate = 0.1})}}),
        layout(variables, 2),
        gradients(variables.make_gradients()),
        log(folder, /*most_bytes=*/1 << 20, {.run = "run", .task = "ps:1"},
            held_pieces(layout, 1, variables, updater)) {}

  PendingStep gradients_of(std::int64_t number) const {
    const at::Tensor rows = at::arange(1 << 13, (1 << 13) + 5, at::kLong);
    PendingStep pending{.pushes = {{"chief:0", 0, 1}}};
    pending.mean.flat = at::full({layout.flat_size(1)}, 0.5f + static_cast<float>(number));
    pending.mean.rows = {
        layout.rows_of(1, 0, {rows, at::full({5, 2}, 0.25f + static_cast<float>(number))})};
    pending.outcome = {.present = 1, .losses = {at::full({}, 1.5f)}};
    pending.positions = {"position"};
    return pending;
  }
  void update(const PendingStep& pending) {
    layout.scatter(1, pending.mean.flat, gradients.flat);
    gradients.rows = pending.mean.rows;
    updater.apply(gradients, step, layout.flat(1));
    ++step;
  }
  bool recover() {
    std::optional<PendingStep> pending;
    return log.recover({.flat_size = layout.flat_size(1), .tables = table_shapes(variables)},
                       {.base = [&](const PsLog::Base& base) { step = base.step; },
                        .prepared = [&](PendingStep read) { pending = std::move(read); },
                        .committed = [&](const auto&, bool) { update(*pending); }});
  }

  Variables variables;
  Updater updater;
  PsLayout layout;
  Gradients gradients;
  PsLog log;
  std::int64_t step = 0;
};

TEST(PsLog, BringsBackWhatAServerHoldsToTheBit) {
  const torch::NoGradGuard no_grad;
  const TempDir folder;
  SecondServer before(folder.path());
  // The log begins in the middle, where slots and powers are what steps have made of them.
  for (int i = 0; i < 3; ++i) before.update(before.gradients_of(before.step));
  before.log.begin({.step = before.step, .state_json = "{}"});
  for (int i = 0; i < 3; ++i) {
    const PendingStep pending = before.gradients_of(before.step);
    before.log.prepared(before.step, 0, pending);
    before.log.committed(before.step, 0, {1.0}, false);
    before.update(pending);
  }

  SecondServer after(folder.path());
  ASSERT_TRUE(after.recover());
  EXPECT_EQ(after.step, 6);
  // Nor does what follows differ.
  before.update(before.gradients_of(6));
  after.update(after.gradients_of(6));
  const auto left = held_pieces(before.layout, 1, before.variables, before.updater);
  const auto right = held_pieces(after.layout, 1, after.variables, after.updater);
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i])) << i;
}

TEST(PsLog, AModelIsKnownByItsVariablesServersAndRules) {
  const std::vector<NamedTensor> tensors{{"a", at::full({2}, 0.0f)}};
  const std::vector<NamedTensor> others{{"a", at::full({3}, 0.0f)}};
  const std::string digest = model_digest(tensors, 2, {"sgd"});
  EXPECT_EQ(model_digest(tensors, 2, {"sgd"}), digest);
  EXPECT_NE(model_digest(others, 2, {"sgd"}), digest);
  EXPECT_NE(model_digest(tensors, 3, {"sgd"}), digest);
  EXPECT_NE(model_digest(tensors, 2, {"adam"}), digest);
}

}  // namespace
}  // namespace muster::internal
