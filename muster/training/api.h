#pragma once

/// From a role to work: a run alone or as a task of a cluster.

#include "muster/training/distributed_session.h"
#include "muster/training/experiment.h"
#include "muster/training/hparams_hook.h"
#include "muster/training/learn_runner.h"
#include "muster/training/train_and_evaluate.h"
