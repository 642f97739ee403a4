#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/machines.h"

namespace muster::cli {

/// The flags of a job, or of a server, that Kubernetes runs.
struct KubernetesFlags {
  std::string image{};
  std::string kind = "jobs";
  std::vector<std::string> volumes{};
  std::vector<std::string> variables{};
  std::string secret_name{};
  std::string service_account{};
  std::string gpu_resource = "nvidia.com/gpu";
  bool is_dry_run = false;
  std::string kubectl{};
  std::string context{};
  std::string name_space{};
};

void add_kubernetes_flags(CLI::App& command, KubernetesFlags& flags);

/// Prints the manifests of a job whose program is in the image.
void print_manifests(const jobs::Submission& submission, const KubernetesFlags& flags);

/// Has the cluster run the job, which is in the store then. Throws, and then nothing is anywhere.
void submit_to_cluster(const jobs::JobStore& store, jobs::Submission submission,
                       const KubernetesFlags& flags);

}  // namespace muster::cli
