#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/bundle_index_internal.h"

namespace muster {

/// One data file in memory.
struct ShardBytes {
  std::string_view bytes{};
  std::shared_ptr<const void> owner{};
  /// For messages.
  std::string name{};
};

/// An index together with its data files, wherever they are: what a BundleReader reads from, and
/// fuzzing too.
class BundleContent {
 public:
  using ShardFn = std::function<ShardBytes(int shard)>;

  BundleContent(BundleIndex index, ShardFn shard)
      : index_(std::move(index)), shard_(std::move(shard)) {}

  const BundleIndex& index() const { return index_; }
  /// Throws NotFound for an unknown name.
  const BundleEntry& entry(std::string_view name) const;
  TensorData read(std::string_view name, bool verify_checksum) const;
  std::vector<std::string> read_strings(std::string_view name) const;
  /// Reads a tensor of any kind and drops it.
  void check(std::string_view name) const;

 private:
  const BundleEntry& part(std::string_view name, const BundleEntry& whole,
                          const SliceExtents& extents) const;
  ShardBytes locate(const BundleEntry& entry) const;
  TensorData load(const BundleEntry& entry, bool verify_checksum) const;
  TensorData join(std::string_view name, const BundleEntry& whole, bool verify_checksum) const;

  BundleIndex index_;
  ShardFn shard_;
};

}  // namespace muster
