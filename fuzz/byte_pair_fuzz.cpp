// Vocabularies and rules of byte pairs: a JSON object, an empty line, the rules.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/text/byte_pair.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(bytes.find("\n\n"), bytes.size());
  try {
    const auto tokenizer =
        muster::byte_pair_from_bytes(bytes.substr(0, end), bytes.substr(std::min(end + 2, size)));
    // Any text comes back as it was.
    if (tokenizer->decode(tokenizer->encode(bytes)) != bytes) __builtin_trap();
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  // Bytes as GPT-2 writes them: U+0100 on for those that cannot be seen.
  std::string json;
  int hidden = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    json +=
        fmt::format("{}\"\\u{:04x}\": {}", byte == 0 ? "{" : ",", visible ? byte : hidden++, byte);
  }
  return {json + ",\"on\": 256,\"\\u0120on\": 257}\n\n#version: 0.2\no n\n\xc4\xa0 on\n"};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 400}; }
