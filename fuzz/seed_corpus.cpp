// Linked into every libFuzzer target: writes the target's seeds into the folder that
// MUSTER_FUZZ_SEEDS names, so that fuzzing starts from well-formed inputs.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/fuzz.h"

// libFuzzer has limits of its own.
void muster::fuzz::allow_memory(std::uint64_t /*declared_bytes*/) {}

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const char* folder = std::getenv("MUSTER_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : muster::fuzz::seeds()) {
    std::ofstream file(std::filesystem::path(folder) / ("seed-" + std::to_string(number++)),
                       std::ios::binary);
    file.write(seed.data(), static_cast<std::streamsize>(seed.size()));
  }
  return 0;
}
