#pragma once

/// Runs a program alone or as a task of a cluster, by its role.

#include "muster/run/distributed_session.h"
#include "muster/run/experiment.h"
#include "muster/run/hparams_hook.h"
#include "muster/run/learn_runner.h"
#include "muster/run/train_and_evaluate.h"
