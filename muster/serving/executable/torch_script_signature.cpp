#include "muster/serving/executable/torch_script_signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json_depth.h"
#include "muster/base/suggestion.h"
#include "muster/data/checkpoint/data_type.h"
#include "muster/nn/torch_script/torch_script_inputs.h"
#include "muster/serving/codec/model_files.h"

namespace muster::serving {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostSignatureBytes = 1 << 20;
constexpr std::size_t kMostDimensions = 32;

// "float32", or "DT_FLOAT".
std::optional<graph::DataType> tensor_type_named(const std::string& name) {
  for (int number = 1; data_type_from(number); ++number) {
    const auto type = static_cast<graph::DataType>(number);
    if (is_stored(type) && (numpy_name(type) == name || name_of(type) == name)) return type;
  }
  return std::nullopt;
}

graph::Shape shape_in(const std::string& input, const json& given) {
  if (given.is_null()) return graph::Shape::any();
  std::vector<std::int64_t> sizes;
  for (const json& size : given) {
    if (!size.is_number_integer() || size.get<std::int64_t>() < -1) {
      throw InvalidArgument("the shape of the input {} must be whole numbers, -1 for any size: {}",
                            input, given.dump());
    }
    sizes.push_back(size.get<std::int64_t>());
  }
  if (!given.is_array() || sizes.size() > kMostDimensions) {
    throw InvalidArgument("the shape of the input {} must be a list of at most {} sizes: {}", input,
                          kMostDimensions, given.dump());
  }
  return sizes;
}

graph::TensorInfo input_in(const std::string& name, const json& given) {
  const std::string type_name = given.value("dtype", "float32");
  const auto type = tensor_type_named(type_name);
  if (!type || *type == graph::DataType::kString) {
    throw InvalidArgument("the input {} has the dtype \"{}\", which tensors of libtorch have not",
                          name, type_name);
  }
  return {.name = name, .dtype = *type, .shape = shape_in(name, given.value("shape", json()))};
}

// Throws json's exceptions, and InvalidArgument without the file's name.
TorchScriptSignature parse_signature(const std::string& text) {
  if (is_json_deeper_than(kMostJsonFileDepth, text)) {
    throw DataLoss("it is nested more than {} deep", kMostJsonFileDepth);
  }
  const json body = json::parse(text);
  TorchScriptSignature signature{.is_declared = true};
  for (const auto& [name, input] : body.at("inputs").items()) {
    signature.definition.inputs.emplace(name, input_in(name, input));
  }
  signature.output_names = body.value("outputs", std::vector<std::string>());
  for (const auto& [key, value] : body.items()) {
    if (key != "inputs" && key != "outputs") {
      throw InvalidArgument("it has the key \"{}\"; its keys are \"inputs\" and \"outputs\"", key);
    }
  }
  return signature;
}

TorchScriptSignature read_signature(const Path& path) {
  const std::string text = read_file(path, kMostSignatureBytes);
  try {
    return parse_signature(text);
  } catch (const json::exception& error) {
    throw DataLoss(
        "{} is no signature such as {{\"inputs\": {{\"x\": {{\"dtype\": \"float32\", \"shape\": "
        "[-1, 4]}}}}, \"outputs\": [\"logits\"]}}: {}",
        path.string(), error.what());
  } catch (Error& error) {
    error.add_context(path.string());
    throw;
  }
}

// Arguments that a call may leave out need a signature to be inputs.
TorchScriptSignature assumed_signature(const TorchScriptProgram& program) {
  TorchScriptSignature signature;
  for (const c10::Argument& argument : program.arguments()) {
    if (!is_tensor_argument(argument) || argument.default_value()) continue;
    signature.definition.inputs.emplace(argument.name(),
                                        graph::TensorInfo{.name = argument.name(),
                                                          .dtype = graph::DataType::kFloat,
                                                          .shape = graph::Shape::any()});
  }
  return signature;
}

void check_signature(const TorchScriptSignature& signature, const TorchScriptProgram& program,
                     const std::string& what) {
  std::vector<std::string> names;
  for (const c10::Argument& argument : program.arguments()) {
    const bool is_tensor = is_tensor_argument(argument);
    if (is_tensor) names.push_back(argument.name());
    const bool is_given = signature.definition.inputs.contains(argument.name());
    if ((is_given && is_tensor) || argument.default_value()) continue;
    if (is_tensor) {
      throw InvalidArgument("{}: the signature has no input for its argument `{}`", what,
                            argument.name());
    }
    throw InvalidArgument(
        "{}: its argument `{}` is a {}, which no request has; give it a default value, or save a "
        "module whose forward takes tensors",
        what, argument.name(), argument.type()->str());
  }
  for (const auto& [name, input] : signature.definition.inputs) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw InvalidArgument("{}: the signature's input {} is no tensor argument of forward{}", what,
                          name, did_you_mean(name, names));
  }
  if (signature.definition.inputs.empty()) throw InvalidArgument("{}: it takes no tensors", what);
}

}  // namespace

TorchScriptSignature torch_script_signature(const Path& file, const TorchScriptProgram& program) {
  const Path beside = torch_script_signature_path(file);
  TorchScriptSignature signature =
      file_exists(beside) ? read_signature(beside) : assumed_signature(program);
  check_signature(signature, program, fmt::format("{}: {}", file.string(), program.signature()));
  signature.definition.method_name = graph::kPredictMethod;
  return signature;
}

}  // namespace muster::serving
