#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

struct BundleWriterOptions {
  /// Data files; each tensor goes to the one that holds least so far.
  int num_shards = 1;
  /// Set: this writer writes that data file alone, and others the rest. What their finish_part()
  /// gives is for the one that writes the index to merge().
  std::optional<int> shard{};
  /// Masked CRC-32C of the state that is kept beside the bundle: the two are one checkpoint.
  std::optional<std::uint32_t> state_crc{};
};

/// Writes a tensor bundle, TensorFlow's checkpoint format V2: PREFIX.data-0000i-of-0000n and
/// PREFIX.index. It belongs to one thread. The tensors are in the data file in the order in which
/// they were added. Errors name the file and the tensor.
class BundleWriter {
 public:
  /// The folder must exist; files of that name are replaced.
  explicit BundleWriter(const Path& prefix, const BundleWriterOptions& options = {});
  /// Without finish() the data files are removed.
  ~BundleWriter();
  BundleWriter(BundleWriter&&) noexcept;
  BundleWriter& operator=(BundleWriter&&) noexcept;

  /// Writes the values now; they need not stay. Throws InvalidArgument for a name that is empty or
  /// was added before and for bytes that do not fit the shape, ResourceExhausted when the disk is
  /// full.
  void add(const TensorView& tensor);

  /// Writes the index. On return all files are on the disk; their folder's entries are the caller's
  /// to sync. Throws InvalidArgument when parts of a partitioned variable leave it incomplete.
  void finish();

  /// In the place of finish(), for a data file whose index another process writes: on return the
  /// file is on the disk. The result is for merge().
  std::string finish_part();
  /// Takes over what others have added to their data files. Throws DataLoss for bytes that are no
  /// result of finish_part(), InvalidArgument for tensors that are here already and for parts of a
  /// bundle of other data files.
  void merge(std::string_view part);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
