#include "muster/nn/zoo/vision_transformer.h"

#include <fmt/core.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/recompute.h"
#include "muster/nn/zoo/image_network_internal.h"
#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

torch::nn::LayerNorm layer_norm(std::int64_t hidden) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({hidden}).eps(1e-6));
}

/// Self-attention whose weights of q, k and v are one matrix: in_proj_weight, out_proj.
class PackedAttention : public torch::nn::Module {
 public:
  PackedAttention(std::int64_t hidden, std::int64_t heads, double dropout)
      : heads_(heads),
        weight_(register_parameter("in_proj_weight", torch::empty({3 * hidden, hidden}))),
        bias_(register_parameter("in_proj_bias", torch::zeros({3 * hidden}))),
        out_(register_module("out_proj", torch::nn::Linear(hidden, hidden))),
        dropout_(internal::register_dropout(*this, "dropout", dropout)) {
    torch::nn::init::xavier_uniform_(weight_);
    torch::nn::init::zeros_(out_->bias);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const auto qkv = at::linear(x, weight_, bias_).chunk(3, -1);
    return out_->forward(internal::attention(qkv[0], qkv[1], qkv[2], heads_, {}, dropout_));
  }

 private:
  std::int64_t heads_;
  torch::Tensor weight_, bias_;
  torch::nn::Linear out_;
  std::shared_ptr<Dropout> dropout_;
};

/// Attention and two dense layers "mlp.0" and "mlp.3", each normalised before and added to its
/// input.
class EncoderBlock : public torch::nn::Module, public Recomputable {
 public:
  explicit EncoderBlock(const VisionTransformerOptions& options)
      : norm_1_(register_module("ln_1", layer_norm(options.hidden))),
        attention_(register_module(
            "self_attention",
            std::make_shared<PackedAttention>(options.hidden, options.heads, options.dropout))),
        norm_2_(register_module("ln_2", layer_norm(options.hidden))),
        dropout_(internal::register_dropout(*this, "dropout", options.dropout)) {
    const auto mlp = internal::register_container(*this, "mlp");
    wide_ = mlp->register_module("0", torch::nn::Linear(options.hidden, options.mlp_units));
    wide_dropout_ = internal::register_dropout(*mlp, "2", options.dropout);
    narrow_ = mlp->register_module("3", torch::nn::Linear(options.mlp_units, options.hidden));
    narrow_dropout_ = internal::register_dropout(*mlp, "4", options.dropout);
    for (auto& layer : {wide_, narrow_}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::normal_(layer->bias, 0, 1e-6);
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return recomputed(*this, {x}, [this](auto inputs) { return block(inputs[0]); });
  }

 private:
  torch::Tensor block(const torch::Tensor& input) {
    const auto x =
        input + internal::dropped(dropout_, attention_->forward(norm_1_->forward(input)));
    const auto wide =
        internal::dropped(wide_dropout_, at::gelu(wide_->forward(norm_2_->forward(x)), "none"));
    return x + internal::dropped(narrow_dropout_, narrow_->forward(wide));
  }

  torch::nn::LayerNorm norm_1_;
  std::shared_ptr<PackedAttention> attention_;
  torch::nn::LayerNorm norm_2_;
  std::shared_ptr<Dropout> dropout_, wide_dropout_, narrow_dropout_;
  torch::nn::Linear wide_{nullptr}, narrow_{nullptr};
};

void check(const VisionTransformerOptions& options) {
  internal::check_heads(options.hidden, options.heads);
  internal::check_positive("VisionTransformerOptions::image_size", options.image_size);
  internal::check_positive("VisionTransformerOptions::patch_size", options.patch_size);
  internal::check_positive("VisionTransformerOptions::layers", options.layers);
  internal::check_positive("VisionTransformerOptions::mlp_units", options.mlp_units);
  internal::check_positive("VisionTransformerOptions::num_classes", options.num_classes);
  if (options.image_size % options.patch_size != 0) {
    throw InvalidArgument(
        "VisionTransformerOptions::image_size, {}, must be a multiple of patch_size, {}",
        options.image_size, options.patch_size);
  }
}

class VisionTransformer : public internal::ImageNetwork {
 public:
  explicit VisionTransformer(const VisionTransformerOptions& options)
      : ImageNetwork("vision_transformer", options.image, options.channels),
        image_size_(options.image_size),
        class_token_(register_parameter("class_token", torch::zeros({1, 1, options.hidden}))),
        patches_(register_module(
            "conv_proj", torch::nn::Conv2d(torch::nn::Conv2dOptions(
                                               options.channels, options.hidden, options.patch_size)
                                               .stride(options.patch_size)))) {
    const std::int64_t side = options.image_size / options.patch_size;
    const auto encoder = internal::register_container(*this, "encoder");
    positions_ = encoder->register_parameter("pos_embedding",
                                             torch::empty({1, side * side + 1, options.hidden}));
    dropout_ = internal::register_dropout(*encoder, "dropout", options.dropout);
    const auto layers = internal::register_container(*encoder, "layers");
    for (std::int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(layers->register_module(fmt::format("encoder_layer_{}", i),
                                                std::make_shared<EncoderBlock>(options)));
    }
    norm_ = encoder->register_module("ln", layer_norm(options.hidden));
    const auto heads = internal::register_container(*this, "heads");
    logits_ =
        heads->register_module("head", torch::nn::Linear(options.hidden, options.num_classes));
    torch::nn::init::normal_(positions_, 0, 0.02);
    const auto inputs = options.channels * options.patch_size * options.patch_size;
    torch::nn::init::normal_(patches_->weight, 0, std::sqrt(1 / static_cast<double>(inputs)));
    torch::nn::init::zeros_(patches_->bias);
    torch::nn::init::zeros_(logits_->weight);
    torch::nn::init::zeros_(logits_->bias);
  }

  torch::Tensor logits(const torch::Tensor& images) override {
    check_images(images);
    if (images.size(2) != image_size_ || images.size(3) != image_size_) {
      throw InvalidArgument("vision_transformer was made for images of {} x {}: {}", image_size_,
                            image_size_, describe(FeatureValue(images)));
    }
    auto x = patches_->forward(images).flatten(2).transpose(1, 2);
    x = at::cat({class_token_.expand({x.size(0), -1, -1}), x}, 1) + positions_;
    x = internal::dropped(dropout_, x);
    for (const auto& block : blocks_) x = block->forward(x);
    return logits_->forward(norm_->forward(x).select(1, 0));
  }

 private:
  std::int64_t image_size_;
  torch::Tensor class_token_, positions_;
  torch::nn::Conv2d patches_;
  std::shared_ptr<Dropout> dropout_;
  std::vector<std::shared_ptr<EncoderBlock>> blocks_;
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear logits_{nullptr};
};

}  // namespace

std::shared_ptr<Network> vision_transformer(const VisionTransformerOptions& options) {
  check(options);
  return std::make_shared<VisionTransformer>(options);
}

}  // namespace muster::zoo
