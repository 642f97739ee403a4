// .npz files.

#include <algorithm>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/records/npy.h"
#include "muster/data/records/npz.h"
#include "muster/data/records/zip_archive.h"

namespace {

/// Allows the bytes that the header of the array declares: for the array, and for its copy in a
/// string that grows.
void allow_array(std::string_view bytes) {
  const muster::ZipArchive archive(bytes, "fuzz.npz");
  for (const muster::ZipEntry& entry : archive.entries()) {
    if (entry.name != "x.npy") continue;
    const auto header = muster::read_npy_header(*archive.open(entry, {}), "fuzz.npz");
    muster::fuzz::allow_memory(3 * std::min(header.data_bytes, std::uint64_t{1} << 40));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    allow_array(bytes);
    muster::parse_npz(bytes, "fuzz.npz", "x");
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  // numpy.savez_compressed(..., x=numpy.array([1.5, -2], '<f4'), n=numpy.array(['ab'])).
  return {muster::base64_decode(
      "UEsDBBQAAAAIAAAAIQDWQ0sFSwAAAIgAAAAFABQAeC5ucHkBABAAiAAAAAAAAABLAAAAAAAAAJvsF+obEMnIUMZQrZ6S"
      "WpxcpG6loG6TZqKuo6Cell9UUpSYF59flJIKEndLzClOBYoXZyQWpAL5GkY6mjoKtQoUAC4GhgP2DEACAFBLAwQUAAAA"
      "CAAAACEAFxj7MksAAACIAAAABQAUAG4ubnB5AQAQAIgAAAAAAAAASwAAAAAAAACb7BfqGxDJyFDGUK2eklqcXKRupaBu"
      "E2qkrqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RqGOpo6CrUKFACuRAYGhiQgBgBQSwECFAMUAAAACAAAACEA"
      "1kNLBUsAAACIAAAABQAAAAAAAAAAAAAAgAEAAAAAeC5ucHlQSwECFAMUAAAACAAAACEAFxj7MksAAACIAAAABQAAAAAA"
      "AAAAAAAAgAGCAAAAbi5ucHlQSwUGAAAAAAIAAgBmAAAABAEAAAAA")};
}

// The buffers of a stream, eight times the file, and the array that its header declares.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{192} << 10, .bytes_per_input_byte = 8};
}
