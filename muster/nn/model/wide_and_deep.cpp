#include "muster/nn/model/wide_and_deep.h"

#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_cache.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/input_layer.h"
#include "muster/nn/model/linear_model.h"
#include "muster/nn/model/mlp.h"

namespace muster {
namespace {

void add_layer(const std::string& scope, const torch::Tensor& values, Summaries& summaries) {
  const auto zeros = values.numel() - values.count_nonzero().item<std::int64_t>();
  const double fraction = static_cast<double>(zeros) / static_cast<double>(values.numel());
  summaries.scalars.emplace_back(scope + "/fraction_of_zero_values", torch::full({}, fraction));
  summaries.histograms.emplace_back(scope + "/activation", values);
}

}  // namespace

/// One forward, with what its summaries need.
struct WideAndDeep::Outcome {
  torch::Tensor linear_logits{};
  torch::Tensor dnn_input{};
  torch::Tensor logits{};
};

void WideAndDeep::check(const WideAndDeepOptions& options) {
  if (options.linear_columns == nullptr && options.dnn_columns == nullptr) {
    throw InvalidArgument("either linear_columns or dnn_columns must be given, and both are empty");
  }
  if (options.dnn_columns == nullptr) return;
  if (options.hidden_units.empty()) {
    throw InvalidArgument(
        "there are columns for a network but no hidden_units: say how many units each hidden layer "
        "has, such as {{100, 50}}");
  }
  for (const std::int64_t units : options.hidden_units) {
    if (units <= 0) throw InvalidArgument("hidden_units must be positive: {}", units);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw InvalidArgument("dropout must be in [0, 1): {}", options.dropout);
  }
}

WideAndDeep::WideAndDeep(WideAndDeepOptions options) : options_(std::move(options)) {
  check(options_);
  if (options_.linear_columns != nullptr) {
    auto scope = register_module("linear", std::make_shared<torch::nn::Module>());
    linear_ = scope->register_module("linear_model",
                                     std::make_shared<LinearModel>(LinearModelOptions{
                                         .columns = options_.linear_columns,
                                         .units = options_.outputs,
                                         .sparse_combiner = options_.linear_sparse_combiner}));
  }
  if (options_.dnn_columns == nullptr) return;
  input_ = std::make_shared<InputLayer>(options_.dnn_columns);
  dnn_ =
      register_module("dnn", std::make_shared<Mlp>(MlpOptions{.inputs = input_->width(),
                                                              .hidden_units = options_.hidden_units,
                                                              .outputs = options_.outputs,
                                                              .activation = options_.activation,
                                                              .dropout = options_.dropout,
                                                              .batch_norm = options_.batch_norm}));
  auto scope =
      dnn_->register_module("input_from_feature_columns", std::make_shared<torch::nn::Module>());
  scope->register_module("input_layer", input_);
}

WideAndDeep::~WideAndDeep() = default;

WideAndDeep::Outcome WideAndDeep::run(const Features& features) {
  ColumnCache cache(features);
  Outcome outcome;
  if (linear_ != nullptr) {
    outcome.linear_logits = linear_->forward(linear_->columns().pieces(cache));
    outcome.logits = outcome.linear_logits;
  }
  if (dnn_ != nullptr) {
    outcome.dnn_input = input_->forward(input_->columns().pieces(cache));
    const auto dnn_logits = dnn_->forward(outcome.dnn_input);
    outcome.logits = linear_ == nullptr ? dnn_logits : dnn_logits + outcome.linear_logits;
  }
  return outcome;
}

torch::Tensor WideAndDeep::forward(const Features& features) { return run(features).logits; }

EstimatorSpec WideAndDeep::call(const Batch& batch, Mode mode, const Head* head) {
  if (head == nullptr) return Model::call(batch, mode, head);
  Outcome outcome = run(batch.features);
  EstimatorSpec spec = checked(head->spec(batch, mode, outcome.logits));
  if (mode == Mode::kTrain) {
    spec.summaries.deferred.emplace_back(
        [outcome = std::move(outcome), self = shared_from_this(), this](Summaries& summaries) {
          add_summaries(outcome, summaries);
        });
  }
  return spec;
}

void WideAndDeep::add_summaries(const Outcome& outcome, Summaries& summaries) const {
  if (linear_ != nullptr) {
    add_layer("linear", outcome.linear_logits.detach(), summaries);
    auto& of_bias = options_.outputs == 1 ? summaries.scalars : summaries.histograms;
    of_bias.emplace_back("linear/bias", linear_->bias().detach());
    summaries.scalars.emplace_back("linear/fraction_of_zero_weights",
                                   linear_->fraction_of_zero_weights());
  }
  if (dnn_ == nullptr) return;
  auto x = outcome.dnn_input.detach();
  for (const auto& child : dnn_->named_children()) {
    const auto dense = std::dynamic_pointer_cast<Dense>(child.value());
    if (dense == nullptr) continue;
    x = dense->forward(x);
    if (child.key() != "logits") x = options_.activation ? options_.activation(x) : at::relu(x);
    add_layer("dnn/" + child.key(), x, summaries);
  }
}

}  // namespace muster
