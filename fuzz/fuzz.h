#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// Defined by each fuzz/NAME_fuzz.cpp: feeds one parser with arbitrary bytes. It may throw
/// nothing but muster::Error, which the function catches itself; it never crashes, hangs or takes
/// much memory.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace muster::fuzz {

/// Small well-formed inputs that the mutation test starts from.
std::vector<std::string> seeds();

/// How much memory one input may take beyond `allowed_bytes_per_input_byte` times its size.
/// The mutation test counts what operator new hands out.
struct MemoryBound {
  std::size_t base_bytes = std::size_t{4} << 20;
  std::size_t bytes_per_input_byte = 64;
};
MemoryBound memory_bound();

/// Allows this input memory beyond the bound, because a header of it that was checked declares so
/// many bytes. The largest of an input counts, up to 64 MiB.
void allow_memory(std::uint64_t declared_bytes);

}  // namespace muster::fuzz
