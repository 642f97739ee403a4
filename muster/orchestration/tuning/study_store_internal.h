#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/orchestration/tuning/study.h"
#include "muster/orchestration/tuning/study_control.h"

namespace muster::tuning {

/// A study in its job-dir: JOB_DIR/study has what is known of it, JOB_DIR/N is the job-dir of trial
/// N (docs/formats/study.md).
class StudyStore {
 public:
  explicit StudyStore(Path job_dir);

  const Path& job_dir() const { return job_dir_; }
  /// The folder of the study's state.
  const Path& folder() const { return folder_; }
  bool exists() const;

  /// Begins a study, or continues the one of the folder; more trials may be asked for. Throws
  /// InvalidArgument where that is another study.
  void open(const StudyOptions& options, const HyperparameterSpec& spec) const;
  /// Throws NotFound where there is no study, and DataLoss. An algorithm that is not in the table
  /// keeps its name, so that studies of other programs can be shown.
  HyperparameterSpec spec() const;
  /// The setup that it was begun with. Throws NotFound where there is no study, and DataLoss.
  StudySetup setup() const;

  /// A request to stop, which the process that runs the study finds and removes.
  void request_stop() const;
  void remove_stop_request() const;
  bool is_stop_requested() const;

  /// The trials by number. Throws DataLoss, naming the file.
  std::vector<Trial> trials() const;
  void keep(const Trial& trial) const;

  /// The job-dir of a trial.
  Path folder_of(const Trial& trial) const;
  /// File that receives the output of the trial's program.
  Path log_of(const Trial& trial) const;
  /// Where the trial's program may write its metric.
  Path metric_file_of(const Trial& trial) const;
  /// Makes the trial's job-dir. That of a trial with a parent begins with a copy of the parent's.
  void make_folder(const Trial& trial, const HyperparameterSpec& spec) const;

 private:
  Path study_file() const;
  Path stop_file() const;
  Path trial_file(std::int64_t id) const;
  void copy_parent(const Trial& trial, const HyperparameterSpec& spec) const;

  Path job_dir_;
  Path folder_;
};

}  // namespace muster::tuning
