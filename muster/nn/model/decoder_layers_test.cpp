// The layers of decoders of text against their formulas, number by number.
#include <gmock/gmock.h>
#include <torch/types.h>

#include <cmath>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/causal_attention.h"
#include "muster/nn/model/projection.h"
#include "muster/nn/model/rms_norm.h"
#include "muster/nn/model/rotary.h"
#include "muster/nn/model/swiglu.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

double at_place(const at::Tensor& tensor, std::initializer_list<std::int64_t> place) {
  at::Tensor rest = tensor;
  for (const auto index : place) rest = rest[index];
  return rest.item<double>();
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const torch::NoGradGuard no_grad;
  RmsNorm norm(3, /*epsilon=*/0.5);
  norm.weight.copy_(torch::tensor({1.0F, 2.0F, -1.0F}));
  const auto y = norm.forward(torch::tensor({{1.0F, 2.0F, 3.0F}, {0.0F, 0.0F, 0.0F}}));
  const double root = std::sqrt((1.0 + 4.0 + 9.0) / 3 + 0.5);
  EXPECT_NEAR(at_place(y, {0, 0}), 1 / root, 1e-6);
  EXPECT_NEAR(at_place(y, {0, 1}), 4 / root, 1e-6);
  EXPECT_NEAR(at_place(y, {0, 2}), -3 / root, 1e-6);
  EXPECT_EQ(at_place(y, {1, 2}), 0);
  EXPECT_THAT(message_of([] { RmsNorm(4, 0); }), HasSubstr("epsilon must be positive: 0"));
}

TEST(Rotary, TurnsEachPairByItsAngle) {
  constexpr std::int64_t kDepth = 6;
  constexpr double kBase = 100;
  const auto x = torch::rand({2, 4, kDepth});
  const auto y = rotate(x, rotary_angles(5, 4, kDepth, kBase, at::kCPU));
  for (std::int64_t position = 0; position < 4; ++position) {
    for (std::int64_t i = 0; i < kDepth / 2; ++i) {
      const double angle = static_cast<double>(5 + position) *
                           std::pow(kBase, -2.0 * static_cast<double>(i) / kDepth);
      const double a = at_place(x, {1, position, i});
      const double b = at_place(x, {1, position, i + kDepth / 2});
      EXPECT_NEAR(at_place(y, {1, position, i}), a * std::cos(angle) - b * std::sin(angle), 1e-5);
      EXPECT_NEAR(at_place(y, {1, position, i + kDepth / 2}),
                  b * std::cos(angle) + a * std::sin(angle), 1e-5);
    }
  }
  EXPECT_THAT(message_of([] { rotary_angles(0, 1, 3, 10, at::kCPU); }), HasSubstr("even depth: 3"));
}

TEST(Rotary, ProductsDependOnTheDistanceAlone) {
  const auto query = torch::rand({1, 8});
  const auto key = torch::rand({1, 8});
  const auto product = [&](std::int64_t of_query, std::int64_t of_key) {
    return (rotate(query, rotary_angles(of_query, 1, 8, 1e4, at::kCPU)) *
            rotate(key, rotary_angles(of_key, 1, 8, 1e4, at::kCPU)))
        .sum()
        .item<double>();
  };
  EXPECT_NEAR(product(9, 2), product(107, 100), 1e-4);
  EXPECT_GT(std::abs(product(9, 2) - product(9, 3)), 1e-3);
}

TEST(SwiGlu, MultipliesBySiluOfItsGate) {
  const torch::NoGradGuard no_grad;
  SwiGlu layer({.inputs = 2, .units = 1});
  const auto weights = layer.named_parameters();
  weights["gate_proj.weight"].copy_(torch::tensor({{1.0F, 2.0F}}));
  weights["up_proj.weight"].copy_(torch::tensor({{3.0F, -1.0F}}));
  weights["down_proj.weight"].copy_(torch::tensor({{1.0F}, {10.0F}}));
  const auto y = layer.forward(torch::tensor({{0.5F, 0.25F}}));
  const double silu = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(at_place(y, {0, 0}), silu * 1.25, 1e-6);
  EXPECT_NEAR(at_place(y, {0, 1}), silu * 12.5, 1e-5);
}

