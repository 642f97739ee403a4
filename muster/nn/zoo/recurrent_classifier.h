#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/nn/zoo/network.h"

namespace muster::zoo {

struct RecurrentOptions {
  std::int64_t vocabulary = 10000;
  /// Size of a token's vector.
  std::int64_t embedding = 128;
  std::int64_t hidden = 128;
  std::int64_t layers = 1;
  /// Whether a second network reads backwards; both last states go into the last layer.
  bool bidirectional = false;
  /// Rate of dropout before the last layer.
  double dropout = 0;
  std::int64_t num_classes = 2;
  /// Name of the feature, int64 [batch, length]. Shorter rows are padded at their beginning.
  std::string feature = "tokens";
};

/// An embedding, recurrent layers and a dense layer of their last state, under torch.nn's names:
/// embedding.weight, lstm.weight_ih_l0 or gru.weight_ih_l0, fc.bias. The logits are
/// [batch, num_classes]. Both throw InvalidArgument for options that are not positive.
std::shared_ptr<Network> lstm_classifier(RecurrentOptions options = {});
std::shared_ptr<Network> gru_classifier(RecurrentOptions options = {});

}  // namespace muster::zoo
