#pragma once

#include <span>
#include <string>
#include <variant>

#include "muster/data/summary/event.h"

/// Data that TensorBoard's page "hparams" needs: a table with a row a run, its hyperparameters, and
/// the last values of its metrics.
namespace muster {

struct HParam {
  std::string name{};
  std::variant<bool, double, std::string> value{};
};

/// A column for a metric: a scalar under `tag` in the run's folder, or in its folder `group` such
/// as "eval".
struct HParamMetric {
  std::string tag{};
  std::string group{};
  std::string display_name{};
};

/// The columns of the table. `time` is in seconds since 1970.
SummaryValue hparams_experiment(std::span<const HParam> hparams,
                                std::span<const HParamMetric> metrics, double time);
/// This run's values. Runs of one `group_name` are averaged; empty means a group of its own.
SummaryValue hparams_session_start(std::span<const HParam> hparams, const std::string& group_name,
                                   double time);
/// How the run ended. Without it TensorBoard shows it as unknown.
SummaryValue hparams_session_end(bool success, double time);

}  // namespace muster
