#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "muster/base/file_system.h"
#include "muster/platform/stores/object_api.h"
#include "muster/platform/stores/transfers.h"

namespace muster::stores {

/// Fetches a part of one file. `version` is empty at first, then what the first part said: a file
/// that is replaced meanwhile is an error and not a mixture. Called from several threads at once.
using FetchRange =
    std::function<ObjectRange(std::uint64_t offset, std::uint64_t length,
                              const std::string& version, const std::stop_token& stop)>;

struct RangeOptions {
  std::uint64_t range_bytes = std::uint64_t{8} << 20;
  /// Ranges on their way at once, beside the one that is read.
  std::size_t in_flight = 4;
};

/// A file that is fetched in ranges, ahead of its reader. The first range is fetched here, and says
/// how large the file is: one of a single range costs one request.
std::unique_ptr<ReadableFile> open_ranges(FetchRange fetch, std::shared_ptr<Transfers> transfers,
                                          const RangeOptions& options = {});

/// The whole file: in memory if it is one range, else in a temporary file without a name (under
/// TMPDIR), fetched by several ranges at once.
std::shared_ptr<const MappedFile> map_ranges(const FetchRange& fetch, Transfers& transfers,
                                             const RangeOptions& options = {});

}  // namespace muster::stores
