#pragma once

#include "muster/data/features/batch.h"
#include "muster/data/text/text_encoder.h"

namespace muster {

/// Tensors over the memory of `texts`, which it takes: the features "input_ids", "attention_mask"
/// and "token_type_ids", int64 [n, length], as zoo::bert() reads them, and the label, int64 [n, 1].
Batch to_batch(TextBatch texts);

}  // namespace muster
