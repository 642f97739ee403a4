// What Kubernetes is to run: the jobs of `muster jobs submit training --backend kubernetes`, and as
// manifests on standard output `--dry-run` and `muster kubernetes serve`.
#include "muster/cli/jobs_kubernetes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/repeatable.h"
#include "muster/orchestration/jobs/back_end.h"
#include "muster/orchestration/jobs/kubernetes.h"
#include "muster/orchestration/jobs/kubernetes_client.h"
#include "muster/orchestration/launch/secret.h"

namespace muster::cli {
namespace {

constexpr std::size_t kRunIdDigits = 16;

// "CLAIM:/PATH".
std::vector<jobs::KubernetesVolume> parse_volumes(const std::vector<std::string>& words) {
  std::vector<jobs::KubernetesVolume> volumes;
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) throw UsageError("--volume is CLAIM:/PATH: \"{}\"", word);
    volumes.push_back({word.substr(0, colon), word.substr(colon + 1)});
  }
  return volumes;
}

std::map<std::string, std::string> parse_variables(const std::vector<std::string>& words) {
  std::map<std::string, std::string> variables;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw UsageError("--env is NAME=VALUE: \"{}\"", word);
    }
    variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return variables;
}

jobs::KubernetesPod pod_of(const KubernetesFlags& flags) {
  return {.image = flags.image,
          .environment = parse_variables(flags.variables),
          .volumes = parse_volumes(flags.volumes),
          .service_account = flags.service_account,
          .gpu_resource = flags.gpu_resource};
}

void add_pod_flags(CLI::App& command, KubernetesFlags& flags) {
  command.add_option("--image", flags.image, "The container image with the program");
  repeatable(
      command.add_option("--volume", flags.volumes,
                         "CLAIM:/PATH, a volume claim and where it is seen; may be repeated"));
  repeatable(command.add_option("--env", flags.variables,
                                "NAME=VALUE, a variable of every container; may be repeated"));
  command.add_option("--kubernetes-service-account", flags.service_account,
                     "The account that pods run as");
  command.add_option("--gpu-resource", flags.gpu_resource, "The resource that is a GPU there")
      ->capture_default_str();
}

struct ServeManifestFlags {
  KubernetesFlags pod{};
  std::string name{};
  std::string model_base_path{};
  double cpus = 1;
  double memory_gb = 2;
  std::int64_t gpus = 0;
  std::int64_t min_replicas = 1;
  std::int64_t max_replicas = 4;
  std::int64_t target_requests = 16;
  std::string kind = "deployment";
};

void add_kubernetes_serve(CLI::App& command) {
  const auto flags = std::make_shared<ServeManifestFlags>();
  command.add_option("name", flags->name, "The model, and what its objects are called")->required();
  command
      .add_option("--model-base-path", flags->model_base_path,
                  "The folder of its versions, as containers see it")
      ->required();
  add_pod_flags(command, flags->pod);
  command.add_option("--cpus", flags->cpus, "Processors that a replica asks for")
      ->capture_default_str();
  command.add_option("--memory-gb", flags->memory_gb, "Memory of a replica")->capture_default_str();
  command.add_option("--gpus", flags->gpus, "GPUs of a replica")->capture_default_str();
  command.add_option("--min-replicas", flags->min_replicas, "")->capture_default_str();
  command.add_option("--max-replicas", flags->max_replicas, "")->capture_default_str();
  command
      .add_option("--target-requests", flags->target_requests,
                  "Requests in flight of a replica before another is started")
      ->capture_default_str();
  command.add_option("--kind", flags->kind, "deployment, or kserve for an InferenceService")
      ->capture_default_str()
      ->check(CLI::IsMember({"deployment", "kserve"}));
  command.callback([flags] {
    const jobs::KubernetesServer server{.name = flags->name,
                                        .pod = pod_of(flags->pod),
                                        .model_base_path = flags->model_base_path,
                                        .each = {flags->cpus, flags->memory_gb, flags->gpus},
                                        .min_replicas = flags->min_replicas,
                                        .max_replicas = flags->max_replicas,
                                        .target_requests = flags->target_requests,
                                        .is_kserve = flags->kind == "kserve"};
    try {
      fmt::print("{}", jobs::kubernetes_manifests(server));
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.what());
    }
  });
}

