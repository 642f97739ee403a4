#include "muster/serving/codec/example_request.h"

#include <fmt/core.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/records/example_builder.h"
#include "muster/serving/codec/json.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

using graph::DataType;
using graph::TensorValue;
using nlohmann::json;

enum class FeatureKind { kInt64, kFloat, kBytes };

const char* word_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kInt64:
      return "int64";
    case FeatureKind::kFloat:
      return "float";
    default:
      return "bytes";
  }
}

FeatureKind feature_kind(const std::string& feature, const json& value) {
  if (special_number(value) != nullptr || value.is_number_float()) return FeatureKind::kFloat;
  if (value.is_boolean()) return FeatureKind::kInt64;
  if (value.is_number_integer()) {
    if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) {
      throw InvalidArgument("Feature: {} has uint64_t element. Only int64_t is supported.",
                            feature);
    }
    return FeatureKind::kInt64;
  }
  if (value.is_string() || base64_text(value) != nullptr) return FeatureKind::kBytes;
  throw InvalidArgument("Feature: {} has element with unexpected JSON type: {}", feature,
                        json_type_of(value));
}

void add_element(const std::string& feature, FeatureKind kind, const json& value,
                 ExampleBuilder& out) {
  if (feature_kind(feature, value) != kind) {
    throw InvalidArgument("Unexpected element type in feature: {} expecting type: {}", feature,
                          word_of(kind));
  }
  if (kind == FeatureKind::kInt64) {
    out.add_int(feature,
                value.is_boolean() ? (value.get<bool>() ? 1 : 0) : value.get<std::int64_t>());
  } else if (kind == FeatureKind::kFloat) {
    const auto special = special_double(value);
    out.add_float(feature, static_cast<float>(special ? *special : value.get<double>()));
  } else if (const std::string* text = base64_text(value)) {
    out.add_bytes(feature, base64_decode(*text));
  } else {
    out.add_bytes(feature, value.get_ref<const std::string&>());
  }
}

std::string example_of(const json& value) {
  if (!value.is_object()) {
    throw InvalidArgument("Example must be JSON object but got JSON {}", json_type_of(value));
  }
  ExampleBuilder builder;
  for (const auto& [feature, content] : value.items()) {
    const bool is_list = content.is_array();
    if (is_list && content.empty()) continue;
    const FeatureKind kind = feature_kind(feature, is_list ? content.front() : content);
    if (!is_list) {
      add_element(feature, kind, content, builder);
      continue;
    }
    for (const json& element : content) add_element(feature, kind, element, builder);
  }
  return builder.serialize();
}

const TensorValue* output(const Tensors& outputs, std::string_view name) {
  const auto found = outputs.find(name);
  return found == outputs.end() ? nullptr : &found->second;
}

float float_at(const TensorValue& tensor, std::size_t index) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

ExampleRequest example_request_from_json(std::string_view text, std::string_view method) {
  const json body = parse_request_object(text);
  ExampleRequest request{.signature_name = signature_name_of(body)};
  // First, as TensorFlow Serving reads it: what is wrong with it is said before all else.
  const auto context = body.find("context");
  const std::string common = context == body.end() ? std::string() : example_of(*context);
  const auto examples = body.find("examples");
  if (examples == body.end()) {
    throw InvalidArgument("When method is {}, key 'examples' is expected and was not found",
                          method);
  }
  if (!examples->is_array()) {
    throw InvalidArgument("Expecting 'examples' value to be an list/array");
  }
  if (examples->empty()) throw InvalidArgument("'examples' value is an empty array");
  for (const json& example : *examples) request.examples.push_back(common + example_of(example));
  return request;
}

Tensors example_inputs(const graph::SignatureDef& signature, std::vector<std::string> examples) {
  if (examples.empty()) throw InvalidArgument("Input is empty.");
  if (signature.inputs.size() != 1 || signature.inputs.begin()->second.dtype != DataType::kString) {
    throw InvalidArgument(
        "the signature does not take examples: it must have one input, a string tensor named {}",
        kExamplesInput);
  }
  const auto count = static_cast<std::int64_t>(examples.size());
  Tensors inputs;
  inputs.emplace(signature.inputs.begin()->first,
                 TensorValue::of_strings({count}, std::move(examples)));
  return inputs;
}

Classifications classifications_of(const Tensors& outputs, std::int64_t examples) {
  const TensorValue* const classes = output(outputs, kClassesOutput);
  const TensorValue* const scores = output(outputs, kScoresOutput);
  if (classes == nullptr && scores == nullptr) {
    throw InvalidArgument(
        "Expected classification signature outputs to contain at least one of \"{}\" or \"{}\"",
        kClassesOutput, kScoresOutput);
  }
  std::int64_t width = -1;
  for (const TensorValue* tensor : {classes, scores}) {
    if (tensor == nullptr) continue;
    tensor->check();
    const DataType wanted = tensor == classes ? DataType::kString : DataType::kFloat;
    if (tensor->dtype != wanted || tensor->shape.size() != 2 || tensor->shape[0] != examples ||
        (width >= 0 && tensor->shape[1] != width)) {
      throw InvalidArgument("Expected Tensor of {} [{}, n] for {}, got {} {}",
                            graph::name_of(wanted), examples,
                            tensor == classes ? kClassesOutput : kScoresOutput,
                            graph::name_of(tensor->dtype), to_string(graph::Shape(tensor->shape)));
    }
    width = tensor->shape[1];
  }
  Classifications results(static_cast<std::size_t>(examples));
  std::size_t index = 0;
  for (auto& result : results) {
    for (std::int64_t i = 0; i < width; ++i, ++index) {
      result.push_back({classes == nullptr ? std::string() : classes->strings[index],
                        scores == nullptr ? 0.0F : float_at(*scores, index)});
    }
  }
  return results;
}

std::vector<float> regressions_of(const Tensors& outputs, std::int64_t examples) {
  const TensorValue* const values = output(outputs, kRegressionOutput);
  if (values == nullptr) {
    throw InvalidArgument("Expected regression signature outputs to contain \"{}\"",
                          kRegressionOutput);
  }
  values->check();
  const auto& shape = values->shape;
  const bool fits = (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1)) &&
                    shape[0] == examples && values->dtype == DataType::kFloat;
  if (!fits) {
    throw InvalidArgument("Expected output Tensor DT_FLOAT of {} values, got {} {}", examples,
                          graph::name_of(values->dtype), to_string(graph::Shape(shape)));
  }
  return values->values<float>();
}

std::string classify_answer(const Classifications& results) {
  std::string out = "{\n    \"results\": [";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i > 0) out += ", ";
    out += '[';
    for (std::size_t j = 0; j < results[i].size(); ++j) {
      if (j > 0) out += ", ";
      out += fmt::format("[{}, {}]", json_string(results[i][j].label),
                         tensor_json(TensorValue::scalar<float>(results[i][j].score), false));
    }
    out += ']';
  }
  return out + "\n    ]\n}";
}

std::string regress_answer(const std::vector<float>& results) {
  std::string out = "{\n    \"results\": [";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i > 0) out += ", ";
    out += tensor_json(TensorValue::scalar<float>(results[i]), false);
  }
  return out + "\n    ]\n}";
}

}  // namespace muster::serving
