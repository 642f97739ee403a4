#include "muster/nn/model/seeded_module.h"

namespace muster {

void seed_modules(torch::nn::Module& root, std::uint64_t seed) {
  for (const auto& child : root.named_modules("", /*include_self=*/false)) {
    if (auto* seeded = dynamic_cast<SeededModule*>(child.value().get())) {
      seeded->seed_from(seed, child.key());
    }
  }
  if (auto* seeded = dynamic_cast<SeededModule*>(&root)) seeded->seed_from(seed, "");
}

}  // namespace muster
