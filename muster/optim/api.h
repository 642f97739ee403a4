#pragma once

/// Optimizers, learning rates and what stands around them, also for updates made by hand.

#include "muster/optim/clipping.h"
#include "muster/optim/learning_rate.h"
#include "muster/optim/moving_average.h"
#include "muster/optim/named_tensor.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/update.h"
#include "muster/optim/updater.h"
#include "muster/optim/variables.h"
#include "muster/optim/weight_decay.h"
