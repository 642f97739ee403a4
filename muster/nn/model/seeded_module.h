#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace muster {

/// A module whose random numbers are a function of the run's seed and its own name, and not of the
/// order in which modules were constructed.
class SeededModule {
 public:
  virtual ~SeededModule() = default;
  /// Called once with the module's full name ("dnn.hiddenlayer_0"), before training.
  virtual void seed_from(std::uint64_t seed, const std::string& name) = 0;
};

/// Tells every SeededModule under `root` its name and seed: sets initial weights. The loop calls it
/// on a model that comes out of its factory. libtorch's own layers are not touched.
void seed_modules(torch::nn::Module& root, std::uint64_t seed);

}  // namespace muster
