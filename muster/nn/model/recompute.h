#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/torch_fwd.h"

namespace muster {

/// A module whose forward can be computed a second time, by its backward: of a forward only the
/// inputs are kept until then, and not what each of its layers keeps. Values, gradients, random
/// numbers and buffers are the same to the bit. It is off until recompute_modules() turns it on.
///
///   struct Block : torch::nn::Module, muster::Recomputable {
///     torch::Tensor forward(const torch::Tensor& x) {
///       return recomputed(*this, {x}, [this](auto inputs) { return layers(inputs[0]); });
///     }
///   };
class Recomputable {
 public:
  virtual ~Recomputable() = default;

  void set_recomputes(bool recomputes) { recomputes_ = recomputes; }
  bool recomputes() const { return recomputes_; }

 protected:
  /// A function of the inputs, parameters, buffers and the draws of a RandomScope alone.
  using Forward = std::function<at::Tensor(std::span<const at::Tensor> inputs)>;

  /// forward(inputs). `self` is this module, which outlives the backward. Where it recomputes, in
  /// training and on the CPU, `forward` is called again in the backward; within such a call other
  /// modules do not recompute. Throws FailedPrecondition where `forward` draws from libtorch's
  /// generator. Undefined inputs are given as they are.
  at::Tensor recomputed(torch::nn::Module& self, const std::vector<at::Tensor>& inputs,
                        Forward forward) const;

 private:
  bool recomputes_ = false;
};

/// Turns recomputing on for the modules of a model whose name, such as "transformer.h.0", is the
/// regular expression as a whole, and that are Recomputable. Returns how many. Throws
/// InvalidArgument where there are none, naming some that there are.
std::size_t recompute_modules(torch::nn::Module& model, const std::string& pattern);

}  // namespace muster
