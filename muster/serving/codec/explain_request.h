#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/saved_model/executor/explanation.h"
#include "muster/serving/codec/instances.h"
#include "muster/serving/codec/predict_request.h"

namespace muster::serving {

/// Instances of one request: each takes as long as hundreds of predictions.
inline constexpr std::size_t kMostExplainedInstances = 128;

/// The body of :explain: {"instances": [...], "signature_name": "...", "parameters": {...}}, whose
/// parameters may be "output", "index", "steps", "max_steps", "tolerance" and "baseline", an
/// instance. Instances are those of :predict.
class ExplainRequest {
 public:
  /// Throws InvalidArgument.
  static ExplainRequest from_json(std::string_view text);

  const std::string& signature_name() const { return instances_.signature_name(); }
  const executor::ExplainOptions& options() const { return options_; }
  /// Throw as PredictRequest::tensors() does.
  Tensors inputs(const graph::SignatureDef& signature) const;
  std::optional<Tensors> baseline(const graph::SignatureDef& signature) const;

 private:
  explicit ExplainRequest(PredictRequest instances) : instances_(std::move(instances)) {}

  PredictRequest instances_;
  std::optional<PredictRequest> baseline_{};
  executor::ExplainOptions options_{};
};

/// {"explanations": [{"attributions": [{...}]}, ...]}, an explanation an instance, in the words of
/// Vertex AI.
std::string explain_answer(const std::vector<executor::Explanation>& explanations);

}  // namespace muster::serving
