#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "muster/base/object_store.h"
#include "muster/platform/stores/disk_cache.h"
#include "muster/platform/stores/hdfs_settings.h"
#include "muster/platform/stores/object_claim.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// HDFS by WebHDFS: hdfs://, webhdfs:// and swebhdfs://NAMENODE/PATH. It has folders, renames that
/// are one step, and files that grow. `settings` is called when a path is first used; without
/// `claims`, the environment is asked when one is made. What is read goes by the cache, where there
/// is one.
std::shared_ptr<SharedFileSystem> make_hdfs_file_system(std::function<HdfsSettings()> settings,
                                                        std::shared_ptr<Transfers> transfers,
                                                        std::optional<ClaimOptions> claims = {},
                                                        std::shared_ptr<DiskCache> cache = {});

}  // namespace muster::stores
