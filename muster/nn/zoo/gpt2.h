#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// The defaults are GPT-2 with 124 million parameters.
struct Gpt2Options {
  std::int64_t vocabulary = 50257;
  /// Longest input.
  std::int64_t positions = 1024;
  std::int64_t hidden = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  double dropout = 0.1;
  /// 0: the model predicts the next token. Else it classifies by the last one.
  std::int64_t num_classes = 0;
  /// Names of features, int64 [batch, length]. A batch without the second has no padding.
  std::string input_ids = "input_ids";
  /// 1 for tokens, 0 for padding after them.
  std::string attention_mask = "attention_mask";
};

/// A decoder of text. The names are those of transformers' GPT2LMHeadModel, whose last layer is the
/// table of tokens (transformer.h.0.attn.c_attn.weight), or with classes those of
/// GPT2ForSequenceClassification (score.weight).
///
/// The logits are [batch, length, vocabulary], or [batch, num_classes]. Without classes an
/// estimator has the model without a head: the loss is the mean cross-entropy of each token after
/// the first, from those before it; the metrics are `accuracy`, `average_loss` and `perplexity`,
/// the predictions `logits` [batch, vocabulary] and `next_token` [batch, 1] after the last token.
/// Throws InvalidArgument for options that are not positive.
std::shared_ptr<Network> gpt2(Gpt2Options options = {});

}  // namespace muster::zoo
