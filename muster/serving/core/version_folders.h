#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/base/file_system.h"

namespace muster::serving {

/// The versions in a folder: numbers, with leading zeros or without, and where they are. A folder
/// that is itself a SavedModel is the version of its name's number, or 1. Throws NotFound when
/// there is no folder.
std::map<std::int64_t, Path> versions_in(const Path& base_path);

/// A text that changes when a file of a SavedModel does, as far as sizes and times show it. Empty
/// where the folder cannot be read.
std::string saved_model_fingerprint(const Path& dir);

}  // namespace muster::serving
