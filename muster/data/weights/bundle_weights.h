#pragma once

#include "muster/data/weights/weights.h"

namespace muster {

/// The tensors of a bundle. Values are checked against their checksums when they are read; those of
/// string tensors are left out.
Weights open_bundle_weights(const Path& prefix);

/// Writes PREFIX.index and PREFIX.data-00000-of-00001.
void write_bundle_weights(const Path& prefix, const std::vector<Weight>& tensors);

}  // namespace muster
