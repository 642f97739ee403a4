#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/serving/batch/batch_job.h"

namespace muster::serving {

/// How far a shard is: what is known to be on the disk.
struct ShardState {
  /// Instances that are done.
  std::uint64_t records = 0;
  /// Sizes of the lines of results and of errors, and the CRC-32C of these bytes.
  std::uint64_t result_bytes = 0;
  std::uint64_t error_bytes = 0;
  std::uint32_t result_crc32c = 0;
  std::uint32_t error_crc32c = 0;
  BatchCounts counts{};
  /// All are done; then the files are published, or about to be.
  bool complete = false;
};

/// Nothing before the first save. Throws DataLoss for a file that is damaged.
std::optional<ShardState> read_shard_state(const Path& output_path, std::uint64_t shard);
/// Reads the files of published shards again. A shard of which a byte differs is published no
/// more, and starts again from its beginning, with a warning. (One that is not published is looked
/// at when it is gone on with.)
void check_published_shards(const Path& output_path, const BatchJob& job);
/// The files of all shards. All of them are published.
std::vector<WrittenFile> files_of_shards(const Path& output_path, const BatchJob& job);
/// Whether its files have their names.
bool is_published(const Path& output_path, const BatchJob& job, std::uint64_t shard);

}  // namespace muster::serving
