// Pictures: JPEG and PNG files, decoded as the first byte says.
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"
#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/picture_internal.h"
#include "muster/testing/image_samples.h"

namespace {

using muster::executor::PictureOptions;
using muster::executor::PictureSize;
using muster::testing::kBaselineJpeg;
using muster::testing::kInterlacedPng;
using muster::testing::kPalettePng;
using muster::testing::kProgressiveJpeg;

constexpr std::int64_t kMaxBytes = 1 << 20;

void decode(std::string_view bytes, const PictureOptions& options) {
  std::vector<unsigned char> pixels;
  int calls = 0;
  const auto memory = [&](const PictureSize& size) {
    const auto wanted =
        size.height * size.width * size.channels * size.bytes_per_sample + size.working_bytes;
    if (wanted > kMaxBytes) throw muster::ResourceExhausted("{} bytes", wanted);
    pixels.resize(static_cast<std::size_t>(wanted - size.working_bytes));
    return pixels.data();
  };
  if (muster::executor::is_jpeg(bytes)) {
    muster::executor::decode_jpeg(bytes, options, memory, [&] {
      if (++calls > 10'000) throw muster::ResourceExhausted("too long");
    });
  } else {
    muster::executor::decode_png(bytes, options, memory);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr int kChannels[] = {0, 1, 3, 4};
  constexpr int kRatios[] = {1, 2, 4, 8};
  const PictureOptions options{.channels = kChannels[data[0] % 4],
                               .ratio = kRatios[data[0] / 4 % 4],
                               .recover_truncated = (data[0] & 16) != 0,
                               .keep_16_bits = (data[0] & 32) != 0};
  try {
    decode({reinterpret_cast<const char*>(data) + 1, size - 1}, options);
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> seeds;
  for (const auto file : {kBaselineJpeg, kProgressiveJpeg, kPalettePng, kInterlacedPng}) {
    for (const char options : {'\x00', '\x02', '\x12', '\x23'})
      seeds.push_back(options + base64_decode(file));
  }
  return seeds;
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
