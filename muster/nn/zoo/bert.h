#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/nn/zoo/network.h"

namespace muster::zoo {

/// The defaults are BERT base, uncased.
struct BertOptions {
  std::int64_t vocabulary = 30522;
  std::int64_t hidden = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  /// Hidden units of the dense layers in each block.
  std::int64_t mlp_units = 3072;
  /// Longest input.
  std::int64_t positions = 512;
  std::int64_t token_types = 2;
  double dropout = 0.1;
  /// 0: there is no classifier, and the output is the pooled [batch, hidden].
  std::int64_t num_classes = 2;
  /// Names of features, int64 [batch, length]. A batch without the last two has no padding, and one
  /// segment.
  std::string input_ids = "input_ids";
  /// 1 for tokens, 0 for padding.
  std::string attention_mask = "attention_mask";
  /// Segment that the token is in.
  std::string token_type_ids = "token_type_ids";
};

/// An encoder of text.
class Bert : public Network {
 public:
  using Network::Network;
  /// Output of the last block, [batch, length, hidden]. Mask and types may be undefined.
  virtual torch::Tensor hidden_states(const torch::Tensor& ids, const torch::Tensor& mask,
                                      const torch::Tensor& types) = 0;
};

/// The names are those of transformers' BertForSequenceClassification:
/// bert.encoder.layer.0.attention.self.query.weight, classifier.bias. The logits are
/// [batch, num_classes]. Throws InvalidArgument for options that are not positive.
std::shared_ptr<Bert> bert(BertOptions options = {});

}  // namespace muster::zoo
