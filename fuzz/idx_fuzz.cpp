// IDX files.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto array = muster::parse_idx({reinterpret_cast<const char*>(data), size}, "fuzz.idx");
    if (array.items() > 0 && array.item(array.items() - 1).size() != array.item_bytes())
      __builtin_trap();
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  const std::string bytes("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16);
  const std::string doubles("\0\0\x0E\x01\0\0\0\x02", 8);
  return {bytes + "abcdefghijkl", doubles + std::string(16, '\x3F')};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
