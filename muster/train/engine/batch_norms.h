#pragma once

#include <torch/nn/modules/batchnorm.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

/// The batch norms of a model, and what their moving averages still hold of the values they began
/// with. A view: the model outlives it.
class BatchNorms {
 public:
  explicit BatchNorms(const torch::nn::Module& model);

  /// Makes the update of this number, 1 for the first, leave averages over the batches alone: in a
  /// moving average with decay d the first value would keep a share of d^n. The same as dividing by
  /// 1 - d^n afterwards, except for what is stored, which needs no correction.
  void debias(std::int64_t update) const;

  struct FirstValues {
    /// Name of the module, with dots.
    std::string name{};
    double decay = 0;
    std::int64_t updates = 0;
    /// decay^updates
    double share = 0;
  };
  /// The batch norm whose averages hold most of their first values; nothing where none has been
  /// updated.
  std::optional<FirstValues> most_biased() const;

 private:
  struct Norm {
    std::string name;
    torch::nn::BatchNormOptions* options;
    /// libtorch's word for 1 - decay.
    double momentum;
    at::Tensor updates;
  };
  template <typename Module>
  void add(const std::string& name, torch::nn::Module& module);

  std::vector<Norm> norms_;
};

/// The updates after which averages hold less than kSettledShare of their first values.
inline constexpr double kSettledShare = 0.01;
std::int64_t updates_to_settle(double decay);

}  // namespace muster
