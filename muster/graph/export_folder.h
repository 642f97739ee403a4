#pragma once

#include <vector>

#include "muster/base/file_system.h"

/// The folder that exporters write to and servers read from: SavedModels under numbers,
/// BASE/<number>/, where the largest number is the newest.
namespace muster::graph {

/// The exports of a folder, oldest first: numbers of any length. Other names, and folders that are
/// no SavedModel, are passed over. None if there is no such folder.
std::vector<Path> exports_in(const Path& base);

/// Where the next export goes: BASE/<unix seconds>, or one more than the largest number of a file
/// or folder that is there, so that the newest is the largest whatever the clock says. Makes BASE.
Path next_export(const Path& base);

/// Removes what exports left that did not come to their end: temp-*. Call it when nobody exports to
/// the folder.
void remove_unfinished_exports(const Path& base);

}  // namespace muster::graph
