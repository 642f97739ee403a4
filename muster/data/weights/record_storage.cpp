#include <zlib.h>

#include "muster/base/error.h"
#include "muster/data/weights/record_storage_internal.h"

namespace muster {

WeightBytes RecordStorage::read() const {
  if (verify_) std::call_once(verified_, [this] { verify(); });
  return {.bytes = std::as_bytes(std::span(bytes_)), .owner = file_};
}

void RecordStorage::verify() const {
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes_.data()), bytes_.size());
  if (crc == entry_.crc) return;
  throw DataLoss(
      "{}: {} at offset {}: the checksum of {} bytes is {:08x}, not {:08x}; if the file was "
      "saved "
      "with checksums off, read it without looking at them",
      path_, entry_.name, entry_.offset, bytes_.size(), crc, entry_.crc);
}

}  // namespace muster
