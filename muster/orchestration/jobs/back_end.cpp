#include "muster/orchestration/jobs/back_end.h"

#include <map>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/orchestration/jobs/kubernetes_client.h"
#include "muster/orchestration/jobs/slurm.h"

namespace muster::jobs {

void BackEnd::remove(const JobStore& /*store*/, const Job& /*job*/) const {}

std::unique_ptr<BackEnd> make_back_end(const std::string& name) {
  if (name == "kubernetes") return make_kubernetes_back_end("");
  if (name == "slurm") return make_slurm_back_end();
  throw InvalidArgument("there is no back end \"{}\" in this version", name);
}

void submit_to(const BackEnd& back_end, const JobStore& store, const Submission& submission,
               const std::vector<std::string>& environment) {
  store.create(submission.job, environment);
  const std::string& name = submission.job.job_id;
  try {
    back_end.submit(store, submission);
  } catch (...) {
    // Nobody else has it: a job that is over may be removed.
    store.change(name, [](Job& job) { job.state = State::kFailed; });
    store.remove(name);
    throw;
  }
}

bool refresh_jobs(const JobStore& store, const std::vector<Job>& jobs) {
  std::map<std::string, std::vector<Job>> open;
  for (const Job& job : jobs) {
    if (!is_final(job.state) && !job.is_local()) open[job.back_end].push_back(job);
  }
  bool has_answered = true;
  for (const auto& [name, of_one] : open) {
    try {
      make_back_end(name)->refresh(store, of_one);
    } catch (const Error& error) {
      has_answered = false;
      log::warning("the states of jobs of {} are as they were last seen: {}", name, error.what());
    }
  }
  return has_answered;
}

Job cancel_remote_job(const JobStore& store, const std::string& name, const std::string& reason) {
  refresh_jobs(store, {store.read(name)});
  const Job job = store.change(name, [&](Job& changed) {
    if (is_final(changed.state) || changed.state == State::kCancelling) return;
    changed.state = State::kCancelling;
    changed.error_message = reason;
  });
  if (is_final(job.state)) return job;
  make_back_end(job.back_end)->cancel(store, job);
  refresh_jobs(store, {job});
  return store.read(name);
}

}  // namespace muster::jobs
