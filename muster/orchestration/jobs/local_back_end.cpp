// Jobs of this host: its supervisor starts them.
#include <memory>

#include "muster/orchestration/jobs/back_ends.h"
#include "muster/orchestration/jobs/job_runner.h"
#include "muster/orchestration/jobs/supervisor.h"

namespace muster::jobs {
namespace {

class LocalBackEnd final : public BackEnd {
 public:
  std::string name() const override { return kLocalBackEnd; }
  std::string summary() const override { return "this host"; }
  BackEndAbilities abilities() const override {
    return {.is_bound_by_host = true,
            .keeps_record = true,
            .keeps_program = true,
            .resubmits = true,
            .notifies = true};
  }

  void submit(const JobStore& store, const Submission& /*submission*/) const override {
    start_supervisor(store);
  }

  void refresh(const JobStore& store, const std::vector<Job>& /*jobs*/) const override {
    start_supervisor(store);
  }

  // One that waits is over at once, and asks nothing of the process that has yet to start.
  Job cancel(const JobStore& store, const std::string& name,
             const std::string& reason) const override {
    Job job = cancel_local_job(store, name, reason);
    if (!is_final(job.state)) start_supervisor(store);
    return job;
  }

 protected:
  void end(const JobStore& store, const Job& job) const override {
    ask_runner_to_end(store, job.job_id);
  }

 private:
  static void start_supervisor(const JobStore& store) {
    if (!store.supervise_command().empty()) ensure_supervisor(store, store.supervise_command());
  }
};

}  // namespace

std::shared_ptr<const BackEnd> local_back_end() { return std::make_shared<LocalBackEnd>(); }

}  // namespace muster::jobs
