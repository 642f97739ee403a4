#pragma once

#include "muster/serving/batch/shard_state.h"

/// Saves and publishes the state of a shard, for the holder of its lock.
namespace muster::serving {

/// Replaces the state file. Its lines must be on the disk before.
void write_shard_state(const Path& output_path, std::uint64_t shard, const ShardState& state);

/// Gives the files of a complete shard their names. Once more where a kill has stopped it.
void publish_shard(const Path& output_path, const BatchJob& job, std::uint64_t shard);

/// The saved state to resume from: the beginning, with a warning, where files are not as saved.
ShardState resumable_shard_state(const Path& output_path, const BatchJob& job, std::uint64_t shard);

}  // namespace muster::serving
