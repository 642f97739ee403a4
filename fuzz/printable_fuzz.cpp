// Text from files that messages quote.

#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/printable.h"

namespace {

bool is_harmless(std::string_view text, std::string_view kept) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_kept = kept.find(c) != std::string_view::npos;
    if ((byte < 0x20 && !is_kept) || byte == 0x7F) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string shown = muster::printable(text);
  if (!is_harmless(shown, "\n\t") || muster::printable(shown) != shown) std::abort();
  const std::string line = muster::printable_line(text);
  if (!is_harmless(line, "") || muster::printable_line(line) != line) std::abort();
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {
      "Gr\xC3\xBC\xC3\x9F"
      "e, \xE4\xB8\x96 \xF0\x9F\x99\x82\n\t",
      std::string("\x1b[31m\0\r\x7F\xC2\x9B\xED\xA0\x80\xE2\x80\xAE", 16)};
}

// A byte becomes four at most, and text grows by doubling.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 16}; }
