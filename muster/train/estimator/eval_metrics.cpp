#include "muster/train/estimator/eval_metrics.h"

#include <fmt/ranges.h>

#include <set>
#include <utility>
#include <variant>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"

namespace muster {
namespace {

class MetricByStep {
 public:
  explicit MetricByStep(const std::string& metric) : metric_(metric) {}

  void add(const Event& event) {
    const auto* summary = std::get_if<Summary>(&event.what);
    if (!summary) return;
    for (const SummaryValue& value : *summary) {
      const auto number = scalar_of(value);
      if (!number) continue;
      tags_.insert(value.tag);
      if (value.tag == metric_) by_step_[event.step] = *number;
    }
  }

  std::map<std::int64_t, double> take(const Path& eval_dir) && {
    if (by_step_.empty() && !tags_.empty()) {
      throw NotFound("no evaluation in {} has the metric {}; they have: {}", eval_dir.string(),
                     metric_, fmt::join(tags_, ", "));
    }
    return std::move(by_step_);
  }

 private:
  const std::string& metric_;
  std::set<std::string> tags_;
  std::map<std::int64_t, double> by_step_;
};

}  // namespace

std::map<std::int64_t, double> read_eval_metric(const Path& eval_dir, const std::string& metric) {
  if (!file_exists(eval_dir)) return {};
  MetricByStep found(metric);
  for (const Path& file : event_files(eval_dir)) {
    try {
      EventReader reader(file);
      while (const auto event = reader.next()) found.add(*event);
    } catch (const DataLoss& error) {
      log::warning("evaluations are read only up to the damage: {}", error.what());
    }
  }
  return std::move(found).take(eval_dir);
}

}  // namespace muster
