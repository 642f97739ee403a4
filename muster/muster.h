#pragma once

/// The front door: all that a program needs to read records, train, evaluate, predict and export,
/// alone or as a task of a cluster. Link muster::muster, and muster::boosted_trees for those. A
/// program with a model of its own includes muster/model/api.h beside it, which brings
/// torch::nn::Module.

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/random.h"
#include "muster/boosted_trees/boosted_trees.h"
#include "muster/canned/api.h"
#include "muster/cluster/task_spec_def.h"
#include "muster/dataset/dataset.h"
#include "muster/device/gpu.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/engine/hook.h"
#include "muster/engine/input.h"
#include "muster/engine/run_config.h"
#include "muster/engine/run_flags.h"
#include "muster/engine/trainer.h"
#include "muster/estimator/early_stopping.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/in_memory_evaluator_hook.h"
#include "muster/estimator/predictor.h"
#include "muster/estimator/specs.h"
#include "muster/export/api.h"
#include "muster/features/api.h"
#include "muster/flags/flags.h"
#include "muster/hooks/api.h"
#include "muster/model/head.h"
#include "muster/model/metric_of_sums.h"
#include "muster/model/metrics.h"
#include "muster/optim/optimizer.h"
#include "muster/records/api.h"
#include "muster/training/api.h"
