#include "muster/orchestration/tuning/study_control.h"

#include "muster/base/error.h"
#include "muster/base/folder_claim.h"
#include "muster/orchestration/tuning/study_store_internal.h"

namespace muster::tuning {

StudySetup read_study_setup(const Path& job_dir) { return StudyStore(job_dir).setup(); }

bool is_study_running(const Path& job_dir) { return is_claimed(StudyStore(job_dir).folder()); }

void request_study_stop(const Path& job_dir) {
  if (!is_study_running(job_dir)) {
    throw FailedPrecondition("no process of this host runs the study in {}", job_dir.string());
  }
  StudyStore(job_dir).request_stop();
}

}  // namespace muster::tuning
