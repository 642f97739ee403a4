#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/nn/zoo/image_input.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// Changes to a model that is made by its name. Nothing leaves it as it is published.
struct MakeOptions {
  std::optional<std::int64_t> num_classes{};
  /// For image models.
  std::optional<ImageInput> image{};
  /// Name of the feature with ids, for models of text.
  std::optional<std::string> feature{};
  /// Rate of dropout, for models that have any.
  std::optional<double> dropout{};
};

/// A model by its name: "resnet18", "mobilenet_v2", "vit_b_16", "bert_base", "gpt2". Throws
/// NotFound for another name, with the nearest and all there are; InvalidArgument for options that
/// the model does not have.
std::shared_ptr<Network> make(std::string_view name, const MakeOptions& options = {});

/// The names that make() takes.
std::vector<std::string> names();

}  // namespace muster::zoo
