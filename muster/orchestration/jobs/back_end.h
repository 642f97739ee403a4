#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::jobs {

/// A system that runs jobs in the place of this host, such as Slurm. The folder of jobs holds what
/// a job is and what was last seen of it; the system is asked when somebody looks.
class BackEnd {
 public:
  virtual ~BackEnd() = default;

  /// Hands over a job that is in the store, and keeps there what the system calls it. Throws, and
  /// then the system has nothing of it.
  virtual void submit(const JobStore& store, const Submission& submission) const = 0;

  /// Asks what became of these jobs of its own, none of which is over, and keeps that in the store;
  /// the lines of their tasks too, where the system has them elsewhere. Throws Unavailable when the
  /// system does not answer.
  virtual void refresh(const JobStore& store, const std::vector<Job>& jobs) const = 0;

  /// Asks the system to end a job after a last checkpoint; the store says CANCELLING. May be called
  /// again.
  virtual void cancel(const JobStore& store, const Job& job) const = 0;

  /// Removes what the system still has of a job that is over; its record stays. For those that
  /// keep nothing there is nothing to do.
  virtual void remove(const JobStore& store, const Job& job) const;
};

/// By name: "slurm", "kubernetes". Throws InvalidArgument for one that there is not.
std::unique_ptr<BackEnd> make_back_end(const std::string& name);

/// Puts a job of a back end into the store and hands it over. Throws, and then there is no such
/// job.
void submit_to(const BackEnd& back_end, const JobStore& store, const Submission& submission,
               const std::vector<std::string>& environment);

/// Brings up to date those of the jobs that are not over and that a back end runs. One that does
/// not answer is named in a warning: what was last seen of its jobs stays. Whether all answered.
bool refresh_jobs(const JobStore& store, const std::vector<Job>& jobs);

/// Asks a back end's job to end: it is CANCELLING until its tasks have saved and ended. `reason`
/// becomes its error message. A job that is over stays as it is. Returns it as it is then.
Job cancel_remote_job(const JobStore& store, const std::string& name, const std::string& reason);

}  // namespace muster::jobs
