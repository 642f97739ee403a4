#pragma once

#include "muster/base/file_system.h"
#include "muster/export/program.h"
#include "muster/features/features.h"
#include "muster/graph/saved_model.h"

namespace muster {

class Estimator;
class Head;
class Model;

/// A server hands in the features themselves, as tensors. The example tells their names, types and
/// shapes, and traces the model: two rows or more that are not alike.
struct RawReceiver {
  Features example{};
};

struct ExportOptions {
  /// A checkpoint prefix; empty takes the latest.
  Path checkpoint_path{};
};

/// Writes what the estimator predicts to BASE/<unix seconds>/, a complete SavedModel that appears
/// whole or not at all, and returns that folder; a number that is taken gives way to the next.
/// There is always a serving_default. Signatures that classify or regress need one string input, so
/// with this receiver they are left out, with a line in the log.
///
/// Throws NotFound when there is no checkpoint; what exporting::trace and exporting::translate
/// throw for a model that cannot be exported.
Path export_saved_model(const Estimator& estimator, const Path& base, const RawReceiver& receiver,
                        const ExportOptions& options = {});

namespace exporting {

/// The same for a model with the values it has now: writes the SavedModel `dir`. Throws
/// AlreadyExists if the name is taken.
void write_model(Model& model, const Head* head, const RawReceiver& receiver, const Path& dir);

}  // namespace exporting

}  // namespace muster
