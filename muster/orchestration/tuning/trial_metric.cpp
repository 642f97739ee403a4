#include "muster/orchestration/tuning/trial_metric.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/data/summary/event_reader.h"
#include "muster/orchestration/tuning/study_hparams_internal.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kMostMetricFileBytes = std::uint64_t{16} << 20;

using Curve = std::map<std::int64_t, double>;

// By folder below the job-dir ("" is itself), by tag.
using Scalars = std::map<std::string, std::map<std::string, Curve>>;

void read_folder(const Path& folder, std::map<std::string, Curve>& into) {
  if (event_files(folder).empty()) return;
  EventReader reader(folder);
  while (const auto event = reader.next()) {
    const auto* const summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const SummaryValue& value : *summary) {
      if (value.tag == kObjectiveTag) continue;
      if (const auto scalar = scalar_of(value)) into[value.tag][event->step] = *scalar;
    }
  }
}

Scalars read_scalars(const Path& job_dir) {
  Scalars scalars;
  FileSystem& files = file_system_for(job_dir);
  if (!files.status(job_dir)) return scalars;
  read_folder(job_dir, scalars[""]);
  for (const std::string& name : files.list(job_dir)) {
    const auto status = files.status(job_dir / name);
    if (status && status->is_directory) read_folder(job_dir / name, scalars[name]);
  }
  return scalars;
}

double number_of(const nlohmann::json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

// A whole number as JSON or as a text. Through a double the largest would become another one.
std::int64_t step_of(const nlohmann::json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::int64_t step = -1;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, step);
  // "100.0" is what Python makes of a step that was a float.
  const bool is_whole =
      error == std::errc() && (rest == end || std::string_view(rest, end) == ".0");
  if (!is_whole || step < 0) {
    throw DataLoss("global_step must be a whole number from 0 to {}: {}",
                   std::numeric_limits<std::int64_t>::max(), printable(text));
  }
  return step;
}

// A line per report: {"global_step": "100", "TAG": "0.91", "timestamp": 1.5e9, "trial": "3"}.
void read_metric_file(const Path& file, std::map<std::string, Curve>& into) {
  const std::string text = read_file(file, kMostMetricFileBytes);
  std::size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \r\t") == line.npos) continue;
    try {
      const auto json = nlohmann::json::parse(line);
      const auto step = json.contains("global_step") ? step_of(json.at("global_step")) : 0;
      for (const auto& [tag, value] : json.items()) {
        if (tag == "global_step" || tag == "timestamp" || tag == "trial") continue;
        into[tag][step] = number_of(value);
      }
    } catch (const std::exception& error) {
      throw DataLoss("{}:{}: no report of a metric: {}", file.string(), number, error.what());
    }
  }
}

// The folder whose metric it is.
std::optional<std::string> choose_folder(const Scalars& scalars, const std::string& tag) {
  std::vector<std::string> all;
  std::vector<std::string> evaluations;
  for (const auto& [folder, tags] : scalars) {
    if (!tags.contains(tag)) continue;
    all.push_back(folder);
    if (folder.starts_with("eval")) evaluations.push_back(folder);
  }
  const auto& chosen = evaluations.empty() ? all : evaluations;
  if (chosen.empty()) return std::nullopt;
  if (chosen.size() == 1) return chosen.front();
  throw FailedPrecondition(
      "the metric {} is in several folders: {}; name one in hyperparameterMetricTag, as in {}:{}",
      tag, listed(chosen), chosen.back(), tag);
}

TrialMetrics metrics_of(const Scalars& scalars, const std::optional<std::string>& chosen,
                        const std::string& chosen_tag) {
  TrialMetrics metrics;
  for (const auto& [folder, tags] : scalars) {
    for (const auto& [tag, curve] : tags) {
      if (chosen == folder && tag == chosen_tag) {
        for (const auto& [step, value] : curve) metrics.measurements.push_back({step, value});
      } else {
        metrics.others[folder.empty() ? tag : folder + "/" + tag] = curve.rbegin()->second;
      }
    }
  }
  return metrics;
}

}  // namespace

TrialMetrics read_trial_metrics(const Path& job_dir, const Path& metric_file,
                                const std::string& tag) {
  Scalars scalars = read_scalars(job_dir);
  const auto colon = tag.find(':');
  if (colon != tag.npos && scalars.contains(tag.substr(0, colon))) {
    return metrics_of(scalars, tag.substr(0, colon), tag.substr(colon + 1));
  }
  if (file_exists(metric_file)) {
    std::map<std::string, Curve> reported;
    read_metric_file(metric_file, reported);
    if (reported.contains(tag)) {
      for (auto& [folder, tags] : scalars) tags.erase(tag);
      for (auto& [name, curve] : reported) scalars[""][name] = std::move(curve);
      return metrics_of(scalars, "", tag);
    }
  }
  return metrics_of(scalars, choose_folder(scalars, tag), tag);
}

}  // namespace muster::tuning
