#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/base/random.h"
#include "muster/nn/zoo/text_decoder.h"

namespace muster::zoo {

struct SamplingOptions {
  /// Logits are divided by it: below 1 likely tokens become likelier. 0: greedy, always the
  /// likeliest token.
  double temperature = 1.0;
  /// Only the k likeliest tokens; 0: all.
  std::int64_t top_k = 0;
};

/// Draws a token from logits [vocabulary]: the same random numbers give the same token. Of equal
/// logits the lower token counts as likelier. Throws InvalidArgument for options that are negative,
/// and FailedPrecondition for logits that are not finite.
std::int64_t sample_token(const at::Tensor& logits, const SamplingOptions& options, Random& random);

struct GenerateOptions {
  /// Most tokens to add.
  std::int64_t tokens = 100;
  /// Ends the text, and is not part of it.
  std::optional<std::int64_t> end_token{};
  SamplingOptions sampling{};
  std::uint64_t seed = 0;
};

/// Tokens that follow those of the prompt, with a cache of keys and values. When a text is longer
/// than the decoder's positions, it goes on from the last half of them. The decoder should be in
/// evaluation mode. Throws InvalidArgument for an empty prompt, and as sample_token() does.
std::vector<std::int64_t> generate(TextDecoder& decoder, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options = {});

}  // namespace muster::zoo
