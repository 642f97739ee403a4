#pragma once

#include "muster/base/file_system.h"

namespace muster::internal {

/// Copies a checkpoint's files into a folder, which is made, the index last: with it the copy is
/// there. Returns the copy's prefix. Throws NotFound or DataLoss for one that is not whole.
Path copy_checkpoint(const Path& prefix, const Path& folder);

/// The index first.
void remove_checkpoint(const Path& prefix);

}  // namespace muster::internal
