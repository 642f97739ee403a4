#pragma once

#include <cstdint>
#include <memory>

#include "muster/data/records/compression.h"
#include "muster/data/records/record_source.h"

namespace muster {

struct FixedLengthOptions {
  /// Must be positive.
  std::uint64_t record_bytes = 0;
  /// Bytes before the first record and after the last one.
  std::uint64_t header_bytes = 0;
  std::uint64_t footer_bytes = 0;
  Compression compression = Compression::kAuto;
};

/// Opens a file of records that all have one length. A plain file is mapped: records are views into
/// it, and any of them is reached at once. A compressed file is read from front to back. Throws
/// NotFound, InvalidArgument for a record length of 0, and DataLoss, naming the sizes, when what
/// is between header and footer is no whole number of records (a compressed file: when the end is
/// reached).
std::unique_ptr<RecordSource> open_fixed_length(const Path& path,
                                                const FixedLengthOptions& options);

}  // namespace muster
