#include "muster/orchestration/tuning/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kListedNames = 12;
// Seconds since 1970, up to the year 2255; they become whole nanoseconds of 64 bits.
constexpr double kLastTime = 9e9;

constexpr std::pair<const char*, TrialState> kStates[] = {{"RUNNING", TrialState::kRunning},
                                                          {"PAUSED", TrialState::kPaused},
                                                          {"SUCCEEDED", TrialState::kSucceeded},
                                                          {"FAILED", TrialState::kFailed}};

// JSON has no infinity and no NaN.
ordered_json number_json(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

double number_from(const ordered_json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

ordered_json json_of(const Measurement& measurement) {
  return {{"trainingStep", std::to_string(measurement.step)},
          {"objectiveValue", number_json(measurement.value)}};
}

double time_from(const ordered_json& json, const char* field) {
  const double time = json.value(field, 0.0);
  if (std::isfinite(time) && time >= 0 && time <= kLastTime) return time;
  throw DataLoss("{} is no time in seconds since 1970: {}", field, time);
}

Measurement measurement_from(const ordered_json& json) {
  return {std::stoll(json.at("trainingStep").get<std::string>()),
          number_from(json.at("objectiveValue"))};
}

ordered_json json_of(const Rung& rung) {
  ordered_json json{{"run", std::to_string(rung.run)},
                    {"maxSteps", std::to_string(rung.max_steps)}};
  if (rung.metric) json["metric"] = json_of(*rung.metric);
  return json;
}

Rung rung_from(const ordered_json& json) {
  Rung rung{.run = std::stoll(json.at("run").get<std::string>()),
            .max_steps = std::stoll(json.at("maxSteps").get<std::string>())};
  if (const auto found = json.find("metric"); found != json.end()) {
    rung.metric = measurement_from(*found);
  }
  return rung;
}

}  // namespace

std::string_view name_of(TrialState state) {
  for (const auto& [name, value] : kStates) {
    if (value == state) return name;
  }
  throw Internal("a state of a trial without a name: {}", static_cast<int>(state));
}

std::string to_json(const Trial& trial) {
  ordered_json json{{"trialId", std::to_string(trial.id)},
                    {"state", std::string(name_of(trial.state))},
                    {"hyperparameters", trial.values}};
  if (trial.final_metric) json["finalMetric"] = json_of(*trial.final_metric);
  if (trial.parent) json["parentTrialId"] = std::to_string(*trial.parent);
  if (trial.max_steps > 0) json["maxSteps"] = std::to_string(trial.max_steps);
  for (const Rung& rung : trial.rungs) json["rungs"].push_back(json_of(rung));
  for (const Measurement& measurement : trial.measurements) {
    json["allMetrics"].push_back(json_of(measurement));
  }
  for (const auto& [name, value] : trial.other_metrics) {
    json["otherMetrics"][name] = number_json(value);
  }
  if (trial.is_stopped_early) json["isTrialStoppedEarly"] = true;
  json["startTime"] = trial.start_time;
  if (trial.end_time > 0) json["endTime"] = trial.end_time;
  if (!trial.error_message.empty()) json["errorMessage"] = trial.error_message;
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Trial trial_from_json(std::string_view text) {
  try {
    const auto json = ordered_json::parse(text);
    Trial trial;
    trial.id = std::stoll(json.at("trialId").get<std::string>());
    const auto state = json.at("state").get<std::string>();
    const auto* const known = std::find_if(std::begin(kStates), std::end(kStates),
                                           [&](const auto& entry) { return state == entry.first; });
    if (known == std::end(kStates)) throw DataLoss("no state of a trial: {}", state);
    trial.state = known->second;
    trial.values = json.at("hyperparameters").get<Values>();
    if (const auto found = json.find("finalMetric"); found != json.end()) {
      trial.final_metric = measurement_from(*found);
    }
    if (const auto found = json.find("parentTrialId"); found != json.end()) {
      trial.parent = std::stoll(found->get<std::string>());
    }
    trial.max_steps = std::stoll(json.value("maxSteps", "0"));
    for (const auto& entry : json.value("rungs", ordered_json::array())) {
      trial.rungs.push_back(rung_from(entry));
    }
    for (const auto& entry : json.value("allMetrics", ordered_json::array())) {
      trial.measurements.push_back(measurement_from(entry));
    }
    if (const auto found = json.find("otherMetrics"); found != json.end()) {
      for (const auto& [name, value] : found->items()) {
        trial.other_metrics[name] = number_from(value);
      }
    }
    trial.is_stopped_early = json.value("isTrialStoppedEarly", false);
    trial.start_time = time_from(json, "startTime");
    trial.end_time = time_from(json, "endTime");
    trial.error_message = json.value("errorMessage", "");
    return trial;
  } catch (const std::exception& error) {
    // nlohmann's and std::stoll's too.
    throw DataLoss("no trial: {}", error.what());
  }
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  const std::size_t shown = std::min(names.size(), kListedNames);
  std::string text = fmt::format(
      "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace muster::tuning
