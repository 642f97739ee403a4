#include <torch/types.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/nn/model/metrics.h"
#include "muster/nn/zoo/next_token_internal.h"

namespace muster::zoo::internal {
namespace {

/// 1 for every target that is a token, 0 for padding.
torch::Tensor weights_of_targets(const Features& features, const TokenFeatures& names,
                                 const torch::Tensor& losses) {
  if (!features.contains(names.attention_mask)) return at::ones_like(losses);
  return features.tensor(names.attention_mask).slice(1, 1).flatten().to(losses.scalar_type());
}

}  // namespace

torch::Tensor last_hidden_state(const torch::Tensor& hidden, const Features& features,
                                const TokenFeatures& names) {
  if (!features.contains(names.attention_mask)) return hidden.select(1, -1);
  const auto last = features.tensor(names.attention_mask).to(torch::kLong).sum(1) - 1;
  const auto index = last.clamp_min(0).unsqueeze(1).unsqueeze(2);
  return hidden.gather(1, index.expand({-1, 1, hidden.size(2)})).squeeze(1);
}

EstimatorSpec next_token_spec(
    const std::string& network, const Features& features, const TokenFeatures& names, Mode mode,
    const std::function<torch::Tensor(const torch::Tensor& ids)>& hidden_states,
    const std::function<torch::Tensor(const torch::Tensor& hidden)>& logits_of) {
  EstimatorSpec spec{.mode = mode};
  const auto& ids = features.tensor(names.input_ids);
  if (mode == Mode::kPredict) {
    const auto logits = logits_of(last_hidden_state(hidden_states(ids), features, names));
    spec.predictions = {{"logits", logits}, {"next_token", logits.argmax(1, true)}};
    return checked(std::move(spec));
  }
  if (ids.dim() == 2 && ids.size(1) < 2) {
    throw InvalidArgument("{} learns the next token, and feature \"{}\" is {}: give two tokens",
                          network, names.input_ids, describe(FeatureValue(ids)));
  }
  // The last token has no target.
  const auto hidden = hidden_states(ids.dim() == 2 ? ids.slice(1, 0, -1) : ids);
  const auto logits = logits_of(hidden).flatten(0, 1);
  const auto targets = ids.slice(1, 1).to(torch::kLong).flatten();
  const auto losses = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None);
  const auto weights = weights_of_targets(features, names, losses);
  spec.loss = (losses * weights).sum() / weights.sum().clamp_min(1);
  if (mode == Mode::kEval) {
    spec.metrics.add("average_loss", Mean()).update(losses, weights);
    spec.metrics.add("perplexity", Perplexity()).update(losses, weights);
    spec.metrics.add("accuracy", Accuracy()).update(targets, logits.argmax(1), weights);
  }
  return checked(std::move(spec));
}

}  // namespace muster::zoo::internal
