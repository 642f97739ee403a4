#pragma once

/// Remote stores, and the cluster that a process belongs to.

#include "muster/platform/cluster/task_spec_def.h"
#include "muster/platform/stores/register_stores.h"
