#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"

namespace muster::cli {

/// The SavedModel that a user means by a folder: the folder itself, or the newest of its numbered
/// exports. Throws NotFound, and says where the export of a training's folder is.
Path find_saved_model(const Path& dir);

/// The tags of --tag_set: "serve,gpu" are two, "" is the graph without tags.
std::vector<std::string> tags_of(const std::string& tag_set);

}  // namespace muster::cli
