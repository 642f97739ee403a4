#pragma once

/// The hooks there are.

#include "muster/hooks/final_ops_hook.h"
#include "muster/hooks/global_step_waiter_hook.h"
#include "muster/hooks/logging_hooks.h"
#include "muster/hooks/profiler_hook.h"
#include "muster/hooks/saver_hooks.h"
#include "muster/hooks/second_or_step_timer.h"
#include "muster/hooks/stop_hooks.h"
