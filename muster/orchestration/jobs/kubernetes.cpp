#include "muster/orchestration/jobs/kubernetes.h"

#include <fmt/format.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/kubernetes_parts_internal.h"

namespace muster::jobs {
namespace {

constexpr int kPort = 2222;
constexpr int kKeptSeconds = 86'400;
// A pod is NAME-ROLE-INDEX, or in a JobSet NAME-ROLE-0-INDEX, of 63 characters at most.
constexpr std::size_t kMostNameLength = 40;
constexpr const char* kContainer = "program";
// The operator reads the exit status of a container of this name alone.
constexpr const char* kTfJobContainer = "tensorflow";
constexpr const char* kIndexVariable = "MUSTER_TASK_INDEX";
constexpr const char* kIndexAnnotation = "batch.kubernetes.io/job-completion-index";

class ManifestWriter {
 public:
  explicit ManifestWriter(const KubernetesJob& job)
      : job_(job), name_(kubernetes_name(job.job_id)) {
    check_pod(job.pod);
    if (job.roles.empty() || job.command.empty()) {
      throw InvalidArgument("job {} has no tasks or no program", job.job_id);
    }
  }

  std::vector<Manifest> documents() const {
    std::vector<Manifest> all;
    if (is_cluster() && job_.secret_name.empty()) all.push_back(secret());
    switch (job_.kind) {
      case ManifestKind::kJobs:
        if (is_cluster()) all.push_back(service());
        for (const KubernetesRole& role : job_.roles) all.push_back(role_job(role));
        break;
      case ManifestKind::kJobSet:
        all.push_back(job_set());
        break;
      case ManifestKind::kTfJob:
        all.push_back(tf_job());
        break;
    }
    return all;
  }

 private:
  bool is_cluster() const { return job_.roles.size() > 1 || job_.roles.front().count > 1; }
  bool is_tf_job() const { return job_.kind == ManifestKind::kTfJob; }
  std::string secret_name() const {
    return job_.secret_name.empty() ? name_ + "-secret" : job_.secret_name;
  }

  Manifest role_labels(const KubernetesRole& role) const {
    Manifest all = labels_of(job_.pod, name_);
    all["app.kubernetes.io/component"] = role.type;
    return all;
  }
  Manifest object(const char* version, const char* kind, const std::string& name) const {
    return object_of(version, kind, name, labels_of(job_.pod, name_));
  }

  Manifest secret() const {
    Manifest secret = object("v1", "Secret", secret_name());
    secret["type"] = "Opaque";
    secret["stringData"] = {{"secret", job_.secret}};
    return secret;
  }

  // For all roles: a task is found by its pod's name in it, and before it is ready.
  Manifest service() const {
    Manifest service = object("v1", "Service", name_);
    service["spec"] = {{"clusterIP", "None"},
                       {"publishNotReadyAddresses", true},
                       {"selector", {{"app.kubernetes.io/instance", name_}}},
                       {"ports", Manifest::array({{{"name", "tasks"}, {"port", kPort}}})}};
    return service;
  }

  Manifest role_job(const KubernetesRole& role) const {
    Manifest object_of_role = object("batch/v1", "Job", name_ + "-" + role.type);
    object_of_role["metadata"]["labels"] = role_labels(role);
    object_of_role["spec"] = job_spec(role);
    object_of_role["spec"]["ttlSecondsAfterFinished"] = kKeptSeconds;
    return object_of_role;
  }

  Manifest job_spec(const KubernetesRole& role) const {
    Manifest spec = {{"completionMode", "Indexed"},
                     {"completions", role.count},
                     {"parallelism", role.count},
                     {"backoffLimitPerIndex", job_.most_restarts},
                     {"maxFailedIndexes", 0},
                     // A second task of one index would be refused by the others.
                     {"podReplacementPolicy", "Failed"},
                     {"podFailurePolicy", {{"rules", failure_rules()}}}};
    if (job_.max_running_time) spec["activeDeadlineSeconds"] = job_.max_running_time->count();
    spec["template"] = pod(role);
    return spec;
  }

  // The first rule that fits decides; a status that none names counts as a failure of its index,
  // which is retried: 75, and what signals leave.
  static Manifest failure_rules() {
    const auto exit_codes = [](std::vector<int> values) {
      return Manifest{{"containerName", kContainer}, {"operator", "In"}, {"values", values}};
    };
    return Manifest::array({{{"action", "Ignore"},
                             {"onPodConditions", Manifest::array({{{"type", "DisruptionTarget"},
                                                                   {"status", "True"}}})}},
                            {{"action", "FailJob"}, {"onExitCodes", exit_codes({1, 2, 126, 127})}},
                            {{"action", "FailIndex"}, {"onExitCodes", exit_codes({137})}}});
  }

  Manifest pod(const KubernetesRole& role) const {
    Manifest spec = pod_spec_of(job_.pod, container(role));
    if (!is_tf_job()) spec["restartPolicy"] = "Never";
    if (job_.kind == ManifestKind::kJobs && is_cluster()) spec["subdomain"] = name_;
    spec["terminationGracePeriodSeconds"] = job_.grace.count();
    return {{"metadata", {{"labels", role_labels(role)}}}, {"spec", spec}};
  }

