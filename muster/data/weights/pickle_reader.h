#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/checkpoint/data_type.h"

namespace muster {

/// A tensor as PyTorch's pickles describe one. Its elements are in a file of the archive.
struct PickledTensor {
  /// Path of keys to it, joined by dots: "state_dict.conv1.weight".
  std::string name{};
  DataType type = DataType::kFloat;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> strides{};
  /// Name of the storage's file below "data/", and the bytes that it has at least.
  std::string storage{};
  std::uint64_t storage_bytes = 0;
  /// Offset of the first element, in bytes.
  std::uint64_t first_byte = 0;
};

/// Tensors of a pickle, and the names of its other values.
struct PickledTensors {
  std::vector<PickledTensor> tensors{};
  /// Names of values that are no tensors, below which there are none: "epoch". Not those inside a
  /// list.
  std::vector<std::string> others{};
};

/// Recognises the pickles that torch.save, torch.jit.save and torch::save write, of protocols 2 to
/// 5. Nothing is run: classes and functions are names, those that make tensors and dictionaries are
/// known, what others make is a value that is no tensor. `offset` is the pickle's place in `file`,
/// for errors: DataLoss for what is no pickle, Unimplemented for kinds of tensors that are not read
/// (quantized, sparse), with what to do, and ResourceExhausted when values would take over
/// `most_bytes`. With a key, or several with '/' between them, the tensors below it; else those of
/// "state_dict", "model" and the like where the outermost dictionary has no tensors of its own, or
/// all there are.
PickledTensors read_pickled_tensors(std::string_view pickle, std::uint64_t offset,
                                    const std::string& file, std::uint64_t most_bytes,
                                    std::string_view key = {});

}  // namespace muster
