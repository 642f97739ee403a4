#pragma once

#include <optional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/console/run_store.h"

namespace muster::console {

/// A version that a server answers with, as it lies in folders that the console shows.
struct ServedModel {
  /// The SavedModel.
  Path folder{};
  /// The record of the run that it comes from, a JSON object; empty where none is known.
  std::string record{};
};

/// Finds a version of a server: MODELS_DIR/MODEL/VERSION, or the one export below the runs that has
/// this number. Nothing where there is none, or where several runs have such an export.
std::optional<ServedModel> find_served_model(const Path& models_dir, const RunStore& runs,
                                             const std::string& model, const std::string& version);

}  // namespace muster::console
