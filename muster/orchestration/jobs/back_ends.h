#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/jobs/back_end.h"

namespace muster::jobs {

/// A table of back ends by name. A program copies the built-in one and adds its own:
///
///   jobs::BackEnds back_ends = jobs::BackEnds::built_in();
///   back_ends.add(std::make_shared<PbsBackEnd>());
///   jobs::submit_job(back_ends, store, submission, environment);
class BackEnds {
 public:
  /// The back ends of muster: a file each, listed in CMakeLists.txt.
  static const BackEnds& built_in();

  /// Throws InvalidArgument for a name that is taken, or that cannot be a key of job.json: it has
  /// lower-case letters, digits, '_' and '-'.
  void add(std::shared_ptr<const BackEnd> back_end);
  bool has(std::string_view name) const;
  /// Throws InvalidArgument, listing the names, for an unknown one.
  const BackEnd& find(std::string_view name) const;
  const std::vector<std::shared_ptr<const BackEnd>>& all() const { return all_; }
  /// "local, slurm and kubernetes".
  std::string names_text() const;

 private:
  std::vector<std::shared_ptr<const BackEnd>> all_;
};

/// Puts a job into the store and hands it to its back end. Throws, and then there is no such job.
void submit_job(const BackEnds& back_ends, const JobStore& store, const Submission& submission,
                const std::vector<std::string>& environment);

/// Brings up to date those of the jobs that are not over; for those of this host it sees to it that
/// a supervisor runs. A back end that does not answer is named in a warning, and what was last seen
/// of its jobs stays. Returns whether all answered.
bool refresh_jobs(const BackEnds& back_ends, const JobStore& store, const std::vector<Job>& jobs);

/// BackEnd::cancel() of the job's back end.
Job cancel_job(const BackEnds& back_ends, const JobStore& store, const std::string& name,
               const std::string& reason);

/// Removes the record and the logs of a job, and what its back end still has of it. Throws
/// FailedPrecondition for a job that is not over.
void remove_job(const BackEnds& back_ends, const JobStore& store, const std::string& name);

}  // namespace muster::jobs