  Manifest container(const KubernetesRole& role) const {
    Manifest container =
        container_of(job_.pod, is_tf_job() ? kTfJobContainer : kContainer, role.each);
    container["command"] = job_.command;
    if (is_cluster()) {
      container["ports"] = Manifest::array(
          {{{"name", is_tf_job() ? "tfjob-port" : "tasks"}, {"containerPort", kPort}}});
    }
    for (Manifest& variable : own_variables(role)) container["env"].push_back(std::move(variable));
    return container;
  }

  std::vector<Manifest> own_variables(const KubernetesRole& role) const {
    std::vector<Manifest> variables;
    if (is_tf_job()) variables.push_back(variable_of("MUSTER_RETRY_STATUS", "143"));
    if (!is_cluster()) return variables;
    variables.push_back(
        {{"name", "MUSTER_SECRET"},
         {"valueFrom", {{"secretKeyRef", {{"name", secret_name()}, {"key", "secret"}}}}}});
    if (is_tf_job()) return variables;
    // $(...) stands for variables that are listed before it alone, so the index has a variable of
    // our own.
    variables.push_back(
        {{"name", kIndexVariable},
         {"valueFrom",
          {{"fieldRef",
            {{"fieldPath", fmt::format("metadata.annotations['{}']", kIndexAnnotation)}}}}}});
    variables.push_back(variable_of("TF_CONFIG", tf_config(role)));
    return variables;
  }

  std::string tf_config(const KubernetesRole& own) const {
    Manifest cluster;
    for (const KubernetesRole& role : job_.roles) {
      Manifest addresses = Manifest::array();
      for (std::int64_t i = 0; i < role.count; ++i) addresses.push_back(address(role, i));
      // An evaluator is no part of the cluster that trains.
      if (role.type != "evaluator") cluster[role.type] = addresses;
    }
    return Manifest{{"cluster", cluster},
                    {"task", {{"type", own.type}, {"index", fmt::format("$({})", kIndexVariable)}}}}
        .dump();
  }

  std::string address(const KubernetesRole& role, std::int64_t index) const {
    const char* const between = job_.kind == ManifestKind::kJobSet ? "-0" : "";
    return fmt::format("{0}-{1}{2}-{3}.{0}:{4}", name_, role.type, between, index, kPort);
  }

  Manifest job_set() const {
    Manifest set = object("jobset.x-k8s.io/v1alpha2", "JobSet", name_);
    Manifest jobs = Manifest::array();
    for (const KubernetesRole& role : job_.roles) {
      jobs.push_back({{"name", role.type},
                      {"replicas", 1},
                      {"template",
                       {{"metadata", {{"labels", role_labels(role)}}}, {"spec", job_spec(role)}}}});
    }
    set["spec"] = {
        {"network",
         {{"enableDNSHostnames", true}, {"subdomain", name_}, {"publishNotReadyAddresses", true}}},
        {"successPolicy",
         {{"operator", "All"},
          {"targetReplicatedJobs", Manifest::array({job_.roles.front().type})}}},
        {"failurePolicy", {{"maxRestarts", 0}}},
        {"ttlSecondsAfterFinished", kKeptSeconds},
        {"replicatedJobs", jobs}};
    return set;
  }

  static std::string tf_role(const std::string& type) {
    if (type == "ps") return "PS";
    std::string name = type;
    name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
    return name;
  }

  Manifest tf_job() const {
    Manifest job = object("kubeflow.org/v1", "TFJob", name_);
    Manifest run_policy = {// With None, servers of a run that has ended would keep their resources.
                           {"cleanPodPolicy", "Running"},
                           {"ttlSecondsAfterFinished", kKeptSeconds},
                           {"backoffLimit", job_.most_restarts}};
    if (job_.max_running_time) {
      run_policy["activeDeadlineSeconds"] = job_.max_running_time->count();
    }
    Manifest replicas;
    for (const KubernetesRole& role : job_.roles) {
      replicas[tf_role(role.type)] = {
          {"replicas", role.count}, {"restartPolicy", "ExitCode"}, {"template", pod(role)}};
    }
    job["spec"] = {{"runPolicy", run_policy}, {"tfReplicaSpecs", replicas}};
    return job;
  }

  const KubernetesJob& job_;
  std::string name_;
};

}  // namespace

ManifestKind parse_manifest_kind(std::string_view name) {
  if (name == "jobs") return ManifestKind::kJobs;
  if (name == "jobset") return ManifestKind::kJobSet;
  if (name == "tfjob") return ManifestKind::kTfJob;
  throw InvalidArgument("there is no kind \"{}\" of manifests; there are jobs, jobset and tfjob",
                        name);
}

std::string kubernetes_name(std::string_view job_id) {
  std::string name;
  for (const char c : job_id) {
    name += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  while (name.ends_with('-')) name.pop_back();
  if (name.empty() || name.size() > kMostNameLength) {
    throw InvalidArgument("job {}: in Kubernetes a job's name has 1 to {} characters", job_id,
                          kMostNameLength);
  }
  return name;
}

std::string kubernetes_manifests(const KubernetesJob& job) {
  return yaml_of(ManifestWriter(job).documents());
}

}  // namespace muster::jobs
