#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/nn/zoo/text_decoder.h"

namespace muster::zoo {

/// The defaults are TinyLlama's, with 1.1 billion parameters.
struct LlamaOptions {
  std::int64_t vocabulary = 32000;
  /// Longest input. Positions have no parameters.
  std::int64_t positions = 2048;
  std::int64_t hidden = 2048;
  std::int64_t layers = 22;
  std::int64_t heads = 32;
  /// Heads of keys and values, each for heads / key_value_heads heads of queries; 0: `heads`.
  std::int64_t key_value_heads = 4;
  std::int64_t mlp_units = 5632;
  /// Base of the angles by which positions turn queries and keys.
  double rotary_base = 10000;
  double norm_epsilon = 1e-5;
  /// The last layer is the table of tokens.
  bool tied_embeddings = false;
  /// Names of features, int64 [batch, length]. A batch without the second has no padding.
  std::string input_ids = "input_ids";
  /// 1 for tokens, 0 for padding after them.
  std::string attention_mask = "attention_mask";
  /// The meta device gives a model that has shapes and no memory, to count with: "7 billion
  /// parameters" takes milliseconds.
  at::Device device = at::kCPU;
};

/// Llama 2 with 7 billion parameters.
LlamaOptions llama2_7b();

/// A decoder of text: rotary positions, RMS norm, causal attention, SwiGLU, no biases. The names
/// are those of transformers' LlamaForCausalLM (model.layers.0.self_attn.q_proj.weight), without
/// lm_head.weight where embeddings are tied.
///
/// The logits are [batch, length, vocabulary]. An estimator has it without a head: the loss is the
/// mean cross-entropy of each token after the first, from those before it; the metrics are
/// `accuracy`, `average_loss` and `perplexity`, the predictions `logits` [batch, vocabulary] and
/// `next_token` [batch, 1] after the last token. Throws InvalidArgument for options that are not
/// positive, or heads that do not divide.
std::shared_ptr<TextDecoder> llama(LlamaOptions options = {});

}  // namespace muster::zoo
