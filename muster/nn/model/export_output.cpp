#include "muster/nn/model/export_output.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "muster/base/error.h"

namespace muster {
namespace {

std::vector<std::string_view> names_of(const std::vector<ExportOutput>& outputs) {
  std::vector<std::string_view> names;
  for (const auto& output : outputs) names.emplace_back(output.name);
  return names;
}

void check_outputs(const std::vector<ExportOutput>& outputs,
                   const std::vector<std::string>& predictions) {
  std::set<std::string_view> names;
  for (const auto& output : outputs) {
    if (!names.insert(output.name).second) {
      throw InvalidArgument("two export outputs have the name \"{}\"", output.name);
    }
    for (const auto& [key, prediction] : output.outputs) {
      if (std::ranges::find(predictions, prediction) != predictions.end()) continue;
      throw InvalidArgument(
          "export output \"{}\" gives prediction \"{}\" as \"{}\", but the predictions are: {}",
          output.name, prediction, key, fmt::join(predictions, ", "));
    }
  }
}

ExportOutput predict_all(const std::vector<std::string>& predictions) {
  ExportOutput output{.name = kServingDefault, .kind = SignatureKind::kPredict};
  for (const auto& key : predictions) output.outputs.emplace_back(key, key);
  // TensorFlow calls a single unnamed tensor `output`; ours have names, which stay.
  return output;
}

}  // namespace

std::string_view method_name_of(SignatureKind kind) {
  switch (kind) {
    case SignatureKind::kClassify:
      return "tensorflow/serving/classify";
    case SignatureKind::kRegress:
      return "tensorflow/serving/regress";
    case SignatureKind::kPredict:
      return "tensorflow/serving/predict";
  }
  return "";
}

std::vector<ExportOutput> with_serving_default(std::vector<ExportOutput> outputs,
                                               const std::vector<std::string>& predictions) {
  check_outputs(outputs, predictions);
  if (outputs.empty()) return {predict_all(predictions)};
  const auto names = names_of(outputs);
  if (std::ranges::find(names, kServingDefault) != names.end()) return outputs;
  if (outputs.size() > 1) {
    throw InvalidArgument(
        "one of several export outputs must be named \"{}\", for clients that name none; there "
        "are: {}",
        kServingDefault, fmt::join(names, ", "));
  }
  outputs.push_back(outputs.front());
  outputs.back().name = kServingDefault;
  return outputs;
}

}  // namespace muster
