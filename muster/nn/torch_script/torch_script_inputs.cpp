#include "muster/nn/torch_script/torch_script_inputs.h"

#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/suggestion.h"

namespace muster {
namespace {

using NamedOutputs = std::vector<std::pair<std::string, at::Tensor>>;

enum class ArgumentKind { kTensor, kDictionary, kOther };

bool is_tensor_type(const c10::TypePtr& type) { return type->isSubtypeOf(*c10::TensorType::get()); }

ArgumentKind kind_of_argument(const c10::Argument& argument) {
  c10::TypePtr type = argument.type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (is_tensor_type(type)) return ArgumentKind::kTensor;
  const auto dictionary = type->cast<c10::DictType>();
  const bool is_of_tensors = dictionary && dictionary->getKeyType() == c10::StringType::get() &&
                             is_tensor_type(dictionary->getValueType());
  return is_of_tensors ? ArgumentKind::kDictionary : ArgumentKind::kOther;
}

bool may_be_left_out(const c10::Argument& argument) { return argument.default_value().has_value(); }

c10::IValue all_tensors(const Features& features) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, value] : features) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) dictionary.insert(name, *tensor);
  }
  return dictionary;
}

std::vector<std::string> tensor_names(const Features& features) {
  std::vector<std::string> names;
  for (const auto& [name, value] : features) {
    if (std::holds_alternative<at::Tensor>(value)) names.push_back(name);
  }
  return names;
}

std::string feature_list(const Features& features) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : features)
    texts.push_back(fmt::format("{}: {}", name, describe(value)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// The feature of each argument; nothing for one that has none by option or name.
std::vector<std::optional<std::string>> features_by_name(
    const std::vector<c10::Argument>& arguments, const Features& features,
    const TorchScriptOptions& options) {
  std::vector<std::optional<std::string>> chosen(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (kind_of_argument(arguments[i]) != ArgumentKind::kTensor) continue;
    const std::string& name = arguments[i].name();
    if (const auto given = options.inputs.find(name); given != options.inputs.end()) {
      chosen[i] = given->second;
    } else if (features.contains(name)) {
      chosen[i] = name;
    }
  }
  return chosen;
}

// In order, where no argument has a feature by its name and the numbers fit.
void choose_in_order(const std::vector<c10::Argument>& arguments, const Features& features,
                     std::vector<std::optional<std::string>>& chosen) {
  const auto has_feature = [](const auto& one) { return one.has_value(); };
  if (std::ranges::any_of(chosen, has_feature)) return;
  std::vector<std::size_t> places;
  std::size_t required = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (kind_of_argument(arguments[i]) != ArgumentKind::kTensor) continue;
    places.push_back(i);
    if (!may_be_left_out(arguments[i])) ++required;
  }
  const std::vector<std::string> names = tensor_names(features);
  if (names.size() < required || names.size() > places.size()) return;
  for (std::size_t i = 0; i < names.size(); ++i) chosen[places[i]] = names[i];
}

bool is_place(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

[[noreturn]] void refuse_output(const std::string& what, const c10::IValue& value) {
  throw InvalidArgument(
      "{}: it gives {}, of which no output is taken; return a Tensor, a tuple, list or NamedTuple "
      "of tensors, or a Dict[str, Tensor]",
      what, value.type()->str());
}

NamedOutputs outputs_of_tuple(const c10::IValue& value) {
  NamedOutputs outputs;
  const auto& elements = value.toTupleRef().elements();
  const auto type = value.type()->expect<c10::TupleType>();
  const auto& schema = type->schema();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i].isTensor()) continue;
    outputs.emplace_back(schema ? schema->arguments()[i].name() : std::to_string(i),
                         elements[i].toTensor());
  }
  return outputs;
}

}  // namespace

bool is_tensor_argument(const c10::Argument& argument) {
  return kind_of_argument(argument) == ArgumentKind::kTensor;
}

void check_arguments(const std::vector<c10::Argument>& arguments, const TorchScriptOptions& options,
                     const std::string& what) {
  std::vector<std::string> names;
  std::size_t taken = 0;
  for (const c10::Argument& argument : arguments) {
    const ArgumentKind kind = kind_of_argument(argument);
    if (kind != ArgumentKind::kOther) ++taken;
    if (kind == ArgumentKind::kTensor) names.push_back(argument.name());
    if (kind == ArgumentKind::kOther && !may_be_left_out(argument)) {
      throw InvalidArgument(
          "{}: its argument `{}` is a {}, which no feature is; give it a default, or take a Tensor "
          "or a Dict[str, Tensor]",
          what, argument.name(), argument.type()->str());
    }
  }
  if (taken == 0) throw InvalidArgument("{}: it takes no tensors", what);
  for (const auto& [argument, feature] : options.inputs) {
    if (std::ranges::find(names, argument) != names.end()) continue;
    throw InvalidArgument("TorchScriptOptions::inputs: {} has no argument `{}` that is a Tensor{}",
                          what, argument, did_you_mean(argument, names));
  }
}

std::vector<c10::IValue> script_inputs(const std::vector<c10::Argument>& arguments,
                                       const Features& features, const TorchScriptOptions& options,
                                       const std::string& what) {
  auto chosen = features_by_name(arguments, features, options);
  choose_in_order(arguments, features, chosen);
  std::vector<c10::IValue> inputs;
  inputs.reserve(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = arguments[i];
    if (chosen[i]) {
      inputs.emplace_back(features.tensor(*chosen[i]));
    } else if (kind_of_argument(argument) == ArgumentKind::kDictionary) {
      inputs.push_back(all_tensors(features));
    } else if (may_be_left_out(argument)) {
      inputs.push_back(*argument.default_value());
    } else {
      throw InvalidArgument(
          "{}: there is no feature for its argument `{}`; the features are {}. Name one by "
          "TorchScriptOptions::inputs, {{{{\"{}\", FEATURE}}}}",
          what, argument.name(), feature_list(features), argument.name());
    }
  }
  return inputs;
}

NamedOutputs script_outputs(const c10::IValue& value, const std::string& what) {
  NamedOutputs outputs;
  if (value.isTensor()) {
    outputs.emplace_back("0", value.toTensor());
  } else if (value.isTuple()) {
    outputs = outputs_of_tuple(value);
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      outputs.emplace_back(std::to_string(outputs.size()), tensor);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      if (entry.key().isString() && entry.value().isTensor()) {
        outputs.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
      }
    }
  }
  if (outputs.empty()) refuse_output(what, value);
  return outputs;
}

at::Tensor script_output(const c10::IValue& value, const std::string& output,
                         const std::string& what) {
  if (value.isTensor() && output.empty()) return value.toTensor();
  const NamedOutputs outputs = script_outputs(value, what);
  if (output.empty() && outputs.size() == 1) return outputs[0].second;
  std::vector<std::string> names;
  names.reserve(outputs.size());
  for (const auto& [name, tensor] : outputs) {
    if (name == output) return tensor;
    names.push_back(name);
  }
  if (is_place(output) && value.isTuple()) {
    const auto& elements = value.toTupleRef().elements();
    const auto place = output.size() > 9 ? elements.size() : std::stoul(output);
    if (place < elements.size() && elements[place].isTensor()) return elements[place].toTensor();
  }
  if (output.empty()) {
    throw InvalidArgument(
        "{}: it gives {} outputs, {}: name the one with the logits by TorchScriptOptions::output",
        what, outputs.size(), fmt::join(names, ", "));
  }
  throw InvalidArgument("TorchScriptOptions::output: {} gives no `{}`, but {}", what, output,
                        fmt::join(names, ", "));
}

}  // namespace muster
