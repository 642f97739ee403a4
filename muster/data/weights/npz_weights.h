#pragma once

#include <memory>
#include <vector>

#include "muster/data/weights/weights.h"

namespace muster {

/// Reads a file of numpy.savez or numpy.savez_compressed. Arrays that are stored as they are are
/// views of the file, in Fortran order too; compressed ones are unpacked each time they are read,
/// within the limits of DecompressionLimits. Arrays of strings are left out. Throws DataLoss for a
/// damaged file, naming the entry and the offset, Unimplemented for other types. `path` stands for
/// the file in messages.
Weights parse_npz_weights(std::shared_ptr<const MappedFile> file, const Path& path);

/// Writes what numpy.load reads. Throws InvalidArgument for a type that numpy lacks.
void write_npz_weights(const Path& path, const std::vector<Weight>& tensors);

}  // namespace muster
