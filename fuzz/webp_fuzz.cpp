// WebP files as muster/data/images decodes them.
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/image_file.h"

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "RIFF"sv;

constexpr std::string_view kLossy =
    "UklGRjgAAABXRUJQVlA4ICwAAACwAQCdASoLAAkAB0CWJbACdADzd8lQAP7pQwsej/TuJT/8Ri3Jmqbw5YUAAA==";
constexpr std::string_view kLossless =
    "UklGRjAAAABXRUJQVlA4TCQAAAAvCgACAJkyRPQ/NlH/6H+AMNtoQzh/370OYBomICYAPA6MZwA=";
constexpr std::string_view kOpacity =
    "UklGRnIAAABXRUJQVlA4WAoAAAAQAAAACgAACAAAQUxQSCAAAAABVyAQSLLYX3aGiEgNyAQs/l2yyCKLLDJLENH/kNPx"
    "B1ZQOCAsAAAA8AEAnQEqCwAJAAdAliWwAnQBDw7cJhgAAP7kKAF87kMus3hhlW5iGFzAAAA=";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::decode_image_file(kMagic, data, size);
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return image_file_seeds(kMagic, {kLossy, kLossless, kOpacity});
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
