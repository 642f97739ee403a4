#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// The rectangle that a part fills; a length of -1 is the whole dimension.
struct SliceExtents {
  std::vector<std::int64_t> start{};
  std::vector<std::int64_t> length{};
};

/// Where a tensor's bytes lie. Every number has been checked against the others, but not yet
/// against the data files.
struct BundleEntry {
  TensorSpec spec{};
  int shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t masked_crc = 0;
  /// Not empty for a partitioned variable, whose parts have entries of their own.
  std::vector<SliceExtents> slices{};
};

/// Content of PREFIX.index: entries by key. Keys of parts begin with a zero byte.
struct BundleIndex {
  int num_shards = 1;
  /// Masked CRC-32C of the state that was saved with the tensors.
  std::optional<std::uint32_t> state_crc{};
  std::map<std::string, BundleEntry, std::less<>> entries{};
};

/// Throws DataLoss for bytes that are no index, Unimplemented for one that needs another reader.
BundleIndex parse_bundle_index(std::string_view bytes, bool verify_checksums = true);

/// The bytes that TensorFlow would write for this index.
std::string serialize_bundle_index(const BundleIndex& index);

/// The key under which a part of a partitioned variable is stored.
std::string slice_key(std::string_view name, const SliceExtents& extents);
inline bool is_slice_key(std::string_view key) { return key.starts_with('\0'); }

/// The shape of a part of a tensor.
std::vector<std::int64_t> slice_shape(std::span<const std::int64_t> full_shape,
                                      const SliceExtents& extents);

}  // namespace muster
