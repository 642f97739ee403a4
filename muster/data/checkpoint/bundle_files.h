#pragma once

#include "muster/base/file_system.h"

namespace muster {

/// The files of the tensor bundle with this prefix: PREFIX.index and PREFIX.data-0000i-of-0000n.
Path bundle_index_path(const Path& prefix);
Path bundle_data_path(const Path& prefix, int shard, int num_shards);

}  // namespace muster
