#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include "muster/distribution/parameter_server/ps_layout_internal.h"

namespace muster::internal {
namespace {

using ::testing::SizeIs;

/// None of whose sizes is a multiple of what variables are aligned to.
Variables odd_variables() {
  return Variables({{.name = "kernel", .shape = {37, 3}},
                    {.name = "bias", .shape = {5}},
                    {.name = "mean", .shape = {7}, .trainable = false},
                    {.name = "logits", .shape = {3, 1 << 15}}});
}

// So that what it holds goes over the wire, and is updated, in one piece.
TEST(PsLayout, NeighboursOfOneServerAreOneRange) {
  const Variables variables = odd_variables();
  const PsLayout layout(variables, 1);
  ASSERT_THAT(layout.flat(0), SizeIs(1));
  EXPECT_EQ(layout.flat(0)[0].first, 0);
  const Variable& last = *variables.find("logits");
  EXPECT_EQ(layout.flat(0)[0].last, last.offset + last.value.numel());
  EXPECT_EQ(layout.flat_size(0), layout.flat(0)[0].last);
}

TEST(PsLayout, ServersHoldEveryElementOnce) {
  const Variables variables = odd_variables();
  const PsLayout layout(variables, 3);
  const at::Tensor whole = at::arange(1.0F, static_cast<float>(variables.flat().numel()) + 1);
  at::Tensor holders = at::zeros_like(whole);
  at::Tensor scattered = at::zeros_like(whole);
  for (std::size_t server = 0; server < 3; ++server) {
    std::vector<at::Tensor> pieces;
    for (const FlatRange& range : layout.flat(server)) {
      pieces.push_back(whole.narrow(0, range.first, range.last - range.first));
      holders.narrow(0, range.first, range.last - range.first).add_(1);
    }
    const at::Tensor gathered = at::cat(pieces);
    EXPECT_EQ(gathered.numel(), layout.flat_size(server));
    layout.scatter(server, gathered, scattered);
  }
  for (const Variable& variable : variables.all()) {
    if (!variable.dense()) continue;
    const auto of = [&](const at::Tensor& flat) {
      return flat.narrow(0, variable.offset, variable.value.numel());
    };
    EXPECT_TRUE(at::equal(of(holders), at::ones_like(of(holders)))) << variable.spec.name;
    EXPECT_TRUE(at::equal(of(scattered), of(whole))) << variable.spec.name;
  }
}

TEST(PsLayout, WholeVariablesAreOneServers) {
  const Variables variables({{.name = "cut", .shape = {1 << 18}},
                             {.name = "whole", .shape = {1 << 9, 1 << 9}, .whole = true}});
  const PsLayout layout(variables, 3);
  std::size_t parts[2] = {};
  for (std::size_t server = 0; server < 3; ++server) {
    for (const VariablePart& part : layout.parts(server)) ++parts[part.variable];
  }
  EXPECT_GT(parts[0], 1U);
  EXPECT_EQ(parts[1], 1U);
}

}  // namespace
}  // namespace muster::internal
