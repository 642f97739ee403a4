#include <zlib.h>

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/data/records/record_reader.h"

// The first byte chooses the reader's options, the rest is the file.

namespace {

using muster::Compression;
using muster::RecordReader;

void read_all(RecordReader& reader, std::size_t max_failures) {
  for (std::size_t failures = 0; failures < max_failures;) {
    try {
      while (reader.next()) {
      }
      return;
    } catch (const muster::Error&) {
      ++failures;
    }
  }
}

std::string frame(std::string_view data) {
  std::string bytes;
  const auto append = [&](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  append(std::uint64_t{data.size()});
  append(muster::mask_crc(muster::crc32c(bytes)));
  bytes += data;
  append(muster::mask_crc(muster::crc32c(data)));
  return bytes;
}

std::string zlib(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size,
           reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  out.resize(size);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::uint8_t choice = data[0];
  try {
    RecordReader reader(bytes, "fuzz",
                        {.compression = (choice & 1) ? Compression::kAuto : Compression::kNone,
                         .verify_checksums = (choice & 2) == 0,
                         .skip_bad_records = (choice & 4) ? 1000u : 0u,
                         .max_record_bytes = (choice & 8) ? ~std::uint64_t{0} : 4096u,
                         .limits = {.max_output_bytes = 1 << 20, .max_decoder_bytes = 1 << 20}});
    read_all(reader, 4);
    if (reader.seekable()) {
      reader.seek(choice % (bytes.size() + 1), 0);
      read_all(reader, 1);
      reader.seek(0, 0);
      while (reader.skip()) {
      }
    }
  } catch (const muster::Error&) {
  }
  return 0;
}

namespace muster::fuzz {

std::vector<std::string> seeds() {
  const std::string records =
      frame("alpha") + frame("") + frame(std::string(300, 'x')) + frame("z");
  std::vector<std::string> all;
  for (const char choice : {0, 1, 4, 5, 15}) all.push_back(std::string(1, choice) + records);
  all.push_back("\x01" + zlib(records));
  all.push_back("\x0d" + zlib(records));
  return all;
}

MemoryBound memory_bound() { return {}; }

}  // namespace muster::fuzz
