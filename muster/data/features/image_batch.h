#pragma once

#include "muster/data/features/batch.h"
#include "muster/data/images/normalise.h"

namespace muster {

/// Tensors over the memory of `images`, which it takes: the feature "image", float [n, channels,
/// height, width], and the label, int64 [n, 1].
Batch to_batch(ImageBatch images);

}  // namespace muster
