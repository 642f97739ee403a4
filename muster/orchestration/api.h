#pragma once

/// Hyperparameter studies with search algorithms of a program's own, and jobs with back ends of its
/// own.

#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/study.h"
