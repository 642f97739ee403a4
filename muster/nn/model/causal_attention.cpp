#include "muster/nn/model/causal_attention.h"

#include <torch/types.h>

#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster {
namespace {

void check(const CausalAttentionOptions& options) {
  if (options.heads <= 0 || options.hidden <= 0 || options.hidden % options.heads != 0) {
    throw InvalidArgument("attention: hidden, {}, must be a positive multiple of heads, {}",
                          options.hidden, options.heads);
  }
  if (options.key_value_heads <= 0 || options.heads % options.key_value_heads != 0) {
    throw InvalidArgument("attention: heads, {}, must be a multiple of key_value_heads, {}",
                          options.heads, options.key_value_heads);
  }
}

/// [batch, length, heads * depth] to [batch, heads, length, depth].
at::Tensor heads_of(const at::Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

/// Each head of [batch, heads, length, depth] `times` times, side by side.
at::Tensor repeated_heads(const at::Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, times, -1, -1}).flatten(1, 2);
}

}  // namespace

at::Tensor dot_product_attention(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const at::Tensor& mask,
                                 const std::function<at::Tensor(const at::Tensor&)>& weights_of) {
  auto scores = at::matmul(query, key.transpose(-2, -1)) *
                (1 / std::sqrt(static_cast<double>(query.size(-1))));
  if (mask.defined()) scores = scores + mask;
  auto weights = scores.softmax(-1);
  if (weights_of) weights = weights_of(weights);
  return at::matmul(weights, value);
}

at::Tensor causal_mask(std::int64_t before, std::int64_t queries,
                       const at::TensorOptions& options) {
  if (queries == 1) return {};
  return at::full({queries, before + queries}, std::numeric_limits<float>::lowest(), options)
      .triu(before + 1);
}

CausalAttention::CausalAttention(const CausalAttentionOptions& options)
    : heads_(options.heads), key_value_heads_(options.key_value_heads) {
  check(options);
  const auto projection = [&](const char* name, std::int64_t inputs, std::int64_t outputs,
                              double deviation) {
    return register_module(
        name,
        std::make_shared<Projection>(
            inputs, outputs, ProjectionOptions{.deviation = deviation, .device = options.device}));
  };
  const std::int64_t hidden = options.hidden;
  const std::int64_t narrow = hidden / heads_ * key_value_heads_;
  query_ = projection("q_proj", hidden, hidden, options.deviation);
  key_ = projection("k_proj", hidden, narrow, options.deviation);
  value_ = projection("v_proj", hidden, narrow, options.deviation);
  output_ = projection("o_proj", hidden, hidden, options.output_deviation);
}

torch::Tensor CausalAttention::forward(const torch::Tensor& x, const RotaryAngles& angles,
                                       const torch::Tensor& mask, KeyValues* seen) {
  const auto query = rotate(heads_of(query_->forward(x), heads_), angles);
  auto key = rotate(heads_of(key_->forward(x), key_value_heads_), angles);
  auto value = heads_of(value_->forward(x), key_value_heads_);
  if (seen != nullptr) {
    if (seen->keys.defined()) {
      key = at::cat({seen->keys, key}, 2);
      value = at::cat({seen->values, value}, 2);
    }
    *seen = {.keys = key, .values = value};
  }
  const std::int64_t times = heads_ / key_value_heads_;
  const auto attended =
      dot_product_attention(query, repeated_heads(key, times), repeated_heads(value, times), mask);
  return output_->forward(attended.transpose(1, 2).flatten(2));
}

}  // namespace muster
