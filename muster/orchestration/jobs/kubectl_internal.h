#pragma once

#include <string>
#include <vector>

#include "muster/orchestration/jobs/kubernetes_run.h"
#include "muster/orchestration/process/captured_process.h"

namespace muster::jobs {

using Words = std::vector<std::string>;

/// Runs kubectl for the run's cluster. Throws NotFound without the program, and Unavailable where
/// it takes too long.
process::CapturedOutput call_kubectl(const KubernetesRun& run, const Words& words,
                                     const std::string& input = "");

/// The same, for what it prints. Throws as throw_kubectl() where it fails.
std::string kubectl(const KubernetesRun& run, const std::string& doing, const Words& words,
                    const std::string& input = "");

/// Throws what kubectl said as one error, its words in the message: Unavailable where the cluster
/// cannot be reached, PermissionDenied, AlreadyExists, NotFound, or FailedPrecondition.
[[noreturn]] void throw_kubectl(const process::CapturedOutput& output, const std::string& doing);

/// Whether a failed `create` has made no object.
bool has_reached_nothing(const process::CapturedOutput& output);
/// Whether `logs` failed because the pod has not started, or has gone with its node.
bool has_no_log(const process::CapturedOutput& output);

/// "jobs.batch".
std::string job_resource(const KubernetesRun& run);
/// Resources that tasks need until they have saved: "services,secrets"; empty for a run that has
/// neither.
std::string helper_resources(const KubernetesRun& run);
/// The option that selects the objects of this run alone.
std::string selector_of(const KubernetesRun& run);

void delete_resources(const KubernetesRun& run, const std::string& resources,
                      const std::string& doing);
void delete_all(const KubernetesRun& run, const std::string& doing);
/// The command by which a user does the same.
std::string delete_command(const KubernetesRun& run);

}  // namespace muster::jobs
