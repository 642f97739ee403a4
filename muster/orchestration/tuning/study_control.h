#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/file_system.h"

/// Studies that other processes run: what they were begun with, and a request to stop.
namespace muster::tuning {

/// The setup that a study was begun with.
struct StudySetup {
  /// The block `hyperparameters`, as JSON.
  std::string hyperparameters{};
  /// The program and its arguments.
  std::vector<std::string> command{};
  std::uint64_t seed = 0;
  /// Empty for a study of an earlier version of muster.
  Path working_directory{};
};

/// Throws NotFound where there is no study, and DataLoss.
StudySetup read_study_setup(const Path& job_dir);

/// Whether a process of this host runs trials of the study now.
bool is_study_running(const Path& job_dir);

/// Asks the process that runs the study to stop: it asks its trials to save and exit, as on
/// SIGTERM, and the same command resumes the study. Throws FailedPrecondition where no process of
/// this host runs it.
void request_study_stop(const Path& job_dir);

}  // namespace muster::tuning
