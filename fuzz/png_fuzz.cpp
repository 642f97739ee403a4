// PNG files as muster/data/images decodes them.
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/image_file.h"
#include "muster/testing/image_samples.h"

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\x89PNG\r\n\x1A\n"sv;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::decode_image_file(kMagic, data, size);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return image_file_seeds(kMagic, {testing::kPalettePng, testing::kInterlacedPng});
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
