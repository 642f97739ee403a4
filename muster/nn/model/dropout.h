#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <iosfwd>
#include <string>

#include "muster/nn/model/seeded_module.h"

namespace muster {

class RandomScope;

/// Sets a fraction `rate` of the values to 0 in training and scales the others up. The mask is a
/// function of the thread's RandomScope and the layer's name, the same on every device. Rates have
/// 16 bits: the nearest k / 65536 is what is dropped, and what the scale makes up for.
class Dropout : public torch::nn::Module, public SeededModule {
 public:
  /// Throws InvalidArgument unless 0 <= rate < 1.
  explicit Dropout(double rate);

  /// Throws FailedPrecondition in training outside a RandomScope.
  torch::Tensor forward(const torch::Tensor& input);
  void seed_from(std::uint64_t seed, const std::string& name) override;
  void pretty_print(std::ostream& stream) const override;

 private:
  /// 1 for what is kept, on the input's device.
  torch::Tensor mask_for(const torch::Tensor& input, RandomScope& scope) const;

  // Values whose 16 random bits are below this are dropped.
  std::uint32_t dropped_of_65536_;
  std::uint64_t layer_;
};

}  // namespace muster
