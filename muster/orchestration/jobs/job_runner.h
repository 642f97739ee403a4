#pragma once

#include <functional>
#include <string>

#include "muster/orchestration/jobs/job_store.h"

namespace muster::jobs {

/// Runs one job that the supervisor has chosen to its end, as `muster launch` would, and keeps in
/// job.json what becomes of it. Only the process that gets run.lock does anything: a job never runs
/// twice. Tasks that a killed predecessor left are ended first; the program resumes from its
/// checkpoints.
///
/// Call it in a process of its own: it takes over environment and signals. SIGTERM ends the tasks
/// after a last checkpoint. `on_end` is called with the job when it is over, by the process that
/// ran it.
void run_job(const JobStore& store, const std::string& name,
             const std::function<void(const Job&)>& on_end = {});

/// Asks a job to end: one that waits is CANCELLED at once, one that runs is CANCELLING until its
/// tasks have saved and ended. `reason` becomes its error message. A job that is over stays as it
/// is. Returns it as it is then.
Job cancel_local_job(const JobStore& store, const std::string& name, const std::string& reason);

/// Signals the process that runs a job, if there is one, which then ends the tasks after a last
/// checkpoint. A second signal would kill them.
void ask_runner_to_end(const JobStore& store, const std::string& name);

/// "The replica worker 1 was killed by signal 9."
std::string failure_text(const std::string& type, std::int64_t index, int status);

/// The folder of the logs of an attempt, counted from 1.
Path attempt_folder(const JobStore& store, const std::string& name, std::int64_t attempt);

}  // namespace muster::jobs
