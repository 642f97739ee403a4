#include "muster/nn/zoo/bert.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/recompute.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

torch::nn::LayerNorm bert_norm(std::int64_t hidden) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({hidden}).eps(1e-12));
}

/// A dense layer whose output is added to the block's input and normalised: dense, LayerNorm.
class AddedOutput : public torch::nn::Module {
 public:
  AddedOutput(std::int64_t inputs, std::int64_t hidden, double dropout)
      : dense_(register_module("dense", torch::nn::Linear(inputs, hidden))),
        norm_(register_module("LayerNorm", bert_norm(hidden))),
        dropout_(internal::register_dropout(*this, "dropout", dropout)) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& input) {
    return norm_->forward(internal::dropped(dropout_, dense_->forward(x)) + input);
  }

 private:
  torch::nn::Linear dense_;
  torch::nn::LayerNorm norm_;
  std::shared_ptr<Dropout> dropout_;
};

class BertBlock : public torch::nn::Module, public Recomputable {
 public:
  explicit BertBlock(const BertOptions& options) : heads_(options.heads) {
    const std::int64_t hidden = options.hidden;
    const auto attention = internal::register_container(*this, "attention");
    const auto self = internal::register_container(*attention, "self");
    query_ = self->register_module("query", torch::nn::Linear(hidden, hidden));
    key_ = self->register_module("key", torch::nn::Linear(hidden, hidden));
    value_ = self->register_module("value", torch::nn::Linear(hidden, hidden));
    dropout_ = internal::register_dropout(*self, "dropout", options.dropout);
    attended_ = attention->register_module(
        "output", std::make_shared<AddedOutput>(hidden, hidden, options.dropout));
    const auto intermediate = internal::register_container(*this, "intermediate");
    wide_ = intermediate->register_module("dense", torch::nn::Linear(hidden, options.mlp_units));
    output_ = register_module(
        "output", std::make_shared<AddedOutput>(options.mlp_units, hidden, options.dropout));
  }

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    return recomputed(*this, {x, mask},
                      [this](auto inputs) { return block(inputs[0], inputs[1]); });
  }

 private:
  torch::Tensor block(const torch::Tensor& input, const torch::Tensor& mask) {
    const auto attended = internal::attention(query_->forward(input), key_->forward(input),
                                              value_->forward(input), heads_, mask, dropout_);
    const auto x = attended_->forward(attended, input);
    return output_->forward(at::gelu(wide_->forward(x), "none"), x);
  }

  std::int64_t heads_;
  torch::nn::Linear query_{nullptr}, key_{nullptr}, value_{nullptr}, wide_{nullptr};
  std::shared_ptr<Dropout> dropout_;
  std::shared_ptr<AddedOutput> attended_, output_;
};

void check(const BertOptions& options) {
  internal::check_heads(options.hidden, options.heads);
  internal::check_positive("BertOptions::vocabulary", options.vocabulary);
  internal::check_positive("BertOptions::layers", options.layers);
  internal::check_positive("BertOptions::mlp_units", options.mlp_units);
  internal::check_positive("BertOptions::positions", options.positions);
  internal::check_positive("BertOptions::token_types", options.token_types);
  if (options.num_classes < 0) {
    throw InvalidArgument("BertOptions::num_classes must not be negative: {}", options.num_classes);
  }
}

class BertNetwork : public Bert {
 public:
  explicit BertNetwork(BertOptions options) : Bert("bert"), options_(std::move(options)) {
    const std::int64_t hidden = options_.hidden;
    const auto body = internal::register_container(*this, "bert");
    const auto embeddings = internal::register_container(*body, "embeddings");
    words_ = embeddings->register_module("word_embeddings",
                                         torch::nn::Embedding(options_.vocabulary, hidden));
    positions_ = embeddings->register_module("position_embeddings",
                                             torch::nn::Embedding(options_.positions, hidden));
    types_ = embeddings->register_module("token_type_embeddings",
                                         torch::nn::Embedding(options_.token_types, hidden));
    norm_ = embeddings->register_module("LayerNorm", bert_norm(hidden));
    dropout_ = internal::register_dropout(*embeddings, "dropout", options_.dropout);
    const auto encoder = internal::register_container(*body, "encoder");
    const auto layers = internal::register_container(*encoder, "layer");
    for (std::int64_t i = 0; i < options_.layers; ++i) {
      blocks_.push_back(
          layers->register_module(std::to_string(i), std::make_shared<BertBlock>(options_)));
    }
    const auto pooler = internal::register_container(*body, "pooler");
    pooled_ = pooler->register_module("dense", torch::nn::Linear(hidden, hidden));
    internal::fill_matrices(*this);
    if (options_.num_classes == 0) return;
    last_dropout_ = internal::register_dropout(*this, "dropout", options_.dropout);
    classifier_ = register_module("classifier", torch::nn::Linear(hidden, options_.num_classes));
    internal::fill_matrices(*classifier_);
  }

  torch::Tensor forward(const Features& features) override {
    const auto optional = [&](const std::string& name) {
      return features.contains(name) ? features.tensor(name) : torch::Tensor();
    };
    return output_of(hidden_states(features.tensor(options_.input_ids),
                                   optional(options_.attention_mask),
                                   optional(options_.token_type_ids)));
  }

  torch::Tensor logits(const torch::Tensor& ids) override {
    return output_of(hidden_states(ids, {}, {}));
  }

  torch::Tensor hidden_states(const torch::Tensor& ids, const torch::Tensor& mask,
                              const torch::Tensor& types) override {
    internal::check_ids("bert", ids, options_.positions);
    for (const torch::Tensor& other : {mask, types}) {
      if (other.defined() && other.sizes() != ids.sizes()) {
        throw InvalidArgument("bert takes a mask and types of the ids' shape, {}: {}",
                              describe(FeatureValue(ids)), describe(FeatureValue(other)));
      }
    }
    const auto of_type = types.defined() ? types_->forward(types) : types_->weight.select(0, 0);
    auto x = words_->forward(ids) + of_type + positions_->weight.slice(0, 0, ids.size(1));
    x = internal::dropped(dropout_, norm_->forward(x));
    torch::Tensor added;
    if (mask.defined()) {
      added = ((1 - mask.to(x.scalar_type())) * std::numeric_limits<float>::lowest())
                  .unsqueeze(1)
                  .unsqueeze(1);
    }
    for (const auto& block : blocks_) x = block->forward(x, added);
    return x;
  }

 private:
  torch::Tensor output_of(const torch::Tensor& hidden) {
    const auto pooled = at::tanh(pooled_->forward(hidden.select(1, 0)));
    if (classifier_.is_empty()) return pooled;
    return classifier_->forward(internal::dropped(last_dropout_, pooled));
  }

  BertOptions options_;
  torch::nn::Embedding words_{nullptr}, positions_{nullptr}, types_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  std::vector<std::shared_ptr<BertBlock>> blocks_;
  torch::nn::Linear pooled_{nullptr}, classifier_{nullptr};
  std::shared_ptr<Dropout> dropout_, last_dropout_;
};

}  // namespace

std::shared_ptr<Bert> bert(BertOptions options) {
  check(options);
  return std::make_shared<BertNetwork>(std::move(options));
}

}  // namespace muster::zoo
