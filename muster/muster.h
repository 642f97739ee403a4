#pragma once

/// The main header: everything a program needs to read records, train, evaluate, predict and
/// export, alone or as a task of a cluster. Link muster::muster, and muster::boosted_trees for
/// boosted trees. A program with a model of its own also includes muster/nn/api.h, which includes
/// torch::nn::Module.

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/flags/flags.h"
#include "muster/base/log.h"
#include "muster/base/program.h"
#include "muster/base/random.h"
#include "muster/data/api.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/export/api.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/metric_of_sums.h"
#include "muster/nn/model/metrics.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/platform/cluster/task_spec_def.h"
#include "muster/run/api.h"
#include "muster/train/api.h"
#include "muster/train/boosted_trees/boosted_trees.h"
