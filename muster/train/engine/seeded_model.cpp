#include "muster/train/engine/seeded_model.h"

#include <ATen/Context.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/nn/model/seeded_module.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/train/engine/seed_streams.h"

namespace muster {
namespace {

std::uint64_t generator_seed(std::uint64_t seed, std::int64_t step, std::int64_t replica) {
  return derive_key(derive_key(seed, seed_stream::kGenerator), static_cast<std::uint64_t>(step),
                    static_cast<std::uint64_t>(replica));
}

// libtorch has one generator for the CPU: whatever draws from it takes turns, in all of the
// process, since models are also made while another one trains.
std::mutex& generator_turn() {
  static std::mutex turn;
  return turn;
}

}  // namespace

std::shared_ptr<Model> make_seeded_model(const ModelFactory& factory, std::uint64_t seed) {
  if (!factory) throw InvalidArgument("Estimator: the model factory is not set");
  // libtorch's own layers draw their first weights from its generator while they are constructed.
  const std::lock_guard turn(generator_turn());
  at::manual_seed(derive_key(seed, seed_stream::kWeights));
  std::shared_ptr<Model> model = factory();
  if (model == nullptr) throw InvalidArgument("Estimator: the model factory returned no model");
  seed_modules(*model, derive_key(seed, seed_stream::kWeights));
  return model;
}

std::unique_lock<std::mutex> seed_generators(std::uint64_t seed, std::int64_t step,
                                             std::int64_t replica) {
  std::unique_lock turn(generator_turn());
  at::manual_seed(generator_seed(seed, step, replica));
  return turn;
}

AdoptOptions adopt_options(const std::vector<ModuleVariable>& variables,
                           const OptimizersByPrefix* optimizers) {
  std::map<std::string, std::string, std::less<>> names;
  std::set<std::string, std::less<>> sparse;
  std::set<std::string, std::less<>> whole;
  for (const auto& variable : variables) {
    names.emplace(variable.key, variable.name);
    if (variable.sparse) sparse.insert(variable.name);
    if (optimizers != nullptr && is_kept_whole(*optimizers, variable.name)) {
      whole.insert(variable.name);
    }
  }
  return {.name = [names](std::string_view key) { return names.find(key)->second; },
          .sparse = [sparse](std::string_view name) { return sparse.contains(name); },
          .whole = [whole](std::string_view name) { return whole.contains(name); }};
}

}  // namespace muster
