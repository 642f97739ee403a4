#pragma once

#include <functional>
#include <vector>

#include "muster/base/file_system.h"

/// The folder that exporters write to and servers read from: SavedModels under numbers,
/// BASE/<number>/, where the largest number is the newest.
namespace muster::graph {

/// The exports of a folder, oldest first: numbers of any length. Other names, such as those of
/// exports being written, and folders that are no SavedModel are passed over. None if there is no
/// such folder.
std::vector<Path> exports_in(const Path& base);

/// The last of them; empty when there is none.
Path latest_export(const Path& base);

/// Makes the next export under BASE, which is created if need be: calls `write` with
/// BASE/<unix seconds>, or one more than the largest number that is there, so that the newest is
/// the largest whatever the clock says; again with the next number when another process takes it in
/// between (`write` throws AlreadyExists). Returns the folder that was written.
Path write_numbered_export(const Path& base, const std::function<void(const Path& dir)>& write);

/// Removes an export so that a server sees a whole one or none.
void remove_export(const Path& dir);

/// Removes leftovers of exports that did not finish: temp-*, and in an object store numbers
/// without a model. Call it when no process exports to the folder.
void remove_unfinished_exports(const Path& base);

}  // namespace muster::graph
