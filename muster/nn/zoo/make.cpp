#include "muster/nn/zoo/make.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"
#include "muster/nn/zoo/bert.h"
#include "muster/nn/zoo/gpt2.h"
#include "muster/nn/zoo/llama.h"
#include "muster/nn/zoo/mobilenet_v2.h"
#include "muster/nn/zoo/recurrent_classifier.h"
#include "muster/nn/zoo/resnet.h"
#include "muster/nn/zoo/unet.h"
#include "muster/nn/zoo/vision_transformer.h"

namespace muster::zoo {
namespace {

using Maker = std::function<std::shared_ptr<Network>(const MakeOptions&)>;

/// Sets what was given, and refuses what `Options` has no field for.
template <typename Options>
Options with(Options options, const MakeOptions& changes) {
  const auto refuse = [](const char* field) {
    throw InvalidArgument("MakeOptions::{} is for other models than this", field);
  };
  if (changes.num_classes) {
    if constexpr (requires { options.num_classes; }) {
      options.num_classes = *changes.num_classes;
    } else {
      refuse("num_classes");
    }
  }
  if (changes.image) {
    if constexpr (requires { options.image; }) {
      options.image = *changes.image;
    } else {
      refuse("image");
    }
  }
  if (changes.feature) {
    if constexpr (requires { options.input_ids; }) {
      options.input_ids = *changes.feature;
    } else if constexpr (requires { options.image; }) {
      options.image.feature = *changes.feature;
    } else {
      options.feature = *changes.feature;
    }
  }
  if (changes.dropout) {
    if constexpr (requires { options.dropout; }) {
      options.dropout = *changes.dropout;
    } else {
      refuse("dropout");
    }
  }
  return options;
}

/// A maker of `make(options)`.
template <typename Make, typename Options>
Maker maker(Make make, const Options& options) {
  return [make, options](const MakeOptions& changes) -> std::shared_ptr<Network> {
    return make(with(options, changes));
  };
}

const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> all{
      {"resnet18", maker(resnet, ResNetOptions{})},
      {"resnet34", maker(resnet, ResNetOptions{.units = {3, 4, 6, 3}})},
      {"resnet50", maker(resnet, ResNetOptions{.units = {3, 4, 6, 3}, .bottleneck = true})},
      {"resnet101", maker(resnet, ResNetOptions{.units = {3, 4, 23, 3}, .bottleneck = true})},
      {"resnet152", maker(resnet, ResNetOptions{.units = {3, 8, 36, 3}, .bottleneck = true})},
      {"resnext50_32x4d",
       maker(resnet,
             ResNetOptions{
                 .units = {3, 4, 6, 3}, .bottleneck = true, .groups = 32, .width_per_group = 4})},
      {"wide_resnet50_2",
       maker(resnet,
             ResNetOptions{.units = {3, 4, 6, 3}, .bottleneck = true, .width_per_group = 128})},
      {"mobilenet_v2", maker(mobilenet_v2, MobileNetV2Options{})},
      {"unet", maker(unet, UNetOptions{})},
      {"vit_b_16", maker(vision_transformer, VisionTransformerOptions{})},
      {"vit_b_32", maker(vision_transformer, VisionTransformerOptions{.patch_size = 32})},
      {"vit_l_16", maker(vision_transformer,
                         VisionTransformerOptions{
                             .layers = 24, .heads = 16, .hidden = 1024, .mlp_units = 4096})},
      {"bert_base", maker(bert, BertOptions{})},
      {"bert_large",
       maker(bert, BertOptions{.hidden = 1024, .layers = 24, .heads = 16, .mlp_units = 4096})},
      {"gpt2", maker(gpt2, Gpt2Options{})},
      {"gpt2_medium", maker(gpt2, Gpt2Options{.hidden = 1024, .layers = 24, .heads = 16})},
      {"tinyllama_1b", maker(llama, LlamaOptions{})},
      {"llama2_7b", maker(llama, llama2_7b())},
      {"lstm", maker(lstm_classifier, RecurrentOptions{})},
      {"gru", maker(gru_classifier, RecurrentOptions{})},
  };
  return all;
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> names;
  names.reserve(makers().size());
  for (const auto& [name, make] : makers()) names.push_back(name);
  return names;
}

std::shared_ptr<Network> make(std::string_view name, const MakeOptions& options) {
  for (const auto& [known, make] : makers()) {
    if (known != name) continue;
    try {
      return make(options);
    } catch (Error& error) {
      error.add_context(fmt::format("making {}", name));
      throw;
    }
  }
  const auto all = names();
  throw NotFound("the zoo has no model \"{}\"{}; it has {}", name, did_you_mean(name, all),
                 fmt::join(all, ", "));
}

}  // namespace muster::zoo
