#include "muster/nn/zoo/gpt2.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/causal_attention.h"
#include "muster/nn/model/recompute.h"
#include "muster/nn/zoo/layers_internal.h"
#include "muster/nn/zoo/next_token_internal.h"

namespace muster::zoo {
namespace {

/// A dense layer whose weight is [in, out], as GPT-2's files have it.
class TransposedDense : public torch::nn::Module {
 public:
  TransposedDense(std::int64_t inputs, std::int64_t outputs, double deviation)
      : weight_(register_parameter("weight", torch::randn({inputs, outputs}) * deviation)),
        bias_(register_parameter("bias", torch::zeros({outputs}))) {}

  torch::Tensor forward(const torch::Tensor& x) { return at::matmul(x, weight_) + bias_; }

 private:
  torch::Tensor weight_, bias_;
};

class Gpt2Block : public torch::nn::Module, public Recomputable {
 public:
  explicit Gpt2Block(const Gpt2Options& options)
      : heads_(options.heads),
        norm_1_(register_module(
            "ln_1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.hidden})))) {
    const std::int64_t hidden = options.hidden;
    // Weights of projections that many layers add up begin smaller.
    const double added = 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
    const auto dense = [](torch::nn::Module& parent, const char* name, std::int64_t inputs,
                          std::int64_t outputs, double deviation) {
      return parent.register_module(name,
                                    std::make_shared<TransposedDense>(inputs, outputs, deviation));
    };
    const auto attention = internal::register_container(*this, "attn");
    qkv_ = dense(*attention, "c_attn", hidden, 3 * hidden, 0.02);
    attended_ = dense(*attention, "c_proj", hidden, hidden, added);
    attention_dropout_ = internal::register_dropout(*attention, "attn_dropout", options.dropout);
    attended_dropout_ = internal::register_dropout(*attention, "resid_dropout", options.dropout);
    norm_2_ = register_module("ln_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({hidden})));
    const auto mlp = internal::register_container(*this, "mlp");
    wide_ = dense(*mlp, "c_fc", hidden, 4 * hidden, 0.02);
    narrow_ = dense(*mlp, "c_proj", 4 * hidden, hidden, added);
    narrow_dropout_ = internal::register_dropout(*mlp, "dropout", options.dropout);
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    return recomputed(*this, {x, mask},
                      [this](auto inputs) { return block(inputs[0], inputs[1]); });
  }

 private:
  torch::Tensor block(const torch::Tensor& input, const torch::Tensor& mask) {
    const auto qkv = qkv_->forward(norm_1_->forward(input)).chunk(3, -1);
    const auto attended =
        internal::attention(qkv[0], qkv[1], qkv[2], heads_, mask, attention_dropout_);
    const auto x = input + internal::dropped(attended_dropout_, attended_->forward(attended));
    const auto wide = at::gelu(wide_->forward(norm_2_->forward(x)), "tanh");
    return x + internal::dropped(narrow_dropout_, narrow_->forward(wide));
  }

  std::int64_t heads_;
  torch::nn::LayerNorm norm_1_, norm_2_{nullptr};
  std::shared_ptr<TransposedDense> qkv_, attended_, wide_, narrow_;
  std::shared_ptr<Dropout> attention_dropout_, attended_dropout_, narrow_dropout_;
};

void check(const Gpt2Options& options) {
  internal::check_heads(options.hidden, options.heads);
  internal::check_positive("Gpt2Options::vocabulary", options.vocabulary);
  internal::check_positive("Gpt2Options::positions", options.positions);
  internal::check_positive("Gpt2Options::layers", options.layers);
  if (options.num_classes < 0) {
    throw InvalidArgument("Gpt2Options::num_classes must not be negative: {}", options.num_classes);
  }
}

class Gpt2 : public Network {
 public:
  explicit Gpt2(Gpt2Options options) : Network("gpt2"), options_(std::move(options)) {
    const auto body = internal::register_container(*this, "transformer");
    tokens_ =
        body->register_module("wte", torch::nn::Embedding(options_.vocabulary, options_.hidden));
    positions_ =
        body->register_module("wpe", torch::nn::Embedding(options_.positions, options_.hidden));
    internal::fill_matrices(*tokens_);
    internal::fill_matrices(*positions_);
    dropout_ = internal::register_dropout(*body, "drop", options_.dropout);
    const auto layers = internal::register_container(*body, "h");
    for (std::int64_t i = 0; i < options_.layers; ++i) {
      blocks_.push_back(
          layers->register_module(std::to_string(i), std::make_shared<Gpt2Block>(options_)));
    }
    norm_ = body->register_module(
        "ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options_.hidden})));
    if (options_.num_classes == 0) return;
    score_ = register_module(
        "score", torch::nn::Linear(
                     torch::nn::LinearOptions(options_.hidden, options_.num_classes).bias(false)));
    internal::fill_matrices(*score_);
  }

  torch::Tensor forward(const Features& features) override {
    const auto hidden = hidden_states(features.tensor(options_.input_ids));
    if (options_.num_classes == 0) return all_tokens(hidden);
    return score_->forward(internal::last_hidden_state(hidden, features, names()));
  }

  torch::Tensor logits(const torch::Tensor& ids) override {
    const auto hidden = hidden_states(ids);
    return options_.num_classes == 0 ? all_tokens(hidden) : score_->forward(hidden.select(1, -1));
  }

  EstimatorSpec call(const Batch& batch, Mode mode, const Head* head) override {
    if (head != nullptr || options_.num_classes > 0) return Model::call(batch, mode, head);
    return internal::next_token_spec(
        name(), batch.features, names(), mode,
        [this](const torch::Tensor& ids) { return hidden_states(ids); },
        [this](const torch::Tensor& hidden) { return all_tokens(hidden); });
  }

 private:
  torch::Tensor hidden_states(const torch::Tensor& ids) {
    internal::check_ids("gpt2", ids, options_.positions);
    const std::int64_t length = ids.size(1);
    auto x = tokens_->forward(ids) + positions_->weight.slice(0, 0, length);
    const auto mask = causal_mask(0, length, x.options());
    x = internal::dropped(dropout_, x);
    for (const auto& block : blocks_) x = block->forward(x, mask);
    return norm_->forward(x);
  }

  torch::Tensor all_tokens(const torch::Tensor& hidden) {
    return at::matmul(hidden, tokens_->weight.t());
  }

  internal::TokenFeatures names() const { return {options_.input_ids, options_.attention_mask}; }

  Gpt2Options options_;
  torch::nn::Embedding tokens_{nullptr}, positions_{nullptr};
  std::shared_ptr<Dropout> dropout_;
  std::vector<std::shared_ptr<Gpt2Block>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear score_{nullptr};
};

}  // namespace

std::shared_ptr<Network> gpt2(Gpt2Options options) {
  check(options);
  return std::make_shared<Gpt2>(std::move(options));
}

}  // namespace muster::zoo
