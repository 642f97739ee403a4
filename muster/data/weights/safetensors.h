#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/data/weights/weights.h"

namespace muster {

/// Reads a safetensors file: 8 bytes length of the header, the header in JSON, the elements.
/// Tensors are views of the file. Throws DataLoss for a damaged one, naming the offset and the
/// tensor: one whose bytes are not those of its type and shape, overlap with another's or leave a
/// gap. `path` stands for the file in messages.
Weights parse_safetensors(std::shared_ptr<const MappedFile> file, const Path& path,
                          const WeightLimits& limits = {});

void write_safetensors(const Path& path, const std::vector<Weight>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace muster
