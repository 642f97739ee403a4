#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/file_system.h"

namespace muster {

/// Values of one metric that evaluations wrote to the event files of a folder, by global step; for
/// a step that was evaluated twice the later value. Empty while there are no evaluations. Damage
/// ends the reading with a warning, and what came before it counts.
///
/// Throws NotFound, listing the tags there are, if there are evaluations but none has the metric.
std::map<std::int64_t, double> read_eval_metric(const Path& eval_dir, const std::string& metric);

}  // namespace muster
