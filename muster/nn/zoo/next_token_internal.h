#pragma once

#include <functional>
#include <string>

#include "muster/nn/model/model.h"

namespace muster::zoo::internal {

/// The part of a decoder of text that reads a batch.
struct TokenFeatures {
  /// Names of features, int64 [batch, length].
  std::string input_ids{};
  /// 1 for tokens, 0 for padding after them; a batch without it has no padding.
  std::string attention_mask{};
};

/// Answers an Estimator for a decoder without a head: in training the mean cross-entropy of each
/// token after the first, from those before it; in evaluation `accuracy`, `average_loss` and
/// `perplexity` too; for predictions `logits` [batch, vocabulary] and `next_token` [batch, 1] after
/// the last token. `hidden_states` maps ids [batch, length] to [batch, length, hidden] and sees no
/// later tokens; `logits_of` maps hidden states to logits. Throws InvalidArgument, naming
/// `network`, for rows of fewer than two tokens to learn from.
EstimatorSpec next_token_spec(
    const std::string& network, const Features& features, const TokenFeatures& names, Mode mode,
    const std::function<torch::Tensor(const torch::Tensor& ids)>& hidden_states,
    const std::function<torch::Tensor(const torch::Tensor& hidden)>& logits_of);

/// The hidden state of the last token that is no padding, [batch, hidden].
torch::Tensor last_hidden_state(const torch::Tensor& hidden, const Features& features,
                                const TokenFeatures& names);

}  // namespace muster::zoo::internal
