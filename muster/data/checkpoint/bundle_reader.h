#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// Reads a tensor bundle, TensorFlow's checkpoint format V2. Opening it reads the index; data files
/// are mapped when first needed. All functions may be called from any thread. Errors name the file,
/// the tensor and the byte offset.
class BundleReader {
 public:
  /// Throws NotFound when there is no PREFIX.index, DataLoss when it is damaged.
  explicit BundleReader(const Path& prefix);
  /// Opens a bundle in an untrusted folder: throws InvalidArgument, now or by a read, for a file of
  /// the bundle that is not regular or that a symbolic link leads out of the folder.
  static BundleReader inside(const Path& folder, const Path& prefix);
  ~BundleReader();
  BundleReader(BundleReader&&) noexcept;
  BundleReader& operator=(BundleReader&&) noexcept;

  const Path& prefix() const;
  int num_shards() const;
  /// Masked CRC-32C of the state that was saved with the tensors; nothing where there was none, as
  /// in TensorFlow's own bundles.
  std::optional<std::uint32_t> state_crc() const;
  /// The names of all tensors, sorted as bytes. Parts of a partitioned variable are not among them:
  /// it is one tensor.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  /// Throws NotFound for an unknown name.
  TensorSpec spec(std::string_view name) const;
  /// The bytes that the tensor takes in the data files.
  std::uint64_t stored_bytes(std::string_view name) const;
  /// The names in the order in which their bytes are in the data files.
  std::vector<std::string> names_by_place() const;

  /// The values of one tensor, checked against its checksum; parts are joined. Throws DataLoss, and
  /// InvalidArgument for a string tensor.
  TensorData read(std::string_view name) const;
  /// The values of a string tensor.
  std::vector<std::string> read_strings(std::string_view name) const;

  /// Reads everything once, so that a later read() finds it whole and checks no more.
  /// Throws DataLoss or NotFound, naming the first damaged file.
  void verify() const;

 private:
  struct Impl;
  explicit BundleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
