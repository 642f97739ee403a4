#pragma once

#include <vector>

#include "muster/orchestration/tuning/study.h"

namespace muster::tuning {

/// By parameter of the specification: which share of the metric's variance it explains alone, after
/// functional analysis of variance over a forest of regression trees (Hutter et al. 2014); what is
/// missing from 1 is the parameters' interplay. Empty where fewer than kLeastTrialsForImportances
/// have a metric, or all have the same.
std::vector<double> importances(const Study& study);

inline constexpr std::size_t kLeastTrialsForImportances = 8;

}  // namespace muster::tuning
