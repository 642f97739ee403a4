#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/export/serving_input.h"

namespace muster {

class Estimator;
class Head;
class Model;

struct ExportOptions {
  /// A checkpoint prefix; empty takes the latest.
  Path checkpoint_path{};
  /// Files to go along: their names under assets.extra/, and where they are now.
  std::vector<std::pair<std::string, Path>> assets_extra{};
  /// Writes saved_model.pbtxt, for people to read, instead of saved_model.pb.
  bool as_text = false;
};

/// Writes what the estimator predicts to BASE/<unix seconds>/, a complete SavedModel that appears
/// whole or not at all, and returns that folder; where there are larger numbers, it is one more.
/// There is always a serving_default. Signatures that classify or regress need one string input:
/// with another they are skipped, with a line in the log.
///
/// Throws NotFound when there is no checkpoint or no such file to go along; what exporting::trace
/// and exporting::translate throw for a model that cannot be exported.
Path export_saved_model(const Estimator& estimator, const Path& base, const ServingInput& input,
                        const ExportOptions& options = {});

namespace exporting {

/// The same for a model with the values it has now: writes the SavedModel `dir`. Throws
/// AlreadyExists if the name is taken.
void write_model(Model& model, const Head* head, const ServingInput& input, const Path& dir,
                 const ExportOptions& options = {});

}  // namespace exporting

}  // namespace muster
