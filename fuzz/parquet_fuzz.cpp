// Parquet files: the footer, page headers, every encoding and codec. Mutants of whole files mostly
// die in their metadata or checksums, so the first byte also chooses to take values straight from
// the rest.

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/tables/parquet.h"
#include "muster/data/tables/value_decoder_internal.h"
#include "muster/testing/parquet_samples.h"

namespace {

void check_block(const muster::TableBlock& block) {
  if (block.columns.size() != block.fields->size()) __builtin_trap();
  for (const muster::TableColumn& column : block.columns) {
    std::size_t count = block.rows;
    for (const auto& splits : column.splits) {
      if (splits.size() != count + 1 || splits.front() != 0) __builtin_trap();
      for (std::size_t i = 0; i < count; ++i) {
        if (splits[i] > splits[i + 1]) __builtin_trap();
      }
      count = static_cast<std::size_t>(splits.back());
    }
    if (column.value_count() != count) __builtin_trap();
    if (!column.valid.empty() && column.valid.size() != count) __builtin_trap();
    if (const auto* strings = std::get_if<std::vector<std::string_view>>(&column.values)) {
      std::size_t sum = 0;
      for (const std::string_view text : *strings) {
        if (!text.empty()) sum += static_cast<unsigned char>(text.front() ^ text.back());
      }
      if (sum == 1) asm volatile("" ::: "memory");
    }
  }
}

void read_file(std::string_view bytes, bool from_the_middle) {
  const auto reader = muster::open_parquet(
      bytes, nullptr, "fuzz.parquet",
      {.block_rows = 200, .max_block_values = 2000, .verify_checksums = false});
  if (from_the_middle) reader->seek(150);
  for (int blocks = 0; blocks < 3; ++blocks) {
    const auto block = reader->next();
    if (!block) return;
    check_block(*block);
  }
}

template <typename T>
void read_values(std::string_view bytes, int encoding, std::size_t width) {
  const std::vector<T> dictionary(3, T{});
  const auto values =
      muster::parquet_internal::make_value_decoder<T>(encoding, bytes, 500, width, &dictionary);
  std::array<T, 100> out{};
  for (int i = 0; i < 5; ++i) values->read(out.data(), i == 0 ? 1 : out.size());
}

void read_page(std::string_view bytes, unsigned type, int encoding) {
  switch (type) {
    case 0:
      return read_values<std::uint8_t>(bytes, encoding, 0);
    case 1:
      return read_values<std::int32_t>(bytes, encoding, 0);
    case 2:
      return read_values<std::int64_t>(bytes, encoding, 0);
    case 3:
      return read_values<std::string_view>(bytes, encoding, 0);
    case 4:
      return read_values<std::string_view>(bytes, encoding, 7);
    default:
      return read_values<double>(bytes, encoding, 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] < 2) {
      read_file(bytes, data[0] == 1);
    } else {
      read_page(bytes, data[0] / 16U, data[0] % 16);
    }
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  namespace samples = testing::parquet_samples;
  std::vector<std::string> all;
  for (const auto sample : {samples::kHyparquet, samples::kWasmV1Zstd, samples::kWasmV2Gzip,
                            samples::kDuckdbSnappy, samples::kDuckdbV2Zstd}) {
    all.push_back('\0' + base64_decode(sample));
    all.push_back('\1' + all.back().substr(1));
  }
  const std::string deltas("\x80\x01\x04\xf4\x03\x02\x02\x00\x03\x00\x00", 11);
  for (const unsigned char choice :
       {0x10, 0x25, 0x15, 0x36, 0x37, 0x47, 0x18, 0x38, 0x03, 0x49, 0x59}) {
    all.push_back(static_cast<char>(choice) + deltas + std::string(40, '\x11') + deltas);
  }
  return all;
}

// Pages may become 16 MiB, whatever they claim to be; values, their sizes and a dictionary come on
// top.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{80} << 20, .bytes_per_input_byte = 600};
}
