// PNG files as muster/data/images decodes them.
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/image_file.h"
#include "muster/base/base64.h"

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\x89PNG\r\n\x1A\n"sv;

constexpr std::string_view kPalettePng =
    "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACAgMAAAACxpXwAAAADFBMVEX/AAAA/wAAAP8KFB4iiCkEAAAAA3RSTlP/gAB/"
    "bWh4AAAADElEQVR42mOQZngCAAE5AQB7mUI3AAAAAElFTkSuQmCC";
constexpr std::string_view kInterlacedPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAMAAAADCAAAAAEERNr1AAAAF0lEQVR42mNgYGBiEBFjYGQQZeDi5gEAAmUAZNw4nKoA"
    "AAAASUVORK5CYII=";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::decode_image_file(kMagic, data, size);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const auto file : {kPalettePng, kInterlacedPng}) {
    for (const char form : {'\0', '\1', '\2'})
      seeds.push_back(form + base64_decode(file).substr(kMagic.size()));
  }
  return seeds;
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
