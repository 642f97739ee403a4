#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/submission.h"

namespace muster::jobs {

/// A flag of `muster jobs submit` that belongs to a back end.
struct BackEndFlag {
  /// "--image".
  std::string name{};
  /// For --help.
  std::string description{};
  /// For --help; the back end applies it.
  std::string default_value{};
  bool is_repeatable = false;
  /// It takes no value.
  bool is_switch = false;
  /// With another back end it has no effect, instead of being an error.
  bool is_ignored_elsewhere = false;
};

/// Features of a back end that commands and pages ask for.
struct BackEndAbilities {
  /// Jobs run on this host: they wait until it has room, and ask for no more than it has.
  bool is_bound_by_host = false;
  /// The job's record is kept up to date by the processes that run it: nothing has to be asked.
  bool keeps_record = false;
  /// Programs and paths are those of a container image, not of this host.
  bool runs_image = false;
  /// A job can run a copy of its program (--keep-program).
  bool keeps_program = false;
  /// A job can be submitted again from its record alone.
  bool resubmits = false;
  /// The end of a job can be told of (--notify).
  bool notifies = false;
  /// Trials of a study can be job steps of one allocation.
  bool has_job_steps = false;
};

/// A system that runs jobs: this host, Slurm, Kubernetes, or one that a program adds to a BackEnds.
/// The store holds what a job is and what was last seen of it; the system is asked when a command
/// looks at the job. What the system calls it is in `Job::block`. Functions may be called from
/// several processes at once.
class BackEnd {
 public:
  virtual ~BackEnd() = default;

  /// The value of --backend, and of `backEnd` in job.json.
  virtual std::string name() const = 0;
  /// For --help, after the name: "a cluster that kubectl talks to".
  virtual std::string summary() const = 0;
  virtual BackEndAbilities abilities() const { return {}; }
  virtual std::vector<BackEndFlag> flags() const { return {}; }

  /// Completes a submission: reads its flags, fills in the job's block, adds warnings for fields
  /// that have no meaning here. Throws InvalidArgument, naming the flag.
  virtual void prepare(Submission& submission) const;

  /// The text to print instead of submitting the job (--dry-run); nothing where the flags do
  /// not ask for one.
  virtual std::optional<std::string> preview(const Submission& submission) const;

  /// Hands over a job that is in the store, and keeps in its block what the system calls it.
  /// Throws, and then the system has nothing of it.
  virtual void submit(const JobStore& store, const Submission& submission) const = 0;

  /// Refreshes these jobs of its own, all of them unfinished, and writes their states to the store;
  /// the lines of their tasks too, where the system has them elsewhere. Throws Unavailable when the
  /// system does not answer.
  virtual void refresh(const JobStore& store, const std::vector<Job>& jobs) const = 0;

  /// Ends a job after a last checkpoint: it is CANCELLING until its tasks have saved and ended.
  /// `reason` becomes its error message. A job that is over stays as it is. Returns the job as it
  /// is then. Without an override the record is changed, and end() asks the system.
  virtual Job cancel(const JobStore& store, const std::string& name,
                     const std::string& reason) const;

  /// Removes what the system still has of a job that is over; its record stays.
  virtual void remove(const JobStore& store, const Job& job) const;

  /// Why a job does not continue, as the system says; empty if there is nothing to say.
  virtual std::string note(const Job& job) const;

 protected:
  /// Asks the system to end a job that is CANCELLING. May be called again for the same job.
  virtual void end(const JobStore& store, const Job& job) const = 0;
};

/// The field of a job's block with this name, if it is a text; else an empty one. Throws DataLoss
/// for a block that is no JSON object.
std::string block_text(const Job& job, const std::string& field);
/// Sets it.
void set_block_text(Job& job, const std::string& field, const std::string& value);

}  // namespace muster::jobs
