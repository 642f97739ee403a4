#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/platform/stores/disk_cache.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// State shared by the stores of a process: transfer threads and connections, and the disk cache.
struct SharedTransfers {
  std::shared_ptr<Transfers> transfers{};
  std::shared_ptr<DiskCache> cache{};
};

/// The schemes of one store, `gs` say, and how its file system is made. register_stores() asks for
/// it at once, so it reads no settings before a path is used.
struct StoreScheme {
  std::vector<std::string> names{};
  std::shared_ptr<FileSystem> (*make)(const SharedTransfers& shared) = nullptr;
};

}  // namespace muster::stores
