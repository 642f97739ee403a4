#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/object_store.h"
#include "muster/platform/stores/disk_cache.h"
#include "muster/platform/stores/object_api.h"
#include "muster/platform/stores/object_claim.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// Called once, when a path of the scheme is first used: a program that uses none reads no
/// settings.
using MakeObjectApi = std::function<std::shared_ptr<ObjectApi>()>;

/// A file system over an object store: SCHEME://BUCKET/KEY. What base/object_store.h says holds.
/// Without `claims`, the environment is asked when one is made. What is read goes by the cache,
/// where there is one.
std::shared_ptr<ObjectStore> make_object_file_system(std::string scheme, MakeObjectApi make_api,
                                                     std::shared_ptr<Transfers> transfers,
                                                     std::optional<ClaimOptions> claims = {},
                                                     std::shared_ptr<DiskCache> cache = {});

}  // namespace muster::stores
