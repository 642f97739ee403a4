#include "muster/serving/codec/explain_request.h"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/serving/codec/json.h"

namespace muster::serving {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

std::int64_t whole_parameter(const std::string& name, const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  throw InvalidArgument("parameters: {} must be a whole number, but is {}", name,
                        shown_json(value));
}

void read_parameter(const std::string& name, const json& value, executor::ExplainOptions& options) {
  if (name == "output") {
    if (!value.is_string()) {
      throw InvalidArgument("parameters: output must be the name of an output, but is {}",
                            shown_json(value));
    }
    options.output = value.get<std::string>();
  } else if (name == "index") {
    options.index = whole_parameter(name, value);
  } else if (name == "steps") {
    options.steps = whole_parameter(name, value);
  } else if (name == "max_steps") {
    options.max_steps = whole_parameter(name, value);
  } else if (name == "tolerance") {
    if (!value.is_number()) {
      throw InvalidArgument("parameters: tolerance must be a number, but is {}", shown_json(value));
    }
    options.tolerance = value.get<double>();
  } else {
    throw InvalidArgument(
        "parameters: there is no {}; there are output, index, steps, max_steps, tolerance and "
        "baseline",
        shown_json(name));
  }
}

// Numbers in lists inside each other.
ordered nested(std::span<const double> values, std::span<const std::int64_t> shape) {
  if (shape.empty()) return values.front();
  ordered list = ordered::array();
  const auto count = static_cast<std::size_t>(shape.front());
  const std::size_t each = count == 0 ? 0 : values.size() / count;
  for (std::size_t i = 0; i < count; ++i) {
    list.push_back(nested(values.subspan(i * each, each), shape.subspan(1)));
  }
  return list;
}

ordered attribution_json(const executor::Explanation& one) {
  ordered features = ordered::object();
  for (const executor::Attribution& part : one.attributions) {
    features[part.feature] = nested(part.values, part.shape);
  }
  return {{"outputName", one.output},
          {"outputIndex", ordered::array({one.index})},
          {"instanceOutputValue", one.value},
          {"baselineOutputValue", one.baseline_value},
          {"featureAttributions", std::move(features)},
          {"approximationError", one.error},
          {"steps", one.steps},
          {"isComplete", one.is_complete}};
}

}  // namespace

ExplainRequest ExplainRequest::from_json(std::string_view text) {
  const json body = parse_request_object(text);
  const auto instances = body.find("instances");
  if (instances == body.end()) throw InvalidArgument("Missing 'instances' key");
  if (instances->is_array() && instances->size() > kMostExplainedInstances) {
    throw InvalidArgument("at most {} instances are explained by one request: {}",
                          kMostExplainedInstances, instances->size());
  }
  ExplainRequest request(PredictRequest::from_json(text));
  const auto parameters = body.find("parameters");
  if (parameters == body.end()) return request;
  if (!parameters->is_object()) {
    throw InvalidArgument("parameters must be a JSON object, but is {}", shown_json(*parameters));
  }
  const executor::ExplainOptions defaults;
  for (const auto& [name, value] : parameters->items()) {
    if (name == "baseline") {
      const json wrapped{{"instances", json::array({value})}};
      request.baseline_ = PredictRequest::from_json(wrapped.dump());
    } else {
      read_parameter(name, value, request.options_);
    }
  }
  // Who asks for many steps is not to name the limit, too.
  if (!parameters->contains("max_steps")) {
    request.options_.max_steps = std::max(defaults.max_steps, request.options_.steps);
  }
  request.options_.check();
  return request;
}

Tensors ExplainRequest::inputs(const graph::SignatureDef& signature) const {
  return instances_.tensors(signature);
}

std::optional<Tensors> ExplainRequest::baseline(const graph::SignatureDef& signature) const {
  if (!baseline_) return std::nullopt;
  try {
    return baseline_->tensors(signature);
  } catch (Error& error) {
    error.add_context("the baseline");
    throw;
  }
}

std::string explain_answer(const std::vector<executor::Explanation>& explanations) {
  ordered list = ordered::array();
  for (const executor::Explanation& one : explanations) {
    list.push_back({{"attributions", ordered::array({attribution_json(one)})}});
  }
  return ordered{{"explanations", std::move(list)}}.dump(1, ' ', false,
                                                         ordered::error_handler_t::replace) +
         "\n";
}

}  // namespace muster::serving
