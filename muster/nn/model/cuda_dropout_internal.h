#pragma once

#include <cstdint>

/// Seen by nvcc and by our C++ alike.
namespace muster::internal {

/// The draw of a layer: see RandomScope.
struct DropoutDraw {
  /// The scope's key in device memory, or null: then `scope` is it.
  const std::uint64_t* scope_on_device = nullptr;
  std::uint64_t scope = 0;
  std::uint64_t layer = 0;
  std::uint64_t number = 0;
};

/// Writes 1 for each value that is kept and 0 for each that is dropped, the same ones as on the
/// CPU, and gives that to the stream. False when CUDA refuses it.
bool cuda_dropout_mask(const DropoutDraw& draw, std::uint32_t dropped_of_65536, std::int64_t count,
                       std::uint8_t* mask, void* stream);

}  // namespace muster::internal
