#pragma once

#include "muster/data/weights/weights.h"

namespace muster {

/// Reads the tensors that a "*.safetensors.index.json" or "*.bin.index.json" names, from files
/// beside it.
Weights open_sharded_weights(const Path& index, const OpenWeightsOptions& options);

/// One file of a format that its first bytes tell.
Weights open_weights_file(const Path& path, const OpenWeightsOptions& options);

}  // namespace muster
