#pragma once

/// Estimators of a model of one's own and canned ones, what they are configured with, and the hooks
/// there are.

#include "muster/train/canned/canned.h"
#include "muster/train/engine/hook.h"
#include "muster/train/engine/input.h"
#include "muster/train/engine/run_config.h"
#include "muster/train/engine/run_flags.h"
#include "muster/train/engine/trainer.h"
#include "muster/train/estimator/add_metrics.h"
#include "muster/train/estimator/best_checkpoint.h"
#include "muster/train/estimator/early_stopping.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/in_memory_evaluator_hook.h"
#include "muster/train/estimator/learning_rate_finder.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/specs.h"
#include "muster/train/hooks/final_ops_hook.h"
#include "muster/train/hooks/global_step_waiter_hook.h"
#include "muster/train/hooks/logging_hooks.h"
#include "muster/train/hooks/profiler_hook.h"
#include "muster/train/hooks/saver_hooks.h"
#include "muster/train/hooks/second_or_step_timer.h"
#include "muster/train/hooks/stop_hooks.h"
