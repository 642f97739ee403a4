#include <torch/types.h>

#include <array>
#include <cmath>
#include <limits>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

std::string attention_product(Call& call, const std::string& a, const std::string& b,
                              bool adjoint) {
  return call.to.add("MatMul", "BatchMatMulV2", {a, b},
                     {{"T", call.type()}, {"adj_x", false}, {"adj_y", adjoint}});
}

// Entries of the scores that are not looked at.
std::string without(Call& call, const std::string& scores, const std::string& seen) {
  return call.node("SelectV2",
                   {seen, scores, call.scalar(-std::numeric_limits<double>::infinity())});
}

std::string causal_mask(Call& call) {
  const Size queries = call.value(0).sizes[call.rank(0) - 2];
  const Size keys = call.value(1).sizes[call.rank(1) - 2];
  call.require(!queries.follows_batch() && !keys.follows_batch(),
               "the number of its steps follows the batch");
  return call.to.constant(
      graph_value(torch::ones({queries.constant, keys.constant}, torch::kBool).tril()));
}

std::string masked_scores(Call& call, const std::string& scores) {
  const bool flags = call.is_tensor(3)
                         ? call.value(3).dtype == at::kBool
                         : std::get<at::Tensor>(call.argument(3)).scalar_type() == at::kBool;
  if (flags) return without(call, scores, call.operand(3, at::kBool));
  return call.node("AddV2", {scores, call.operand(3, call.result().dtype)});
}

// softmax(q k' * scale + mask) v, and the weights where they are asked for
void attention(Call& call, bool causal, double scale) {
  call.require(call.rank(0) >= 3, "its query is no batch");
  auto scores = attention_product(call, call.node("Mul", {call.tensor(0), call.scalar(scale)}),
                                  call.tensor(1), /*adjoint=*/true);
  if (causal) scores = without(call, scores, causal_mask(call));
  if (!call.is_none(3)) scores = masked_scores(call, scores);
  const auto weights = call.node("Softmax", {scores});
  call.give(attention_product(call, weights, call.tensor(2), /*adjoint=*/false));
  if (call.results() > 1) call.give_one(1, weights);
}

double usual_scale(Call& call) {
  return 1 / std::sqrt(static_cast<double>(call.value(0).sizes.back().constant));
}

// (query, key, value, mask, dropout, causal, scale, grouped), of libtorch 2
void scaled_dot_product_attention(Call& call) {
  const bool grouped = call.count() > 7 && call.truth(7);
  call.require(!grouped, "enable_gqa: repeat the heads of keys and values in the model");
  const bool scaled = call.count() > 6 && !call.is_none(6);
  attention(call, call.truth(5), scaled ? call.number(6) : usual_scale(call));
}

// (query, key, value, mask, dropout, weights too, causal), of libtorch 1
void scaled_dot_product_attention_1(Call& call) {
  attention(call, call.truth(6), usual_scale(call));
}

constexpr const char* kAttention = "Mul, BatchMatMulV2, SelectV2 or AddV2, Softmax";

constexpr std::array kAttentionTranslations{
    OpTranslation{"aten::_scaled_dot_product_attention", kAttention,
                  scaled_dot_product_attention_1},
    OpTranslation{"aten::scaled_dot_product_attention", kAttention, scaled_dot_product_attention},
};

}  // namespace

std::span<const OpTranslation> attention_translations() { return kAttentionTranslations; }

}  // namespace muster::exporting
