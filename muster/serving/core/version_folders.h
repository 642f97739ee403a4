#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::serving {

/// The versions in a folder: numbers, with leading zeros or without, and where they are. A path
/// that is itself a version (is_version()) is that of its name's number, or 1. Throws NotFound when
/// there is no such path.
std::map<std::int64_t, Path> versions_in(const Path& base_path);

/// A text that changes when a file of a version does, as far as sizes and times show it. Empty
/// where the version cannot be read.
std::string version_fingerprint(const Path& dir);

/// The same of what a loaded version is made of: without the requests that it was warmed up with.
std::string without_warm_up(std::string_view fingerprint);

}  // namespace muster::serving
