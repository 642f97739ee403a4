#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/orchestration/jobs/job.h"

namespace muster::jobs {

/// The objects that a Kubernetes cluster runs a job as.
enum class ManifestKind {
  /// An Indexed Job for each role and one headless Service: what every cluster has.
  kJobs,
  /// One JobSet of them, where its controller is installed.
  kJobSet,
  /// Kubeflow's TFJob, whose operator writes TF_CONFIG.
  kTfJob,
};

/// "jobs", "jobset" or "tfjob". Throws InvalidArgument.
ManifestKind parse_manifest_kind(std::string_view name);

/// Tasks that are alike.
struct KubernetesRole {
  /// As TF_CONFIG calls it: "master", "worker".
  std::string type{};
  std::int64_t count = 1;
  /// Resources that each task requests.
  Resources each{};
};

/// A persistent volume claim, and the path at which containers mount it.
struct KubernetesVolume {
  std::string claim{};
  std::string mount_path{};
};

/// Settings that containers of training and of serving have in common.
struct KubernetesPod {
  std::string image{};
  std::map<std::string, std::string> labels{};
  std::map<std::string, std::string> environment{};
  /// Secrets whose keys are variables of every container, such as those of a store.
  std::vector<std::string> environment_secrets{};
  std::vector<KubernetesVolume> volumes{};
  std::string service_account{};
  /// The resource that is a GPU there.
  std::string gpu_resource = "nvidia.com/gpu";
};

struct KubernetesJob {
  /// The job's; the cluster's objects have kubernetes_name() of it.
  std::string job_id{};
  /// The chief's first. One role of one task is a program without a cluster.
  std::vector<KubernetesRole> roles{};
  /// The program inside the image, and its arguments.
  std::vector<std::string> command{};
  KubernetesPod pod{};
  /// Names the Secret whose key `secret` proves that tasks belong to the run. Empty: `secret` is
  /// written into a Secret of the job's own.
  std::string secret_name{};
  std::string secret{};
  std::optional<std::chrono::seconds> max_running_time{};
  /// How long a task may take to save when it is asked to end.
  std::chrono::seconds grace{120};
  /// How often one task is retried.
  std::int64_t most_restarts = 3;
  ManifestKind kind = ManifestKind::kJobs;
};

/// A job's name as Kubernetes takes it: "census_1" is "census-1". Throws InvalidArgument if too
/// little room is left for the names of its tasks.
std::string kubernetes_name(std::string_view job_id);

/// The objects, in the order in which they are to be made, as one YAML text of several documents.
/// Throws InvalidArgument, naming the field, for what Kubernetes would refuse.
std::string kubernetes_manifests(const KubernetesJob& job);

/// A model to be served.
struct KubernetesServer {
  std::string name{};
  KubernetesPod pod{};
  /// Where containers see the folder of its versions: a path, or s3://, gs:// or hdfs://.
  std::string model_base_path{};
  Resources each{};
  std::int64_t min_replicas = 1;
  std::int64_t max_replicas = 4;
  /// How long requests may wait in the queues of a replica, on the average, before there are more.
  std::chrono::milliseconds target_queue_time{20};
  /// For KServe: requests that one replica has at a time before another is started.
  std::int64_t target_requests = 16;
  /// An InferenceService of KServe instead of a Deployment and what belongs to it.
  bool is_kserve = false;
};

/// Rules of Prometheus' adapter (`prometheus-adapter`), by which the cluster has the metric that
/// the autoscaler of a server follows: its configuration file, as YAML.
std::string prometheus_adapter_rules();

/// Deployment, Service, HorizontalPodAutoscaler and PodDisruptionBudget, or an InferenceService.
/// Throws as kubernetes_manifests() of a job.
std::string kubernetes_manifests(const KubernetesServer& server);

}  // namespace muster::jobs
