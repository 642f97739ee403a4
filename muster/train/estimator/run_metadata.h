#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"
#include "muster/train/estimator/specs.h"

namespace muster {

/// The checkpoint that an export was made of, and its evaluation.
struct ExportNote {
  std::int64_t global_step = 0;
  EvaluationResult metrics{};
  /// The export's folder, a name under MODEL_DIR/export/EXPORTER. Not said in the export itself.
  std::string folder{};

  bool operator==(const ExportNote&) const = default;
};

/// Text for a file; numbers come back to the bit, NaN and infinities as well.
std::string to_json(const ExportNote& note);
/// Throws DataLoss, naming the field, for text that cannot be parsed. `name` stands for the file.
ExportNote parse_export_note(std::string_view json, std::string_view name);

/// MODEL_DIR/muster.json keeps what outlives checkpoints, also across restarts. Here: the export
/// that counts of each exporter, its best or its last one; nothing if there is none, or if the file
/// is damaged: its next writer says so and sets it aside. Throws DataLoss, naming the file, for one
/// of a later version.
std::optional<ExportNote> read_export_note(const Path& model_dir, const std::string& exporter);
/// Replaces the note in one step; everything else in the file stays, also what another process
/// writes at the same time.
void write_export_note(const Path& model_dir, const std::string& exporter, const ExportNote& note);

/// How far the run is that trains this model in a cluster. Its chief writes it; an evaluator ends
/// by it.
struct RunNote {
  /// When it began, in nanoseconds of the system's clock: tells runs apart.
  std::int64_t began_ns = 0;
  /// Nothing more is trained.
  bool ended = false;
  /// Then: the last step that is saved; 0 if none is.
  std::int64_t global_step = 0;

  bool operator==(const RunNote&) const = default;
};

/// The note of the run in the same file; nothing if no cluster has trained here.
std::optional<RunNote> read_run_note(const Path& model_dir);
void write_run_note(const Path& model_dir, const RunNote& note);

}  // namespace muster
