#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serving/codec/instances.h"

namespace muster::serving {

/// The keys of TensorFlow's signatures for classification and regression.
inline constexpr std::string_view kExamplesInput = "inputs";
inline constexpr std::string_view kClassesOutput = "classes";
inline constexpr std::string_view kScoresOutput = "scores";
inline constexpr std::string_view kRegressionOutput = "outputs";

/// The body of TensorFlow Serving's REST calls :classify and :regress.
struct ExampleRequest {
  std::string signature_name{};
  /// Serialised tf.Examples, the context of the request merged into each.
  std::vector<std::string> examples{};
};

/// `method` is "classify" or "regress". Whole numbers and truths become int64 features, other
/// numbers floats, strings and {"b64": "..."} bytes. Throws InvalidArgument in the words of
/// TensorFlow Serving.
ExampleRequest example_request_from_json(std::string_view text, std::string_view method);

/// A class with its score; the label is empty when the model names none.
struct ClassScore {
  std::string label{};
  float score = 0;
  bool operator==(const ClassScore&) const = default;
};
using Classifications = std::vector<std::vector<ClassScore>>;

/// The input of such a signature. Throws InvalidArgument for no examples, and unless the signature
/// has the one string input that they go to.
Tensors example_inputs(const graph::SignatureDef& signature, std::vector<std::string> examples);

/// The outputs as classes, one list per example. Throws InvalidArgument unless they are what a
/// signature for classification gives.
Classifications classifications_of(const Tensors& outputs, std::int64_t examples);
/// The same for a signature for regression.
std::vector<float> regressions_of(const Tensors& outputs, std::int64_t examples);

/// {"results": [[["label", score], ...], ...]}.
std::string classify_answer(const Classifications& results);
/// {"results": [value, ...]}.
std::string regress_answer(const std::vector<float>& results);

}  // namespace muster::serving
