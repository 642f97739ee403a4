#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/git_state.h"
#include "muster/train/estimator/specs.h"

namespace muster {

/// Program, settings and results of a run. Kept in MODEL_DIR/muster.json, beside the notes of
/// run_metadata.h; `muster runs` reads it.
struct RunRecord {
  /// When it began, in nanoseconds of the system's clock: tells runs apart.
  std::int64_t began_ns = 0;
  std::string program{};
  std::vector<std::string> arguments{};
  std::string working_directory{};
  std::string host{};
  /// Git state of the folder that the program is in.
  std::optional<GitState> git{};
  std::uint64_t seed = 0;
  /// By library: "muster", "libtorch", "BLAS".
  std::map<std::string, std::string> versions{};
  /// RunConfig::hparams.
  std::map<std::string, std::string> hparams{};

  struct File {
    std::string path{};
    std::uint64_t size_bytes = 0;
    std::int64_t modified_ns = 0;
  };
  /// The files that arguments name.
  std::vector<File> files{};
};

/// Adds a record as the last one; of more than a hundred, the oldest goes.
void add_run_record(const Path& model_dir, const RunRecord& record);
/// Says of the record that began then that the run has ended, and at which step.
void end_run_record(const Path& model_dir, std::int64_t began_ns, std::int64_t global_step);
/// Notes what the last run has been evaluated with; does nothing where there is no record.
void note_run_metrics(const Path& model_dir, const EvaluationResult& metrics);

}  // namespace muster
