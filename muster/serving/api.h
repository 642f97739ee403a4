#pragma once

/// Requests into tensors and tensors into answers, as TensorFlow Serving has them; without
/// libtorch.

#include "muster/serving/instances.h"
#include "muster/serving/predict_request.h"
#include "muster/serving/predictions.h"
