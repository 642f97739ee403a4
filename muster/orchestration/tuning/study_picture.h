#pragma once

#include <string>

#include "muster/orchestration/tuning/study.h"

namespace muster::tuning {

/// The study as an SVG document: the metric by trial with the best so far, all parameters of a
/// trial as one line (parallel coordinates), and the metric over each parameter. Trials without a
/// finite metric are not drawn; of many, the best kMostDrawnTrials are.
std::string study_svg(const Study& study);

inline constexpr std::size_t kMostDrawnTrials = 1000;

}  // namespace muster::tuning
