#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/platform/stores/disk_cache.h"
#include "muster/platform/stores/range_file.h"

namespace muster::stores {

/// Metadata of a file, known without reading it.
struct FileStamp {
  ObjectInfo info{};
  /// Changes with the content.
  std::string text{};
};
/// Nothing where there is no such file, or nothing that changes with its content.
using LookAtFile = std::function<std::optional<FileStamp>()>;

/// Fetches ranges of one reader of the file `name` from the cache, or puts them there. The first
/// one looks at the file, which is one more request; with the same stamp, no other is made for what
/// is in the cache.
FetchRange cached_ranges(std::shared_ptr<DiskCache> cache, std::string name, LookAtFile look,
                         FetchRange fetch);

}  // namespace muster::stores
