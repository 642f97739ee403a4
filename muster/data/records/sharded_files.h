#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// One file of a set that is named NAME-00000-of-00010SUFFIX; the suffix, if any, begins with a
/// dot.
struct ShardName {
  std::string name;
  std::uint64_t shard = 0;
  std::uint64_t shards = 0;
  std::string suffix{};

  bool operator==(const ShardName&) const = default;
};

/// "train", 0, 10 -> "train-00000-of-00010". Throws InvalidArgument unless shard < shards.
std::string shard_name(std::string_view name, std::uint64_t shard, std::uint64_t shards,
                       std::string_view suffix = "");

/// Takes such a name (or path) apart; nothing if it is another kind of name.
std::optional<ShardName> parse_shard_name(std::string_view name);

/// "train@3.tfrecords" -> its three shard names, whether they exist or not; nothing if there is no
/// @N.
std::optional<std::vector<std::string>> expand_shards(std::string_view name);

/// The files that the patterns name, sorted, each once. A pattern is a path, a glob, or NAME@N.
/// Side indexes (FILE.index beside FILE) are not part of what a glob matches.
///
/// Throws NotFound, naming the pattern that matched nothing, or the shard that a set found by a
/// glob or by @N lacks.
std::vector<Path> expand_files(std::span<const std::string> patterns);

}  // namespace muster
