#pragma once

/// Hyperparameter studies and jobs, with search algorithms and back ends that a program may add.

#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/tuning/search_algorithms.h"
#include "muster/orchestration/tuning/study.h"
