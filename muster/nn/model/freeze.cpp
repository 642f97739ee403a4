#include "muster/nn/model/freeze.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <set>

#include "muster/base/error.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/model/name_pattern.h"

namespace muster {
namespace {

// Parameters, frozen ones too: buffers never have a gradient.
std::vector<ModuleVariable> parameters_of(const torch::nn::Module& module) {
  std::set<std::string> keys;
  for (const auto& parameter : module.named_parameters()) keys.insert(parameter.key());
  std::vector<ModuleVariable> parameters;
  for (auto& variable : variables_of(module)) {
    if (keys.contains(variable.key)) parameters.push_back(std::move(variable));
  }
  return parameters;
}

[[noreturn]] void throw_no_match(const std::string& pattern,
                                 const std::vector<ModuleVariable>& parameters) {
  std::vector<std::string> names;
  names.reserve(parameters.size());
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  throw InvalidArgument("freeze: no parameter matches \"{}\"; there are: {}", pattern,
                        fmt::join(names, ", "));
}

}  // namespace

std::int64_t freeze(torch::nn::Module& module, const std::vector<std::string>& patterns) {
  const auto parameters = parameters_of(module);
  std::vector<at::Tensor> found;
  std::set<std::string> names;
  for (const auto& pattern : patterns) {
    bool matched = false;
    for (const auto& parameter : parameters) {
      if (!matches_name(pattern, parameter.name)) continue;
      matched = true;
      if (parameter.sparse) {
        throw InvalidArgument(
            "freeze: \"{}\" is a sparse table: set `trainable` of its column to false instead",
            parameter.name);
      }
      if (names.insert(parameter.name).second) found.push_back(parameter.tensor);
    }
    if (!matched) throw_no_match(pattern, parameters);
  }
  std::int64_t frozen = 0;
  for (auto& tensor : found) {
    tensor.set_requires_grad(false);
    frozen += tensor.numel();
  }
  return frozen;
}

}  // namespace muster
