#include "muster/data/records/cifar10.h"

#include "muster/base/error.h"
#include "muster/data/records/compression.h"
#include "muster/data/records/text_lines.h"

namespace muster {
namespace {

/// Ten times the largest file of the data set.
constexpr std::uint64_t kMaxFileBytes = 10 * 10'000 * kCifar10RecordBytes;

}  // namespace

Cifar10Batch read_cifar10_binary(const Path& path) {
  return parse_cifar10_binary(read_all(*open_input(path), kMaxFileBytes), path.string());
}

Cifar10Batch parse_cifar10_binary(std::string_view bytes, std::string_view name) {
  if (bytes.size() % kCifar10RecordBytes != 0) {
    throw DataLoss("{}: {} bytes are no whole number of records of {}: {} are left at offset {}",
                   name, bytes.size(), kCifar10RecordBytes, bytes.size() % kCifar10RecordBytes,
                   bytes.size() / kCifar10RecordBytes * kCifar10RecordBytes);
  }
  Cifar10Batch batch;
  const std::size_t count = bytes.size() / kCifar10RecordBytes;
  batch.labels.reserve(count);
  batch.pixels.reserve(count * kCifar10ImageBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view record = bytes.substr(i * kCifar10RecordBytes, kCifar10RecordBytes);
    const auto label = static_cast<std::uint8_t>(record[0]);
    if (label >= kCifar10Classes) {
      throw DataLoss("{}: record {} at offset {}: label {} is not below {}", name, i,
                     i * kCifar10RecordBytes, label, kCifar10Classes);
    }
    batch.labels.push_back(label);
    batch.pixels += record.substr(1);
  }
  return batch;
}

std::string to_cifar10_binary(const Cifar10Batch& batch) {
  std::string out;
  out.reserve(batch.size() * kCifar10RecordBytes);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    out.push_back(static_cast<char>(batch.labels[i]));
    out += batch.image(i);
  }
  return out;
}

std::vector<std::string> read_cifar10_label_names(const Path& path) {
  const auto lines = open_text_lines(path);
  std::vector<std::string> names;
  // The published file ends in an empty line.
  for (Record line; lines->next(line);) {
    if (!line.bytes.empty()) names.emplace_back(line.bytes);
  }
  if (names.size() != kCifar10Classes) {
    throw DataLoss("{}: {} class names, expected {}", path.string(), names.size(), kCifar10Classes);
  }
  return names;
}

}  // namespace muster
