#include "muster/nn/model/head.h"

#include <fmt/ranges.h>
#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/nn/model/head_internal.h"

namespace muster {
namespace {

void check_logits(const at::Tensor& logits, std::int64_t dimension) {
  if (!logits.defined()) throw InvalidArgument("the model's forward returned no logits");
  if (logits.dim() == 2 && logits.size(1) == dimension && logits.is_floating_point()) return;
  throw InvalidArgument(
      "the model's logits are {}, but the head wants floats [batch, {}]: let forward end with a "
      "layer of {} outputs",
      describe(FeatureValue(logits.dim() == 0 ? logits.unsqueeze(0) : logits)), dimension,
      dimension);
}

void check_rows(const at::Tensor& logits, const Batch& batch) {
  if (batch.labels.empty() || batch.labels.batch_size() == logits.size(0)) return;
  throw InvalidArgument("the model made logits for {} examples, but there are labels for {}",
                        logits.size(0), batch.labels.batch_size());
}

std::string suffixed(std::string_view key, const std::string& head_name) {
  return head_name.empty() ? std::string(key) : fmt::format("{}/{}", key, head_name);
}

}  // namespace

EstimatorSpec Head::spec(const Batch& batch, Mode mode, const at::Tensor& model_logits,
                         const at::Tensor& regularization_loss) const {
  check_logits(model_logits, logits_dimension());
  // Losses and metrics of half-precision logits would lose most of their digits.
  const bool reduced = model_logits.element_size() < 4;
  const auto logits = reduced ? model_logits.to(torch::kFloat) : model_logits;
  EstimatorSpec spec{.mode = mode};
  if (mode == Mode::kPredict) {
    spec.predictions = predictions(logits);
    spec.export_outputs = export_outputs();
    return spec;
  }
  check_rows(logits, batch);
  const HeadLoss head_loss = loss(logits, batch, mode);
  const bool regularized = regularization_loss.defined();
  spec.loss = regularized ? head_loss.loss + regularization_loss : head_loss.loss;
  if (mode == Mode::kEval) {
    spec.metrics = metrics(logits, batch, head_loss);
    if (regularized) {
      spec.metrics.add(suffixed("regularization_loss", name()), Mean()).update(regularization_loss);
    }
    return spec;
  }
  spec.summaries = summaries(head_loss, logits.size(0));
  auto& scalars = spec.summaries.scalars;
  // Without a name it is the loss of the step, which the loop knows of all replicas.
  if (!name().empty()) scalars.emplace_back(suffixed("loss", name()), spec.loss.detach());
  if (regularized) {
    scalars.emplace_back(suffixed("regularization_loss", name()), regularization_loss.detach());
  }
  return spec;
}

MetricSet Head::detailed_metrics(const at::Tensor& /*logits*/, const Batch& /*batch*/,
                                 const HeadLoss& /*loss*/) const {
  return {};
}

namespace internal {

SimpleHead::SimpleHead(std::int64_t logits_dimension, HeadOptions options)
    : logits_dimension_(logits_dimension), options_(std::move(options)) {
  for (const double threshold : options_.thresholds) {
    if (!(threshold > 0.0 && threshold < 1.0)) {
      throw InvalidArgument("thresholds must lie strictly between 0 and 1: {}", threshold);
    }
  }
}

std::string SimpleHead::key(std::string_view metric) const {
  return suffixed(metric, options_.name);
}

at::Tensor SimpleHead::targets_like(const Features& labels, const at::Tensor& logits) const {
  const auto found = targets(labels);
  const auto type = found.scalar_type() == torch::kLong ? torch::kLong : logits.scalar_type();
  return found.to(logits.device(), type);
}

at::Tensor SimpleHead::weights_of(const Features& features, const at::Tensor& unreduced) const {
  if (options_.weight_column.empty()) return {};
  const auto& weights = features.tensor(options_.weight_column);
  const auto rows = unreduced.size(0);
  const bool one_a_row = weights.size(0) == rows && weights.numel() == rows && weights.dim() <= 2;
  if (!one_a_row && weights.sizes() != unreduced.sizes()) {
    throw InvalidArgument(
        "weight_column \"{}\" is {}, but must be [{}] or [{}, 1]{}", options_.weight_column,
        describe(FeatureValue(weights)), rows, rows,
        unreduced.size(1) > 1 ? fmt::format(" or [{}, {}]", rows, unreduced.size(1)) : "");
  }
  const auto shaped = one_a_row ? weights.reshape({rows, 1}) : weights;
  return shaped.to(unreduced.device(), unreduced.scalar_type());
}

HeadLoss SimpleHead::loss(const at::Tensor& logits, const Batch& batch, Mode mode) const {
  const auto target = targets_like(batch.labels, logits);
  const bool sum = options_.loss_reduction == Reduction::kSum;
  if (mode == Mode::kTrain && options_.weight_column.empty()) {
    return {.loss = raw_loss(logits, target, sum ? at::Reduction::Sum : at::Reduction::Mean)};
  }
  const auto unreduced = raw_loss(logits, target, at::Reduction::None);
  HeadLoss result{.weights = weights_of(batch.features, unreduced)};
  const auto weighted = result.weights.defined() ? unreduced * result.weights : unreduced;
  result.loss = sum ? weighted.sum() : weighted.mean();
  if (mode != Mode::kTrain) result.unreduced = unreduced.detach();
  return result;
}

Summaries SimpleHead::summaries(const HeadLoss& loss, std::int64_t batch_size) const {
  Summaries summaries;
  if (options_.loss_reduction == Reduction::kSum) {
    const auto total = loss.loss.detach();
    const auto columns = losses_per_example();
    const auto& weights = loss.weights;
    const auto average = weights.defined() ? total / (weights.sum() * (columns / weights.size(1)))
                                           : total / (batch_size * columns);
    summaries.scalars.emplace_back(key("average_loss"), average);
  }
  return summaries;
}

void reject_option(bool is_set, std::string_view head, std::string_view option) {
  if (is_set) throw InvalidArgument("{} has no use for the option {}: leave it out", head, option);
}

ExportOutput predict_output(const std::vector<std::string>& keys) {
  ExportOutput output{.name = "predict", .kind = SignatureKind::kPredict};
  for (const auto& key : keys) output.outputs.emplace_back(key, key);
  return output;
}

std::vector<ExportOutput> classification_outputs(const std::vector<std::string>& classes) {
  const ExportOutput output{.name = "classification",
                            .kind = SignatureKind::kClassify,
                            .outputs = {{"scores", "probabilities"}},
                            .classes = classes};
  std::vector<ExportOutput> both{output, output};
  both.front().name = kServingDefault;
  return both;
}

void add_threshold_metrics(MetricSet& metrics, const std::vector<double>& thresholds,
                           const std::function<std::string(std::string_view)>& key,
                           const at::Tensor& labels, const at::Tensor& probabilities,
                           const at::Tensor& weights) {
  for (const double threshold : thresholds) {
    const auto named = [&](std::string_view metric) {
      return key(fmt::format("{}/positive_threshold_{:g}", metric, threshold));
    };
    const auto limit = static_cast<float>(threshold);
    metrics.add(named("accuracy"), Accuracy()).update(labels, probabilities.ge(limit), weights);
    metrics.add(named("precision"), Precision())
        .update_above(labels, probabilities, limit, weights);
    metrics.add(named("recall"), Recall()).update_above(labels, probabilities, limit, weights);
  }
}

}  // namespace internal
}  // namespace muster
