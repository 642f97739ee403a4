// Files of torch.save and torch::save: ZIP archives whose pickles are recognised.

#include <algorithm>
#include <memory>
#include <string_view>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "fuzz/torch_files.h"
#include "muster/base/error.h"
#include "muster/data/weights/torch_file.h"

namespace {

// Small, so that tensors that repeat their elements are refused before they take time.
constexpr std::uint64_t kMostExpanded = 65536;

void read_all(const muster::Weights& weights) {
  std::byte sum{};
  for (const auto& weight : weights.tensors) {
    for (const std::byte byte : muster::row_major_bytes(weight).bytes) sum ^= byte;
  }
  [[maybe_unused]] static volatile std::byte sink;
  sink = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    muster::OpenWeightsOptions options{.verify_checksums = false};
    options.limits.expanded_bytes = kMostExpanded;
    read_all(muster::parse_torch_file(std::make_shared<muster::fuzz::MemoryFile>(bytes), "fuzz",
                                      options));
  } catch (const muster::Error&) {
    // Refused, as it should be.
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() { return torch_files(); }

// Eight times the file, an expanded tensor, and what a small archive costs anyway.
muster::fuzz::MemoryBound muster::fuzz::memory_bound() {
  return {.base_bytes = kMostExpanded + (std::size_t{32} << 10), .bytes_per_input_byte = 8};
}
