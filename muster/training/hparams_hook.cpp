#include <optional>
#include <utility>

#include "muster/summary/event_writer.h"
#include "muster/training/hparams_hook_internal.h"

namespace muster::internal {
namespace {

std::vector<HParam> hparams_of(const EstimatorOptions& options, const Session& session,
                               const TrainSpec& train) {
  std::vector<HParam> hparams;
  const auto add = [&](std::string name, std::optional<double> value) {
    if (value) hparams.push_back({std::move(name), *value});
  };
  const auto rates = session.learning_rates();
  for (const auto& [prefix, rate] : rates) {
    const bool is_alone = rates.size() == 1 || prefix.empty();
    add(is_alone ? "learning_rate" : "learning_rate/" + prefix, rate);
  }
  add("max_steps", train.max_steps);
  add("seed", static_cast<double>(session.config().seed()));
  if (options.weight_decay.factor > 0) add("weight_decay", options.weight_decay.factor);
  add("clip_value", options.clip.value);
  add("clip_norm", options.clip.norm);
  add("clip_global_norm", options.clip.global_norm);
  return hparams;
}

}  // namespace

void HParamsHook::begin(Session& session) {
  if (!session.config().is_chief()) return;
  std::vector<HParamMetric> columns{{.tag = "loss"}};
  const std::string folder = estimator_.eval_dir(eval_.name).filename().string();
  for (const std::string& name : metrics_) columns.push_back({.tag = name, .group = folder});
  session.events().add_hparams(hparams_of(estimator_.options(), session, train_), columns);
}

void HParamsHook::end(Session& session) {
  if (session.config().is_chief()) session.events().add_hparams_end(/*success=*/true);
}

}  // namespace muster::internal
