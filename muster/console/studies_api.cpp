#include "muster/console/studies_api.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/contour.h"
#include "muster/orchestration/tuning/goals.h"
#include "muster/orchestration/tuning/importance.h"
#include "muster/orchestration/tuning/ranking.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_control.h"

namespace muster::console {
namespace {

using nlohmann::json;

std::string dumped_study(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json spec_json(const tuning::HyperparameterSpec& spec) {
  json parameters = json::array();
  std::set<std::string> seen;
  for (const tuning::ParameterSpec& one : spec.params) {
    // A child may stand below several values of its parent.
    if (!seen.insert(one.name).second) continue;
    const bool is_text = one.type == tuning::ParameterType::kCategorical;
    parameters.push_back({{"name", one.name},
                          {"isText", is_text},
                          {"choices", one.categorical_values},
                          {"isLog", one.scale == tuning::Scale::kLog}});
  }
  return {{"metric", spec.metric_tag},
          {"isMaximized", spec.goal == tuning::Goal::kMaximize},
          {"algorithm", spec.algorithm},
          {"maxTrials", spec.max_trials},
          {"isHalved", spec.halving.has_value()},
          {"parameters", std::move(parameters)}};
}

json summary_of(const tuning::Study& study) {
  json out = spec_json(study.spec);
  std::map<std::string, int> states;
  int stopped = 0;
  for (const tuning::Trial& trial : study.trials) {
    ++states[std::string(name_of(trial.state))];
    stopped += trial.is_stopped_early ? 1 : 0;
  }
  out["states"] = states;
  out["stoppedEarly"] = stopped;
  if (const tuning::Trial* best = study.best()) {
    out["best"] = {{"trial", best->id},
                   {"value", best->final_metric->value},
                   {"step", best->final_metric->step}};
  }
  return out;
}

// To the parameters as spec_json() lists them.
void add_importances(const tuning::Study& study, json& parameters) {
  const std::vector<double> shares = tuning::importances(study);
  for (json& parameter : parameters) {
    const auto one = std::ranges::find(study.spec.params, parameter["name"].get<std::string>(),
                                       &tuning::ParameterSpec::name);
    const auto place = static_cast<std::size_t>(one - study.spec.params.begin());
    if (place < shares.size()) parameter["importance"] = shares[place];
  }
}

/// The goals of a study that has several, and which trials no other is better than.
class Front {
 public:
  Front(const tuning::Study& study, json& out) : spec_(study.spec) {
    if (!tuning::has_several_goals(spec_)) return;
    for (const tuning::Trial* trial : tuning::pareto_front(spec_, study.trials)) {
      ids_.insert(trial->id);
    }
    out["goals"] = {
        {{"metric", spec_.metric_tag}, {"isMaximized", spec_.goal == tuning::Goal::kMaximize}}};
    for (const tuning::MetricGoal& goal : spec_.other_goals) {
      out["goals"].push_back(
          {{"metric", goal.tag}, {"isMaximized", goal.goal == tuning::Goal::kMaximize}});
    }
  }

  void add_to(const tuning::Trial& trial, json& out) const {
    if (!tuning::has_several_goals(spec_)) return;
    out["isOnFront"] = ids_.contains(trial.id);
    out["goals"] = json::array({trial.final_metric ? json(trial.final_metric->value) : json()});
    for (const tuning::MetricGoal& goal : spec_.other_goals) {
      const auto value = tuning::metric_value(spec_, trial, goal.tag);
      out["goals"].push_back(value ? json(*value) : json());
    }
  }

 private:
  const tuning::HyperparameterSpec& spec_;
  std::set<std::int64_t> ids_;
};

}  // namespace

std::vector<StudiesApi::Place> StudiesApi::studies() const {
  std::vector<Place> found = places_();
  std::erase_if(found, [](const Place& place) { return !tuning::has_study(place.folder); });
  return found;
}

serving::HttpResponse StudiesApi::list() const {
  json list = json::array();
  for (const Place& place : studies()) {
    json one;
    try {
      one = summary_of(tuning::read_study(place.folder));
    } catch (const Error& error) {
      one["problem"] = error.what();
    }
    one["id"] = place.id;
    list.push_back(std::move(one));
  }
  return {.body = dumped_study(json{{"studies", std::move(list)}})};
}

StudiesApi::Place StudiesApi::find(const std::string& id) const {
  auto all = studies();
  const auto found = std::ranges::find(all, id, &Place::id);
  if (found == all.end()) throw NotFound("there is no such study");
  return std::move(*found);
}

bool StudiesApi::has(const std::string& id) const {
  return std::ranges::any_of(studies(), [&](const Place& place) { return place.id == id; });
}

serving::HttpResponse StudiesApi::contour(const ApiRequest& request) const {
  const Place place = find(request.first("id").value_or(""));
  const auto found =
      tuning::contour(tuning::read_study(place.folder), request.first("x").value_or(""),
                      request.first("y").value_or(""));
  if (!found) return {.body = "{}"};
  json trials = json::array();
  for (const tuning::Contour::Place& one : found->trials) {
    trials.push_back({{"id", one.trial}, {"x", one.x}, {"y", one.y}, {"value", one.value}});
  }
  return {.body = dumped_study(json{{"x", found->x.values},
                                    {"y", found->y.values},
                                    {"means", found->means},
                                    {"deviations", found->deviations},
                                    {"trials", std::move(trials)}})};
}

serving::HttpResponse StudiesApi::show(const std::string& id) const {
  const Place found = find(id);
  const tuning::Study study = tuning::read_study(found.folder);
  json out = summary_of(study);
  out["id"] = id;
  out["isRunning"] = tuning::is_study_running(found.folder);
  out["command"] = tuning::read_study_setup(found.folder).command;
  add_importances(study, out["parameters"]);
  out["trials"] = json::array();
  const Front front(study, out);
  for (const tuning::Trial* trial : tuning::ranked(study)) {
    json one = json::parse(tuning::to_json(*trial));
    one["rank"] = out["trials"].size() + 1;
    one["run"] = found.runs + std::to_string(trial->id);
    if (const auto budget = tuning::budget_of(*trial); budget > 0) one["budget"] = budget;
    front.add_to(*trial, one);
    out["trials"].push_back(std::move(one));
  }
  return {.body = dumped_study(out)};
}

}  // namespace muster::console
