#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/checkpoint/tensor.h"

namespace muster {

/// Bytes that were read, and what keeps them.
struct WeightBytes {
  std::span<const std::byte> bytes{};
  std::shared_ptr<const void> owner{};
};

/// Memory or part of a file in which the elements of one or more tensors lie, little-endian. All
/// functions may be called from any thread.
class WeightStorage {
 public:
  virtual ~WeightStorage() = default;
  /// The size, without reading.
  virtual std::uint64_t size_bytes() const = 0;
  /// All of it: a view of the mapped file where the format allows that. Throws DataLoss, naming the
  /// file and the place, when the bytes are damaged.
  virtual WeightBytes read() const = 0;
};

/// A named tensor of a file of weights. Its elements may be strided in a storage that other
/// tensors share.
struct Weight {
  std::string name{};
  TensorSpec spec{};
  /// Distance of neighbours in each dimension, in elements.
  std::vector<std::int64_t> strides{};
  std::shared_ptr<const WeightStorage> storage{};
  /// Offset of the first element in the storage, in bytes.
  std::uint64_t first_byte = 0;
};

/// The strides of a row-major tensor.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);
/// Whether the elements are one after another in row-major order.
bool is_row_major(const Weight& weight);
/// Bytes of all elements. Weights of the readers here have one.
std::uint64_t element_bytes(const Weight& weight);
/// Bytes from the first element to the end of the last one; nothing when a dimension or stride is
/// negative or the result leaves 63 bits.
std::optional<std::uint64_t> extent_bytes(DataType type, std::span<const std::int64_t> shape,
                                          std::span<const std::int64_t> strides);
/// Throws DataLoss, beginning with `where`, unless the weight is inside its storage, and
/// ResourceExhausted when its elements take over `most_expanded` bytes and more than the storage,
/// as those of an expanded tensor do.
void check_extent(const Weight& weight, std::uint64_t most_expanded, const std::string& where);

/// The elements in row-major order: a view of the storage where they lie so, else a copy.
WeightBytes row_major_bytes(const Weight& weight);

/// A storage over bytes in memory.
std::shared_ptr<const WeightStorage> storage_of(WeightBytes bytes);
/// A storage over all bytes of a mapped file.
std::shared_ptr<const WeightStorage> storage_of(std::shared_ptr<const MappedFile> file);

}  // namespace muster
