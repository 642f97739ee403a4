// .npz files.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/records/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    muster::parse_npz({reinterpret_cast<const char*>(data), size}, "fuzz.npz", "x");
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

// Deflate grows its input up to 1,032 times, and the array is copied once.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 2400}; }
