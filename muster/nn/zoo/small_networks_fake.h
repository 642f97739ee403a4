#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/weights/weights.h"
#include "muster/nn/weights/weight_tensor.h"
#include "muster/nn/zoo.h"

namespace muster::zoo {

/// Names of the small models in tests/zoo/fixtures.
inline std::vector<std::string> small_networks() {
  return {"resnet18", "resnet34",  "resnet50", "resnext50_32x4d", "mobilenet_v2", "unet",
          "vit_b_16", "bert_base", "gpt2",     "gpt2_classifier", "llama",        "lstm",
          "gru"};
}

inline std::shared_ptr<TextDecoder> small_llama() {
  return llama({.vocabulary = 20,
                .positions = 16,
                .hidden = 16,
                .layers = 2,
                .heads = 4,
                .key_value_heads = 2,
                .mlp_units = 24,
                .input_ids = "input"});
}

/// A small model that tests/zoo/write_models made with PyTorch too.
inline std::shared_ptr<Network> small_network(const std::string& name) {
  const auto small_resnet = [](std::vector<std::int64_t> units, bool bottleneck,
                               std::int64_t base) {
    return ResNetOptions{.units = std::move(units),
                         .bottleneck = bottleneck,
                         .base_channels = base,
                         .num_classes = 5};
  };
  const RecurrentOptions recurrent{
      .vocabulary = 20, .embedding = 5, .hidden = 6, .num_classes = 3, .feature = "input"};
  const Gpt2Options decoder{.vocabulary = 20,
                            .positions = 16,
                            .hidden = 8,
                            .layers = 2,
                            .heads = 2,
                            .input_ids = "input"};
  if (name == "resnet18") return resnet(small_resnet({2, 2, 1, 1}, false, 2));
  if (name == "resnet34") return resnet(small_resnet({1, 2, 1, 1}, false, 2));
  if (name == "resnet50") return resnet(small_resnet({1, 2, 1, 1}, true, 1));
  if (name == "resnext50_32x4d") {
    auto options = small_resnet({1, 1, 1, 1}, true, 2);
    options.groups = 2;
    options.width_per_group = 32;
    return resnet(options);
  }
  if (name == "mobilenet_v2") {
    return mobilenet_v2({.width = 0.25,
                         .stages = {{1, 16, 1, 1}, {3, 24, 2, 2}, {3, 32, 2, 2}},
                         .last_channels = 24,
                         .num_classes = 5});
  }
  if (name == "unet") return unet({.base_channels = 2, .levels = 2, .num_classes = 2});
  if (name == "vit_b_16") {
    return vision_transformer({.image_size = 16,
                               .patch_size = 8,
                               .layers = 2,
                               .heads = 2,
                               .hidden = 8,
                               .mlp_units = 12,
                               .num_classes = 5});
  }
  if (name == "bert_base") {
    return bert({.vocabulary = 20,
                 .hidden = 8,
                 .layers = 2,
                 .heads = 2,
                 .mlp_units = 12,
                 .positions = 16,
                 .num_classes = 3,
                 .input_ids = "input"});
  }
  if (name == "gpt2") return gpt2(decoder);
  if (name == "gpt2_classifier") {
    auto options = decoder;
    options.layers = 1;
    options.num_classes = 3;
    return gpt2(options);
  }
  if (name == "llama") return small_llama();
  auto options = recurrent;
  if (name == "gru") return gru_classifier(options);
  options.layers = 2;
  options.bidirectional = true;
  return lstm_classifier(options);
}

inline Path fixture(const std::string& file) { return Path(FIXTURES_DIR) / file; }

/// The inputs in a file of tests/zoo/write_models under the names of features, and PyTorch's
/// output.
inline std::pair<Features, at::Tensor> read_input_and_output(const Path& path) {
  const Weights file = open_weights(path);
  std::pair<Features, at::Tensor> result;
  for (const Weight& weight : file.tensors) {
    const at::Tensor tensor = tensor_of(weight);
    if (weight.name == "output") {
      result.second = tensor;
    } else {
      const bool is_image = tensor.dim() == 4;
      result.first.add(is_image ? "image" : weight.name, tensor);
    }
  }
  return result;
}

inline std::pair<Features, at::Tensor> input_and_output(const std::string& name) {
  return read_input_and_output(fixture(name + ".io.safetensors"));
}

}  // namespace muster::zoo