/// Softmax over the keys up to each query, head by head.
at::Tensor attention_by_hand(const CausalAttention& layer, const at::Tensor& x, std::int64_t heads,
                             std::int64_t key_value_heads, double base) {
  const auto weights = layer.named_parameters();
  const std::int64_t length = x.size(0), depth = x.size(1) / heads;
  const auto angles = rotary_angles(0, length, depth, base, at::kCPU);
  const auto part = [&](const char* name, std::int64_t head) {
    return x.matmul(weights[name].t()).slice(1, head * depth, (head + 1) * depth);
  };
  std::vector<at::Tensor> outputs;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::int64_t shared = head / (heads / key_value_heads);
    const auto query = rotate(part("q_proj.weight", head), angles);
    const auto key = rotate(part("k_proj.weight", shared), angles);
    const auto value = part("v_proj.weight", shared);
    std::vector<at::Tensor> rows;
    for (std::int64_t place = 0; place < length; ++place) {
      const auto scores =
          key.slice(0, 0, place + 1).mv(query[place]) / std::sqrt(static_cast<double>(depth));
      rows.push_back(scores.softmax(0).matmul(value.slice(0, 0, place + 1)));
    }
    outputs.push_back(at::stack(rows));
  }
  return at::cat(outputs, 1).matmul(weights["o_proj.weight"].t());
}

TEST(CausalAttention, IsASoftmaxOverTheKeysBeforeEachQuery) {
  const torch::NoGradGuard no_grad;
  CausalAttention layer({.hidden = 16, .heads = 4, .key_value_heads = 2, .deviation = 0.5});
  const auto x = torch::randn({1, 5, 16});
  const auto angles = rotary_angles(0, 5, 4, 50, at::kCPU);
  const auto y = layer.forward(x, angles, causal_mask(0, 5, x.options()));
  EXPECT_LE(largest_difference(y[0], attention_by_hand(layer, x[0], 4, 2, 50)), 1e-5);
}

TEST(CausalAttention, PositionsThatWereSeenNeedNotBeComputedAgain) {
  const torch::NoGradGuard no_grad;
  CausalAttention layer({.hidden = 8, .heads = 2, .key_value_heads = 1, .deviation = 0.5});
  const auto x = torch::randn({2, 6, 8});
  const auto whole =
      layer.forward(x, rotary_angles(0, 6, 4, 50, at::kCPU), causal_mask(0, 6, x.options()));
  KeyValues seen;
  std::int64_t begin = 0;
  for (const std::int64_t count : {3, 1, 2}) {
    const auto part = layer.forward(x.slice(1, begin, begin + count),
                                    rotary_angles(begin, count, 4, 50, at::kCPU),
                                    causal_mask(begin, count, x.options()), &seen);
    EXPECT_LE(largest_difference(part, whole.slice(1, begin, begin + count)), 1e-5);
    begin += count;
  }
  EXPECT_EQ(seen.keys.sizes(), (std::vector<std::int64_t>{2, 1, 6, 4}));
}

TEST(CausalAttention, RefusesHeadsThatDoNotDivide) {
  EXPECT_THAT(message_of([] { CausalAttention({.hidden = 6, .heads = 4, .key_value_heads = 4}); }),
              HasSubstr("hidden, 6, must be a positive multiple of heads, 4"));
  EXPECT_THAT(message_of([] { CausalAttention({.hidden = 8, .heads = 4, .key_value_heads = 3}); }),
              HasSubstr("a multiple of key_value_heads, 3"));
  EXPECT_THAT(message_of([] { Projection(0, 4); }), HasSubstr("0 inputs, 4 outputs"));
}

}  // namespace
}  // namespace muster
