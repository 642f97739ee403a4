#include "muster/orchestration/tuning/study_hparams_internal.h"

#include <algorithm>
#include <string>
#include <vector>

#include "muster/data/summary/event_writer.h"
#include "muster/data/summary/hparams.h"

namespace muster::tuning {
namespace {

constexpr const char* kStartSuffix = ".hparams_start";
constexpr const char* kEndSuffix = ".hparams_end";

// A column has one type in all trials: text where any parameter of the name has categories.
bool is_text(const HyperparameterSpec& spec, const std::string& name) {
  return std::any_of(spec.params.begin(), spec.params.end(), [&](const ParameterSpec& parameter) {
    return parameter.name == name && parameter.type == ParameterType::kCategorical;
  });
}

// Those of a trial.
std::vector<HParam> hparams_of(const HyperparameterSpec& spec, const Values& values) {
  std::vector<HParam> hparams;
  for (const auto& [name, text] : values) {
    HParam hparam{.name = name, .value = text};
    if (!is_text(spec, name)) hparam.value = std::stod(text);
    hparams.push_back(std::move(hparam));
  }
  return hparams;
}

}  // namespace

void write_hparams_experiment(const Path& job_dir, const HyperparameterSpec& spec) {
  Values columns;
  for (const ParameterSpec& parameter : spec.params) columns[parameter.name] = "0";
  const std::vector<HParamMetric> metrics{{.tag = kObjectiveTag, .display_name = spec.metric_tag}};
  EventWriter writer(job_dir, {.filename_suffix = ".hparams"});
  writer.add(Summary{hparams_experiment(hparams_of(spec, columns), metrics, /*time=*/0)}, 0);
  writer.close();
}

bool is_hparams_file(const Path& file) {
  const std::string name = file.filename().string();
  return name.ends_with(kStartSuffix) || name.ends_with(kEndSuffix);
}

void write_hparams_start(const Path& folder, const HyperparameterSpec& spec, const Trial& trial) {
  EventWriter writer(folder, {.filename_suffix = kStartSuffix});
  writer.add(Summary{hparams_session_start(hparams_of(spec, trial.values), /*group_name=*/"",
                                           trial.start_time)},
             0);
  writer.close();
}

void write_hparams_end(const Path& folder, const Trial& trial) {
  EventWriter writer(folder, {.filename_suffix = kEndSuffix});
  if (trial.final_metric) {
    writer.add_scalar(kObjectiveTag, trial.final_metric->value, trial.final_metric->step);
  }
  writer.add(Summary{hparams_session_end(trial.state == TrialState::kSucceeded, trial.end_time)},
             0);
  writer.close();
}

}  // namespace muster::tuning
