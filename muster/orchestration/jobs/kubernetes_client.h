#pragma once

#include <memory>
#include <string>

#include "muster/orchestration/jobs/back_end.h"

namespace muster::jobs {

/// The label that the objects of one run alone have: `job.kubernetes->run_id`.
inline constexpr const char* kRunLabel = "muster-run";

/// Jobs in a Kubernetes cluster, by way of kubectl. `manifests` are the objects of a job that is
/// submitted, each with the label kRunLabel; other calls need none.
///
/// If an object cannot be made, those that were are deleted, or else named in the error. A look at
/// one job reads the lines of its pods too, one at several does not; when a job has ended, all its
/// lines are kept and what would go on without it is deleted. Cancelling deletes the Jobs, whose
/// pods get SIGTERM and time to save; the Service by which tasks find each other goes when they are
/// gone.
///
/// What kubectl says becomes one error: NotFound without the program, Unavailable where the cluster
/// cannot be reached, PermissionDenied, AlreadyExists; its words are part of the message.
std::unique_ptr<BackEnd> make_kubernetes_back_end(std::string manifests);

}  // namespace muster::jobs
