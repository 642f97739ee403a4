#pragma once

/// Estimators that are ready.

#include "muster/canned/baseline.h"
#include "muster/canned/dnn.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/canned/linear.h"
#include "muster/canned/optimizer_choice.h"
