#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "muster/data/features/column_set.h"
#include "muster/nn/model/model.h"

namespace muster {

class InputLayer;
class LinearModel;
class Mlp;

struct WideAndDeepOptions {
  /// Made with ColumnUse::kLinear; null leaves the linear part out.
  std::shared_ptr<const ColumnSet> linear_columns{};
  Combiner linear_sparse_combiner = Combiner::kSum;
  /// Made with ColumnUse::kInputLayer; null leaves the network out.
  std::shared_ptr<const ColumnSet> dnn_columns{};
  std::vector<std::int64_t> hidden_units{};
  /// relu when empty. It must not draw random numbers.
  std::function<torch::Tensor(const torch::Tensor&)> activation{};
  double dropout = 0.0;
  bool batch_norm = false;
  std::int64_t outputs = 1;
};

/// A linear model, a network, or the sum of both over feature columns: what the canned estimators
/// train. Its variables have their names: `linear/linear_model/<column>/weights`,
/// `linear/linear_model/bias_weights`,
/// `dnn/input_from_feature_columns/input_layer/<column>/embedding_weights`,
/// `dnn/hiddenlayer_<i>/{kernel,bias}`, `dnn/logits/{kernel,bias}`.
class WideAndDeep : public Model {
 public:
  /// Throws InvalidArgument without either part, or for a network without hidden units, with units
  /// that are not positive, or a dropout outside [0, 1).
  static void check(const WideAndDeepOptions& options);
  /// Throws as check() does.
  explicit WideAndDeep(WideAndDeepOptions options);
  ~WideAndDeep() override;

  torch::Tensor forward(const Features& features) override;
  /// With the summaries `<scope>/fraction_of_zero_values` and `<scope>/activation` of every layer,
  /// `linear/bias` and `linear/fraction_of_zero_weights`. They are made when they are due, with the
  /// variables as the update left them and without dropout.
  EstimatorSpec call(const Batch& batch, Mode mode, const Head* head) override;
  bool draws_from_libtorch() const override { return false; }

 private:
  struct Outcome;
  Outcome run(const Features& features);
  void add_summaries(const Outcome& outcome, Summaries& summaries) const;

  WideAndDeepOptions options_;
  std::shared_ptr<LinearModel> linear_;
  std::shared_ptr<InputLayer> input_;
  std::shared_ptr<Mlp> dnn_;
};

}  // namespace muster
