// .npy files.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto array = muster::parse_npy({reinterpret_cast<const char*>(data), size}, "fuzz.npy");
    if (array.items() > 0 && array.item(array.items() - 1).size() != array.item_bytes())
      __builtin_trap();
    if (muster::parse_npy(muster::encode_npy(array), "again").data != array.data) __builtin_trap();
    muster::npy_strings(array);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  const std::string dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n";
  const auto length = static_cast<char>(dictionary.size());
  const std::string data(24, 'x');
  return {std::string("\x93NUMPY\x01\0", 8) + length + '\0' + dictionary + data,
          muster::encode_npy(muster::npy_of_strings({2}, {"a", "bcd"})),
          std::string("\x93NUMPY\x02\0", 8) + length + std::string(3, '\0') + dictionary + data};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
