#include "muster/base/crc32c.h"

#include <array>
#include <atomic>

#include "muster/base/crc32c_internal.h"
#include "muster/base/unaligned.h"

namespace muster {
namespace {

using crc32c_internal::Extend;
using crc32c_internal::Hardware;
using crc32c_internal::kPolynomial;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Table t carries one byte over t more bytes of zeros, so eight bytes are looked up side by side.
constexpr Tables kTables = [] {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t t = 1; t < 8; ++t) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t crc = tables[t - 1][byte];
      tables[t][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
  return tables;
}();

std::uint32_t extend_portable(std::uint32_t crc, const char* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint64_t word = load_unaligned<std::uint64_t>(data) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (; size > 0; ++data, --size) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*data)) & 0xff];
  }
  return crc;
}

std::uint32_t choose_and_extend(std::uint32_t crc, const char* data, std::size_t size);

/// The fastest there is, once the first call has found it. A function's static variable would do
/// the same, but asks at each call whether it is ready, which short records feel.
constinit std::atomic<Extend> fastest = choose_and_extend;

Hardware choose() {
  return crc32c_internal::hardware().value_or(Hardware{extend_portable, "portable"});
}

std::uint32_t choose_and_extend(std::uint32_t crc, const char* data, std::size_t size) {
  const Extend choice = choose().extend;
  fastest.store(choice, std::memory_order_relaxed);
  return choice(crc, data, size);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t previous) {
  return ~fastest.load(std::memory_order_relaxed)(~previous, bytes.data(), bytes.size());
}

std::uint32_t crc32c_portable(std::string_view bytes, std::uint32_t previous) {
  return ~extend_portable(~previous, bytes.data(), bytes.size());
}

std::string_view crc32c_implementation() { return choose().name; }

}  // namespace muster
