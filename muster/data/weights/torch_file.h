#pragma once

#include <memory>
#include <vector>

#include "muster/data/weights/weights.h"

namespace muster {

/// Reads a file that torch.save, torch::save or torch.jit.save wrote: a ZIP archive of "data.pkl"
/// and storages. No pickle is run. Tensors are views of the file, strided and shared as they were
/// saved. Throws DataLoss for a damaged one, naming the offset and the tensor; Unimplemented for
/// files of PyTorch before 1.6 and for tensors that are not strided. `path` stands for the file in
/// messages.
Weights parse_torch_file(std::shared_ptr<const MappedFile> file, const Path& path,
                         const OpenWeightsOptions& options = {});

/// Writes a dictionary that torch.load reads, and torch::pickle_load in C++. Tensors that share
/// elements go on doing so.
void write_torch_file(const Path& path, const std::vector<Weight>& tensors);

}  // namespace muster
