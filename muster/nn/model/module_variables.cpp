#include "muster/nn/model/module_variables.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/sparse_tables.h"

namespace muster {
namespace {

/// Special properties of the variables of one kind of module.
struct Convention {
  std::map<std::string, std::string> words;
  VariableLayout weight_layout = VariableLayout::kAsIs;
  bool sparse_weight = false;
  /// Tensors of the tables of a module with SparseTables.
  std::set<const void*> tables{};
};

constexpr std::string_view kDotInKey = "%2E";

const Convention kKernel{{{"weight", "kernel"}}, VariableLayout::kConvolution};
const Convention kNormalisation{{{"weight", "gamma"},
                                 {"bias", "beta"},
                                 {"running_mean", "moving_mean"},
                                 {"running_var", "moving_variance"}}};

template <typename... Kinds>
bool is_any_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Kinds*>(&module) != nullptr) || ...);
}

Convention convention_of(const torch::nn::Module& module) {
  namespace nn = torch::nn;
  if (is_any_of<nn::LinearImpl>(module))
    return {{{"weight", "kernel"}}, VariableLayout::kTransposed};
  if (is_any_of<nn::Conv1dImpl, nn::Conv2dImpl, nn::Conv3dImpl>(module)) return kKernel;
  if (is_any_of<nn::BatchNorm1dImpl, nn::BatchNorm2dImpl, nn::BatchNorm3dImpl, nn::LayerNormImpl,
                nn::GroupNormImpl>(module)) {
    return kNormalisation;
  }
  if (const auto* embedding = dynamic_cast<const nn::EmbeddingImpl*>(&module)) {
    return {{}, VariableLayout::kAsIs, embedding->options.sparse()};
  }
  Convention convention;
  if (const auto* sparse = dynamic_cast<const SparseTables*>(&module)) {
    for (const auto& table : sparse->tables()) {
      convention.tables.insert(table.unsafeGetTensorImpl());
    }
  }
  return convention;
}

// Name that parameter_key() was given.
std::string name_of_key(std::string key) {
  for (auto at = key.find(kDotInKey); at != std::string::npos; at = key.find(kDotInKey, at + 1)) {
    key.replace(at, kDotInKey.size(), ".");
  }
  return key;
}

std::string path_of(std::string module, const std::string& word) {
  if (module.empty()) return word;
  std::replace(module.begin(), module.end(), '.', '/');
  return module + "/" + word;
}

ModuleVariable describe_variable(const std::string& module, const Convention& convention,
                                 const std::string& key, const at::Tensor& tensor, bool trainable) {
  const auto word = convention.words.find(key);
  const bool is_weight = key == "weight";
  return {.name = path_of(module, word == convention.words.end() ? name_of_key(key) : word->second),
          .key = module.empty() ? key : module + "." + key,
          .tensor = tensor,
          .trainable = trainable,
          .sparse = (is_weight && convention.sparse_weight) ||
                    convention.tables.contains(tensor.unsafeGetTensorImpl()),
          .layout = is_weight ? convention.weight_layout : VariableLayout::kAsIs};
}

// [out, in, ...space] to [...space, in, out] and back, as orders of dimensions.
std::vector<std::int64_t> checkpoint_order(std::int64_t dimensions) {
  std::vector<std::int64_t> order;
  for (std::int64_t d = 2; d < dimensions; ++d) order.push_back(d);
  order.push_back(1);
  order.push_back(0);
  return order;
}

std::vector<std::int64_t> module_order(std::int64_t dimensions) {
  std::vector<std::int64_t> order{dimensions - 1, dimensions - 2};
  for (std::int64_t d = 0; d + 2 < dimensions; ++d) order.push_back(d);
  return order;
}

}  // namespace

at::Tensor to_checkpoint_layout(const at::Tensor& tensor, VariableLayout layout) {
  if (layout == VariableLayout::kAsIs) return tensor.contiguous();
  return tensor.permute(checkpoint_order(tensor.dim())).contiguous();
}

at::Tensor from_checkpoint_layout(const at::Tensor& tensor, VariableLayout layout) {
  if (layout == VariableLayout::kAsIs) return tensor.contiguous();
  return tensor.permute(module_order(tensor.dim())).contiguous();
}

std::vector<std::int64_t> checkpoint_shape(at::IntArrayRef sizes, VariableLayout layout) {
  if (layout == VariableLayout::kAsIs) return sizes.vec();
  std::vector<std::int64_t> shape;
  for (const std::int64_t d : checkpoint_order(static_cast<std::int64_t>(sizes.size()))) {
    shape.push_back(sizes[static_cast<std::size_t>(d)]);
  }
  return shape;
}

std::string parameter_key(std::string_view name) {
  std::string key;
  for (const char letter : name) {
    if (letter == '.') {
      key += kDotInKey;
    } else {
      key += letter;
    }
  }
  return key;
}

std::vector<ModuleVariable> variables_of(const torch::nn::Module& root) {
  std::vector<ModuleVariable> parameters;
  std::vector<ModuleVariable> buffers;
  const auto take = [&](const std::string& path, const torch::nn::Module& module) {
    const Convention convention = convention_of(module);
    for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
      if (!parameter.value().defined()) continue;
      parameters.push_back(describe_variable(path, convention, parameter.key(), parameter.value(),
                                             parameter.value().requires_grad()));
    }
    for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
      if (!buffer.value().defined()) continue;
      buffers.push_back(describe_variable(path, convention, buffer.key(), buffer.value(), false));
    }
  };
  // A root that is on the stack cannot be had as a shared pointer.
  take("", root);
  for (const auto& item : root.named_modules("", /*include_self=*/false)) {
    take(item.key(), *item.value());
  }
  parameters.insert(parameters.end(), std::make_move_iterator(buffers.begin()),
                    std::make_move_iterator(buffers.end()));
  std::set<std::string> names;
  for (const auto& variable : parameters) {
    if (!names.insert(variable.name).second) {
      throw InvalidArgument(
          "two variables of the model are both named {} in checkpoints; rename a "
          "module or a parameter",
          variable.name);
    }
  }
  return parameters;
}

}  // namespace muster
