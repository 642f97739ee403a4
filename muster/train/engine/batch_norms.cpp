#include "muster/train/engine/batch_norms.h"

#include <algorithm>
#include <cmath>

namespace muster {

template <typename Module>
void BatchNorms::add(const std::string& name, torch::nn::Module& module) {
  auto* const norm = module.as<Module>();
  if (norm == nullptr || !norm->num_batches_tracked.defined()) return;
  // Without a momentum libtorch keeps the plain mean of all batches, which holds no first value.
  if (const auto momentum = norm->options.momentum()) {
    norms_.push_back({name, &norm->options, *momentum, norm->num_batches_tracked});
  }
}

BatchNorms::BatchNorms(const torch::nn::Module& model) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    add<torch::nn::BatchNorm1dImpl>(item.key(), *item.value());
    add<torch::nn::BatchNorm2dImpl>(item.key(), *item.value());
    add<torch::nn::BatchNorm3dImpl>(item.key(), *item.value());
  }
}

void BatchNorms::debias(std::int64_t update) const {
  for (const Norm& norm : norms_) {
    const double first = std::pow(1 - norm.momentum, static_cast<double>(update));
    norm.options->momentum(std::min(1.0, norm.momentum / (1 - first)));
  }
}

std::optional<BatchNorms::FirstValues> BatchNorms::most_biased() const {
  std::optional<FirstValues> most;
  for (const Norm& norm : norms_) {
    FirstValues values{.name = norm.name,
                       .decay = 1 - norm.momentum,
                       .updates = norm.updates.item<std::int64_t>()};
    if (values.updates == 0) continue;
    values.share = std::pow(values.decay, static_cast<double>(values.updates));
    if (!most || values.share > most->share) most = values;
  }
  return most;
}

std::int64_t updates_to_settle(double decay) {
  if (decay <= 0) return 1;
  return static_cast<std::int64_t>(std::ceil(std::log(kSettledShare) / std::log(decay)));
}

}  // namespace muster
