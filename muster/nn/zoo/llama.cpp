#include "muster/nn/zoo/llama.h"

#include <torch/types.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/projection.h"
#include "muster/nn/model/recompute.h"
#include "muster/nn/model/rms_norm.h"
#include "muster/nn/model/swiglu.h"
#include "muster/nn/zoo/layers_internal.h"
#include "muster/nn/zoo/next_token_internal.h"

namespace muster::zoo {
namespace {

constexpr double kDeviation = 0.02;

/// Weights of projections that many layers add up begin smaller.
double deviation_of_added(const LlamaOptions& options) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
}

class LlamaBlock : public torch::nn::Module, public Recomputable {
 public:
  explicit LlamaBlock(const LlamaOptions& options) {
    const auto norm = [&](const char* name) {
      return register_module(
          name, std::make_shared<RmsNorm>(options.hidden, options.norm_epsilon, options.device));
    };
    const double added = deviation_of_added(options);
    attention_ =
        register_module("self_attn", std::make_shared<CausalAttention>(CausalAttentionOptions{
                                         .hidden = options.hidden,
                                         .heads = options.heads,
                                         .key_value_heads = options.key_value_heads,
                                         .deviation = kDeviation,
                                         .output_deviation = added,
                                         .device = options.device}));
    mlp_ =
        register_module("mlp", std::make_shared<SwiGlu>(SwiGluOptions{.inputs = options.hidden,
                                                                      .units = options.mlp_units,
                                                                      .deviation = kDeviation,
                                                                      .output_deviation = added,
                                                                      .device = options.device}));
    attention_norm_ = norm("input_layernorm");
    mlp_norm_ = norm("post_attention_layernorm");
  }

  torch::Tensor forward(const torch::Tensor& x, const RotaryAngles& angles,
                        const torch::Tensor& mask, KeyValues* seen) {
    // Keys and values would be added to `seen` a second time.
    if (seen != nullptr) return block(x, angles, mask, seen);
    return recomputed(*this, {x, angles.cosines, angles.sines, mask}, [this](auto inputs) {
      return block(inputs[0], {inputs[1], inputs[2]}, inputs[3], nullptr);
    });
  }

 private:
  torch::Tensor block(const torch::Tensor& input, const RotaryAngles& angles,
                      const torch::Tensor& mask, KeyValues* seen) {
    const auto x = input + attention_->forward(attention_norm_->forward(input), angles, mask, seen);
    return x + mlp_->forward(mlp_norm_->forward(x));
  }

  std::shared_ptr<RmsNorm> attention_norm_, mlp_norm_;
  std::shared_ptr<CausalAttention> attention_;
  std::shared_ptr<SwiGlu> mlp_;
};

LlamaOptions checked_options(LlamaOptions options) {
  internal::check_heads(options.hidden, options.heads);
  internal::check_positive("LlamaOptions::vocabulary", options.vocabulary);
  internal::check_positive("LlamaOptions::positions", options.positions);
  internal::check_positive("LlamaOptions::layers", options.layers);
  internal::check_positive("LlamaOptions::mlp_units", options.mlp_units);
  if (options.key_value_heads == 0) options.key_value_heads = options.heads;
  if (options.hidden / options.heads % 2 != 0) {
    throw InvalidArgument("hidden / heads, {}, must be even: rotary positions turn pairs",
                          options.hidden / options.heads);
  }
  return options;
}

class Llama : public TextDecoder {
 public:
  explicit Llama(LlamaOptions options) : TextDecoder("llama"), options_(std::move(options)) {
    const auto body = internal::register_container(*this, "model");
    // Rows of a table are what a projection's weight is, too.
    tokens_ = body->register_module("embed_tokens", table_of_tokens());
    const auto layers = internal::register_container(*body, "layers");
    for (std::int64_t i = 0; i < options_.layers; ++i) {
      blocks_.push_back(
          layers->register_module(std::to_string(i), std::make_shared<LlamaBlock>(options_)));
    }
    norm_ = body->register_module(
        "norm", std::make_shared<RmsNorm>(options_.hidden, options_.norm_epsilon, options_.device));
    if (!options_.tied_embeddings) head_ = register_module("lm_head", table_of_tokens());
  }

  torch::Tensor forward(const Features& features) override {
    return logits(features.tensor(options_.input_ids));
  }

  torch::Tensor logits(const torch::Tensor& ids) override {
    return logits_of(hidden_states(ids, nullptr));
  }

  torch::Tensor next_logits(const torch::Tensor& ids, KeyValueCache& cache) override {
    return logits_of(hidden_states(ids, &cache).select(1, -1));
  }

  std::int64_t positions() const override { return options_.positions; }

  EstimatorSpec call(const Batch& batch, Mode mode, const Head* head) override {
    if (head != nullptr) return Model::call(batch, mode, head);
    return internal::next_token_spec(
        name(), batch.features, {options_.input_ids, options_.attention_mask}, mode,
        [this](const torch::Tensor& ids) { return hidden_states(ids, nullptr); },
        [this](const torch::Tensor& hidden) { return logits_of(hidden); });
  }

 private:
  std::shared_ptr<Projection> table_of_tokens() const {
    return std::make_shared<Projection>(
        options_.hidden, options_.vocabulary,
        ProjectionOptions{.deviation = kDeviation, .device = options_.device});
  }

  torch::Tensor hidden_states(const torch::Tensor& ids, KeyValueCache* cache) {
    internal::check_ids("llama", ids, options_.positions);
    const std::int64_t before = cache != nullptr ? cache->length() : 0;
    const std::int64_t length = ids.size(1);
    if (before + length > options_.positions) {
      throw InvalidArgument("llama has {} positions, and {} tokens follow {}: begin a new cache",
                            options_.positions, length, before);
    }
    if (cache != nullptr) cache->layers.resize(blocks_.size());
    auto x = at::embedding(tokens_->weight, ids);
    const auto angles = rotary_angles(before, length, options_.hidden / options_.heads,
                                      options_.rotary_base, x.device());
    const auto mask = causal_mask(before, length, x.options());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i]->forward(x, angles, mask, cache != nullptr ? &cache->layers[i] : nullptr);
    }
    return norm_->forward(x);
  }

  torch::Tensor logits_of(const torch::Tensor& hidden) {
    return (head_ ? head_ : tokens_)->forward(hidden);
  }

  LlamaOptions options_;
  std::shared_ptr<Projection> tokens_, head_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<RmsNorm> norm_;
};

}  // namespace

LlamaOptions llama2_7b() {
  return {.positions = 4096,
          .hidden = 4096,
          .layers = 32,
          .heads = 32,
          .key_value_heads = 32,
          .mlp_units = 11008};
}

std::shared_ptr<TextDecoder> llama(LlamaOptions options) {
  return std::make_shared<Llama>(checked_options(std::move(options)));
}

}  // namespace muster::zoo
