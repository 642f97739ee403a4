#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/data/images/image_decoder.h"

namespace muster::fuzz {

/// Decodes a file, all of it and a part; the first byte says how, and `magic` is put in front of
/// the rest, so that no other decoder is asked.
inline void decode_image_file(std::string_view magic, const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const bool grey = (data[0] & 1) != 0;
  const bool part = (data[0] & 2) != 0;
  std::string bytes(magic);
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    ImageDecoder decoder(bytes, "fuzz", {.channels = grey ? 1 : 3, .max_pixels = 1 << 16});
    if (!part) {
      decoder.decode();
      return;
    }
    const auto height = static_cast<double>(decoder.header().height);
    const auto width = static_cast<double>(decoder.header().width);
    const ImageBox box{
        .top = height / 3, .left = width / 3, .height = height / 2, .width = width / 2};
    decoder.decode_resized(box, 3, 5);
  } catch (const Error&) {
    // Refused, as it should be.
  }
}

/// Seeds for decode_image_file() of files in base64: all of each, grey, and a part.
inline std::vector<std::string> image_file_seeds(std::string_view magic,
                                                 std::initializer_list<std::string_view> files) {
  std::vector<std::string> seeds;
  for (const auto file : files) {
    for (const char form : {'\0', '\1', '\2'}) {
      seeds.push_back(form + base64_decode(file).substr(magic.size()));
    }
  }
  return seeds;
}

}  // namespace muster::fuzz
