#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

inline constexpr std::size_t kCifar10Classes = 10;
/// 1,024 red, 1,024 green, 1,024 blue, each plane row by row.
inline constexpr std::size_t kCifar10ImageBytes = std::size_t{3} * 32 * 32;
/// A label byte, then the image.
inline constexpr std::size_t kCifar10RecordBytes = 1 + kCifar10ImageBytes;

/// One of the six files of CIFAR-10, whichever way it was stored.
struct Cifar10Batch {
  /// Below 10.
  std::vector<std::uint8_t> labels{};
  /// One image after the other.
  std::string pixels{};

  std::size_t size() const { return labels.size(); }
  /// The bytes of image `i`, which must be below size(); a view into `pixels`.
  std::string_view image(std::size_t i) const {
    return std::string_view(pixels).substr(i * kCifar10ImageBytes, kCifar10ImageBytes);
  }
};

/// Reads a file of the binary version (data_batch_1.bin), also a compressed one. Throws NotFound,
/// and DataLoss, with record and offset, for a label above 9 or a last record that is cut short.
Cifar10Batch read_cifar10_binary(const Path& path);
/// The same for the bytes of a file; `name` stands for it in messages.
Cifar10Batch parse_cifar10_binary(std::string_view bytes, std::string_view name);
/// The bytes of such a file.
std::string to_cifar10_binary(const Cifar10Batch& batch);

/// The class names in batches.meta.txt, one a line in label order. Throws DataLoss if they are not
/// ten.
std::vector<std::string> read_cifar10_label_names(const Path& path);

}  // namespace muster
