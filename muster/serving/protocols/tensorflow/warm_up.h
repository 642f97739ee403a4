#pragma once

#include "muster/base/file_system.h"
#include "muster/serving/core/model_store.h"

namespace muster::serving {

/// Records that a warm-up file may hold.
inline constexpr int kMostWarmUpRecords = 1000;

/// DIR/assets.extra/tf_serving_warmup_requests, there or not.
Path warm_up_file(const Path& dir);

/// Runs the requests that DIR/assets.extra/tf_serving_warmup_requests holds, each this many times:
/// a TFRecord file of TensorFlow Serving's PredictionLog. Nothing when there is no such file.
/// Throws what a request throws, DataLoss for an invalid file, InvalidArgument for more than
/// 1000.
void warm_up(const ModelVersion& version, const Path& dir, int times);

}  // namespace muster::serving
