#pragma once

/// The hooks there are.

#include "muster/hooks/checkpoint_saver_hook.h"
#include "muster/hooks/examples_per_second_hook.h"
#include "muster/hooks/final_ops_hook.h"
#include "muster/hooks/global_step_waiter_hook.h"
#include "muster/hooks/logging_hook.h"
#include "muster/hooks/nan_hook.h"
#include "muster/hooks/profiler_hook.h"
#include "muster/hooks/second_or_step_timer.h"
#include "muster/hooks/step_counter_hook.h"
#include "muster/hooks/stop_at_checkpoint_step_hook.h"
#include "muster/hooks/stop_at_step_hook.h"
#include "muster/hooks/stop_at_time_hook.h"
#include "muster/hooks/summary_saver_hook.h"
