// ZIP archives: their directory, and every file in them, unpacked and held to its checksum.

#include <array>
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/torch_files.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/records/zip_archive.h"

namespace {

// An archive may name the same bytes many times.
constexpr std::size_t kMostFiles = 16;
constexpr std::uint64_t kMostUnpacked = 65536;

void unpack(const muster::ZipArchive& archive, const muster::ZipEntry& entry) {
  try {
    const auto input = archive.open(entry, {.max_output_bytes = kMostUnpacked});
    std::array<char, 4096> buffer{};
    while (input->read(buffer) == buffer.size()) {
    }
  } catch (const muster::Error&) {
    // Refused, as it should be; others of the archive may be whole.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const muster::ZipArchive archive({reinterpret_cast<const char*>(data), size}, "fuzz");
    std::size_t left = kMostFiles;
    for (const muster::ZipEntry& entry : archive.entries()) {
      if (left-- == 0) break;
      unpack(archive, entry);
    }
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

// Files of PyTorch, stored and partly ZIP64, and two small files that Python's zipfile deflated.
std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> archives = torch_files();
  archives.push_back(base64_decode(
      "UEsDBBQAAAAIAAAAISpPsazXFAAAALQAAAAFAAAAYS50eHTLz0tVKCnPh+CMotRUFDJ/UMoCAFBLAwQUAAAACAAAACEq"
      "xAXkbkUAAACAAAAABwAAAGIvYy5iaW5jYGRiZmFlY+fg5OLm4eXjFxAUEhYRFROXkJSSlpGVk1dQVFJWUVVT19DU0tbR"
      "1dM3MDQyNjE1M7ewtLK2sbWzZ6BQPwBQSwECFAMUAAAACAAAACEqT7Gs1xQAAAC0AAAABQAAAAAAAAAAAAAAgAEAAAAA"
      "YS50eHRQSwECFAMUAAAACAAAACEqxAXkbkUAAACAAAAABwAAAAAAAAAAAAAAgAE3AAAAYi9jLmJpblBLBQYAAAAAAgAC"
      "AGgAAAChAAAAAAA="));
  return archives;
}

// The buffers of a stream beside the archive's directory.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = std::size_t{96} << 10, .bytes_per_input_byte = 8};
}
