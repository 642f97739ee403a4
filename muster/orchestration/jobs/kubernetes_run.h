#pragma once

#include <string>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// The label that the objects of one run alone have: KubernetesRun::run_id.
inline constexpr const char* kRunLabel = "muster-run";

/// Where in a Kubernetes cluster a job runs, and what was last seen of it: the block of the back
/// end "kubernetes".
struct KubernetesRun {
  /// Name of its objects: "census-1".
  std::string name{};
  /// The value of the label kRunLabel.
  std::string run_id{};
  /// "jobs", "jobset" or "tfjob".
  std::string kind = "jobs";
  /// The program that talks to the cluster; empty: MUSTER_KUBECTL, or kubectl.
  std::string kubectl{};
  /// Empty: those that kubectl would take.
  std::string context{};
  std::string name_space{};
  /// Whether a Service and a Secret of its own belong to it.
  bool has_service = false;
  bool has_secret = false;
  /// Whether all of its objects were made.
  bool is_submitted = false;
  /// Whether all tasks were up once.
  bool has_run = false;
  /// Why it does not continue, as the cluster says; empty if it does.
  std::string note{};

  bool operator==(const KubernetesRun&) const = default;
};

/// Throws DataLoss for a block that keep() has not written.
KubernetesRun kubernetes_run(const Job& job);
/// Makes it the job's block.
void keep(Job& job, const KubernetesRun& run);

}  // namespace muster::jobs
