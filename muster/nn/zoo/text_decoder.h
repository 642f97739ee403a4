#pragma once

#include <cstdint>
#include <vector>

#include "muster/nn/model/causal_attention.h"
#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// Keys and values of the tokens that a decoder has seen, a pair per layer, so that each further
/// token is computed alone. Empty before the first; belongs to one decoder and one batch of texts.
struct KeyValueCache {
  std::vector<KeyValues> layers{};

  /// Number of tokens seen.
  std::int64_t length() const {
    return layers.empty() || !layers[0].keys.defined() ? 0 : layers[0].keys.size(2);
  }
};

/// A model that continues text: a distribution over the next token, from those before it.
class TextDecoder : public Network {
 public:
  using Network::Network;

  /// Logits [batch, vocabulary] after the last of `ids` [batch, length], which follow the tokens of
  /// the cache and are added to it. Throws InvalidArgument for more tokens than positions().
  virtual torch::Tensor next_logits(const torch::Tensor& ids, KeyValueCache& cache) = 0;
  /// Longest text that it was made for.
  virtual std::int64_t positions() const = 0;
};

}  // namespace muster::zoo
