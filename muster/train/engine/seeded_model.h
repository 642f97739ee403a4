#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "muster/nn/model/model.h"
#include "muster/nn/model/model_factory.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/nn/optim/variables.h"

namespace muster {

/// A model with values of its own, as the factory makes it, seeded, on the CPU. Throws
/// InvalidArgument where there is no factory, or it returns no model.
std::shared_ptr<Model> make_seeded_model(const ModelFactory& factory, std::uint64_t seed);

/// Seeds libtorch's generators for a replica's forward. While the lock is held, no other thread of
/// the process draws from them for a run, nor makes a model.
[[nodiscard]] std::unique_lock<std::mutex> seed_generators(std::uint64_t seed, std::int64_t step,
                                                           std::int64_t replica);

/// The names and kinds that Variables take over from a module's. With the optimizers, those
/// variables are whole that they update as a whole.
AdoptOptions adopt_options(const std::vector<ModuleVariable>& variables,
                           const OptimizersByPrefix* optimizers = nullptr);

}  // namespace muster
