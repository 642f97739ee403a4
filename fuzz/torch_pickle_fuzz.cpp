// Pickles of torch.save and torch::save by themselves.

#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/torch_files.h"
#include "muster/base/error.h"
#include "muster/data/records/zip_archive.h"
#include "muster/data/weights/pickle_reader.h"

namespace {

// Memory that a file of any size may take beside eight times its bytes.
constexpr std::size_t kBaseBytes = 16384;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    muster::read_pickled_tensors(bytes, 0, "fuzz", 8 * size + kBaseBytes / 2);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> pickles;
  for (const std::string& file : torch_files()) {
    const ZipArchive archive(file, "seed");
    for (const ZipEntry& entry : archive.entries()) {
      if (entry.name.ends_with("data.pkl")) pickles.emplace_back(archive.packed(entry));
    }
  }
  return pickles;
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = kBaseBytes, .bytes_per_input_byte = 8};
}