jobs::KubernetesJob job_of(const jobs::Submission& submission, const KubernetesFlags& flags) {
  const jobs::Job& job = submission.job;
  jobs::KubernetesJob made{.job_id = job.job_id,
                           .command = job.local.command,
                           .pod = pod_of(flags),
                           .secret_name = flags.secret_name,
                           .secret = launch::draw_secret(),
                           .max_running_time = job.training_input.max_running_time,
                           .most_restarts = job.local.most_restarts,
                           .kind = jobs::parse_manifest_kind(flags.kind)};
  made.pod.labels = job.labels;
  // Tasks that have saved end before it; its default on this host is shorter than nodes need.
  made.grace = std::max(made.grace, std::chrono::ceil<std::chrono::seconds>(job.local.grace));
  for (const jobs::RoleTasks& role : submission.roles) {
    made.roles.push_back({role.type, role.count, role.each});
  }
  return made;
}

constexpr Command kKubernetesCommands[] = {
    {"serve", "print what serves a model: kubectl apply -f - takes it", add_kubernetes_serve},
};

}  // namespace

void add_kubernetes_flags(CLI::App& command, KubernetesFlags& flags) {
  add_pod_flags(command, flags);
  command.add_option("--kind", flags.kind, "In Kubernetes: jobs, jobset or tfjob")
      ->capture_default_str();
  command.add_option(
      "--secret-name", flags.secret_name,
      "A Secret of the cluster whose key secret proves that tasks belong to the run");
  command.add_flag("--dry-run", flags.is_dry_run, "Print what Kubernetes is to run, and end");
  command.add_option("--kubectl", flags.kubectl,
                     "The program that talks to Kubernetes (MUSTER_KUBECTL; default: kubectl)");
  command.add_option("--context", flags.context, "The context of kubectl's configuration");
  command.add_option("--namespace", flags.name_space, "The namespace of the job's objects");
}

void print_manifests(const jobs::Submission& submission, const KubernetesFlags& flags) {
  if (!flags.context.empty() || !flags.name_space.empty() || !flags.kubectl.empty()) {
    throw UsageError(
        "--kubectl, --context and --namespace do nothing with --dry-run: give them to the kubectl "
        "that applies the manifests");
  }
  fmt::print("{}", jobs::kubernetes_manifests(job_of(submission, flags)));
}

void submit_to_cluster(const jobs::JobStore& store, jobs::Submission submission,
                       const KubernetesFlags& flags) {
  jobs::KubernetesJob made = job_of(submission, flags);
  const bool is_cluster = made.roles.size() > 1 || made.roles.front().count > 1;
  jobs::Job& job = submission.job;
  job.back_end = "kubernetes";
  job.kubernetes =
      jobs::KubernetesRun{.name = jobs::kubernetes_name(job.job_id),
                          .run_id = launch::draw_secret().substr(0, kRunIdDigits),
                          .kind = flags.kind,
                          .kubectl = flags.kubectl,
                          .context = flags.context,
                          .name_space = flags.name_space,
                          .has_service = is_cluster && made.kind == jobs::ManifestKind::kJobs,
                          .has_secret = is_cluster && flags.secret_name.empty()};
  made.pod.labels[jobs::kRunLabel] = job.kubernetes->run_id;
  jobs::submit_to(*jobs::make_kubernetes_back_end(jobs::kubernetes_manifests(made)), store,
                  submission, {});
}

void add_kubernetes(CLI::App& command) { add_commands(command, kKubernetesCommands); }

}  // namespace muster::cli
