#pragma once

#include "muster/orchestration/tuning/study.h"

namespace muster::cli {

/// Prints a row per trial, the best first.
void print_trials(const tuning::Study& study);

}  // namespace muster::cli
