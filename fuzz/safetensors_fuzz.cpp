// safetensors files.

#include <memory>
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "muster/base/error.h"
#include "muster/data/weights/safetensors.h"

namespace {

std::string file_of(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xFF);
  bytes[1] = static_cast<char>(header.size() >> 8);
  return bytes.append(header).append(data);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto weights =
        muster::parse_safetensors(std::make_shared<muster::fuzz::MemoryFile>(bytes), "fuzz");
    // Reads every byte that a tensor says it has.
    std::byte sum{};
    for (const auto& weight : weights.tensors) {
      for (const std::byte byte : muster::row_major_bytes(weight).bytes) sum ^= byte;
    }
    [[maybe_unused]] static volatile std::byte sink;
    sink = sum;
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {file_of(R"({"__metadata__":{"format":"pt"},)"
                  R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                  R"("b\u00e9":{"dtype":"I16","shape":[2],"data_offsets":[8,12]}}  )",
                  "123456781234"),
          file_of(R"({"a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}})", "1"),
          file_of("{}      ", "")};
}

// Views of the file; what is kept of a tensor is less than eight times what the header says of it.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = 16384, .bytes_per_input_byte = 8};
}
