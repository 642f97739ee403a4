#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

/// File of a model folder that outlives its checkpoints.
inline constexpr const char* kNotesFile = "muster.json";

/// The records that training left in a model folder, oldest first: each a JSON object, see
/// docs/formats/model_dir.md. None where there is no such file; one that is damaged is reported on
/// the log and passed over.
std::vector<std::string> recorded_runs(const Path& folder);

}  // namespace muster
