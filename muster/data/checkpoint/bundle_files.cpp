#include "muster/data/checkpoint/bundle_files.h"

#include <fmt/core.h>

namespace muster {

Path bundle_index_path(const Path& prefix) { return prefix.string() + ".index"; }

Path bundle_data_path(const Path& prefix, int shard, int num_shards) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix.string(), shard, num_shards);
}

}  // namespace muster
