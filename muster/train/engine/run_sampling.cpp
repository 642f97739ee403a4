#include "muster/train/engine/run_sampling.h"

#include <fmt/core.h>

namespace muster {

RunSampling::RunSampling() : times_(period_ ? std::make_unique<StepTimes>() : nullptr) {}

void RunSampling::begin(const RunConfig& config, std::int64_t step) {
  if (!period_) return;
  times_->set_step(step);
  shares_ = std::make_unique<StepShares>(*times_);
  const auto more = [this] {
    NamedValues values;
    const auto shares = shares_->next();
    for (std::size_t i = 0; i < kStepParts; ++i) {
      values.emplace_back(fmt::format("step_percent/{}", name_of(static_cast<StepPart>(i))),
                          shares[i]);
    }
    return values;
  };
  sampler_.emplace(TaskSamplerOptions{.folder = sampling_folder(config),
                                      .period = *period_,
                                      .step = [this] { return times_->step(); },
                                      .more = more});
}

Path sampling_folder(const RunConfig& config) {
  const TaskEnvironment& task = config.cluster.task;
  const bool is_one_of_several = !task.cluster.empty() || !task.is_alone();
  return TaskSampler::folder_of(config.model_dir, is_one_of_several ? task.task.name() : "");
}

}  // namespace muster
