#pragma once

#include <string_view>

#include "muster/data/records/compression.h"
#include "muster/data/records/npy.h"

namespace muster {

/// One array of a file that numpy.savez or numpy.savez_compressed wrote: a ZIP archive of .npy
/// files. Without a name the archive's only one. Throws NotFound when there is no such file or
/// array, with the names there are; InvalidArgument when a name is needed; DataLoss for a damaged
/// archive; ResourceExhausted beyond the limits; as read_npy does for the array. Memory is taken
/// only for bytes that are there.
NpyArray read_npz(const Path& path, std::string_view name = {},
                  const DecompressionLimits& limits = {});
/// The same for the bytes of a file; `file` stands for it in messages.
NpyArray parse_npz(std::string_view bytes, std::string_view file, std::string_view name = {},
                   const DecompressionLimits& limits = {});

}  // namespace muster
