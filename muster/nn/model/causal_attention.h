#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "muster/nn/model/projection.h"
#include "muster/nn/model/rotary.h"

namespace muster {

/// Scaled dot-product attention of heads, each [batch, heads, length, depth]. `weights_of` is
/// applied to the attention weights if it is set, for dropout. `mask` is added to the scores
/// [batch, heads, queries, keys]; undefined adds nothing.
at::Tensor dot_product_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& mask,
    const std::function<at::Tensor(const at::Tensor&)>& weights_of = {});

/// Scores to add for `queries` positions after `before` others: 0 for keys at or before the query,
/// the lowest number for later ones, [queries, before + queries]. Undefined for one query, which
/// sees all keys.
at::Tensor causal_mask(std::int64_t before, std::int64_t queries, const at::TensorOptions& options);

/// Keys and values of the positions that a layer has seen, [batch, key_value_heads, length, depth]
/// each; undefined before the first.
struct KeyValues {
  at::Tensor keys{};
  at::Tensor values{};
};

struct CausalAttentionOptions {
  std::int64_t hidden{};
  /// Heads of queries; they divide `hidden`.
  std::int64_t heads{};
  /// Heads of keys and values, each for heads / key_value_heads heads of queries (grouped-query
  /// attention).
  std::int64_t key_value_heads{};
  /// Standard deviations of the initial weights; `output_deviation` is that of `o_proj`.
  double deviation = 0.02;
  double output_deviation = 0.02;
  at::Device device = at::kCPU;
};

/// Self-attention of a decoder with rotary positions, without biases: `q_proj`, `k_proj`, `v_proj`,
/// `o_proj`.
class CausalAttention : public torch::nn::Module {
 public:
  /// Throws InvalidArgument unless hidden is a multiple of heads, and heads of key_value_heads.
  explicit CausalAttention(const CausalAttentionOptions& options);

  /// [batch, length, hidden] to the same. Angles and mask are those of the positions of `x`; with
  /// `seen`, positions follow those in it and are added to it.
  torch::Tensor forward(const torch::Tensor& x, const RotaryAngles& angles,
                        const torch::Tensor& mask, KeyValues* seen = nullptr);

 private:
  std::int64_t heads_, key_value_heads_;
  std::shared_ptr<Projection> query_, key_, value_, output_;
};

}  // namespace muster
