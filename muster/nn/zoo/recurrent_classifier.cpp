#include "muster/nn/zoo/recurrent_classifier.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>

#include <limits>
#include <utility>

#include "muster/nn/zoo/layers_internal.h"

namespace muster::zoo {
namespace {

/// The last state of every layer and direction, [layers * directions, batch, hidden].
torch::Tensor last_states(torch::nn::LSTM& cell, const torch::Tensor& x) {
  return std::get<0>(std::get<1>(cell->forward(x)));
}
torch::Tensor last_states(torch::nn::GRU& cell, const torch::Tensor& x) {
  return std::get<1>(cell->forward(x));
}

template <typename Cell, typename CellOptions>
class RecurrentClassifier : public Network {
 public:
  RecurrentClassifier(const char* kind, RecurrentOptions options)
      : Network(kind),
        options_(std::move(options)),
        embedding_(register_module("embedding",
                                   torch::nn::Embedding(options_.vocabulary, options_.embedding))),
        cell_(register_module(kind, Cell(CellOptions(options_.embedding, options_.hidden)
                                             .num_layers(options_.layers)
                                             .batch_first(true)
                                             .bidirectional(options_.bidirectional)))),
        dropout_(internal::register_dropout(*this, "dropout", options_.dropout)),
        logits_(register_module(
            "fc", torch::nn::Linear(directions() * options_.hidden, options_.num_classes))) {}

  torch::Tensor forward(const Features& features) override {
    return logits(features.tensor(options_.feature));
  }

  torch::Tensor logits(const torch::Tensor& ids) override {
    internal::check_ids(name(), ids, std::numeric_limits<std::int64_t>::max());
    const auto states = last_states(cell_, embedding_->forward(ids));
    auto last = states.select(0, -1);
    if (options_.bidirectional) last = at::cat({states.select(0, -2), last}, 1);
    return logits_->forward(internal::dropped(dropout_, last));
  }

 private:
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  RecurrentOptions options_;
  torch::nn::Embedding embedding_;
  Cell cell_;
  std::shared_ptr<Dropout> dropout_;
  torch::nn::Linear logits_;
};

void check(const RecurrentOptions& options) {
  internal::check_positive("RecurrentOptions::vocabulary", options.vocabulary);
  internal::check_positive("RecurrentOptions::embedding", options.embedding);
  internal::check_positive("RecurrentOptions::hidden", options.hidden);
  internal::check_positive("RecurrentOptions::layers", options.layers);
  internal::check_positive("RecurrentOptions::num_classes", options.num_classes);
}

}  // namespace

std::shared_ptr<Network> lstm_classifier(RecurrentOptions options) {
  check(options);
  return std::make_shared<RecurrentClassifier<torch::nn::LSTM, torch::nn::LSTMOptions>>(
      "lstm", std::move(options));
}

std::shared_ptr<Network> gru_classifier(RecurrentOptions options) {
  check(options);
  return std::make_shared<RecurrentClassifier<torch::nn::GRU, torch::nn::GRUOptions>>(
      "gru", std::move(options));
}

}  // namespace muster::zoo
