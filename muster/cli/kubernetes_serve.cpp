// `muster kubernetes serve` and `adapter-rules`: manifests of a server of models, and what its
// autoscaler needs, on standard output.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/described_flags.h"
#include "muster/orchestration/jobs/kubernetes.h"
#include "muster/orchestration/jobs/kubernetes_pod.h"

namespace muster::cli {
namespace {

struct ServeManifestFlags {
  DescribedFlags pod{};
  std::string name{};
  std::string model_base_path{};
  double cpus = 1;
  double memory_gb = 2;
  std::int64_t gpus = 0;
  std::int64_t min_replicas = 1;
  std::int64_t max_replicas = 4;
  std::int64_t target_queue_ms = 20;
  std::int64_t target_requests = 16;
  std::string kind = "deployment";
};

void print_server(const ServeManifestFlags& flags) {
  const jobs::KubernetesServer server{
      .name = flags.name,
      .pod = jobs::kubernetes_pod(flags.pod.values()),
      .model_base_path = flags.model_base_path,
      .each = {flags.cpus, flags.memory_gb, flags.gpus},
      .min_replicas = flags.min_replicas,
      .max_replicas = flags.max_replicas,
      .target_queue_time = std::chrono::milliseconds(flags.target_queue_ms),
      .target_requests = flags.target_requests,
      .is_kserve = flags.kind == "kserve"};
  fmt::print("{}", jobs::kubernetes_manifests(server));
}

void add_kubernetes_serve(CLI::App& command) {
  const auto flags = std::make_shared<ServeManifestFlags>();
  command.add_option("name", flags->name, "The model, and what its objects are called")->required();
  command
      .add_option("--model-base-path", flags->model_base_path,
                  "The folder of its versions, as containers see it: /PATH, or s3://, gs:// or "
                  "hdfs://")
      ->required();
  flags->pod.add(command, jobs::kubernetes_pod_flags());
  command.add_option("--cpus", flags->cpus, "Processors that a replica asks for")
      ->capture_default_str();
  command.add_option("--memory-gb", flags->memory_gb, "Memory of a replica")->capture_default_str();
  command.add_option("--gpus", flags->gpus, "GPUs of a replica")->capture_default_str();
  command.add_option("--min-replicas", flags->min_replicas, "")->capture_default_str();
  command.add_option("--max-replicas", flags->max_replicas, "")->capture_default_str();
  command
      .add_option("--target-queue-ms", flags->target_queue_ms,
                  "Time of requests in the queues of a replica before there are more replicas")
      ->capture_default_str();
  command
      .add_option("--target-requests", flags->target_requests,
                  "Requests in flight of a replica before another is started, with --kind kserve")
      ->capture_default_str();
  command.add_option("--kind", flags->kind, "deployment, or kserve for an InferenceService")
      ->capture_default_str()
      ->check(CLI::IsMember({"deployment", "kserve"}));
  command.callback([flags] {
    try {
      print_server(*flags);
    } catch (const InvalidArgument& error) {
      throw UsageError("{}", error.what());
    }
  });
}

void add_adapter_rules(CLI::App& command) {
  command.callback([] { fmt::print("{}", jobs::prometheus_adapter_rules()); });
}

constexpr Command kKubernetesCommands[] = {
    {"serve", "print the manifest of a model server, for kubectl apply -f -", add_kubernetes_serve},
    {"adapter-rules", "print the rules of Prometheus' adapter for the autoscaler of a server",
     add_adapter_rules},
};

}  // namespace

void add_kubernetes(CLI::App& command) { add_commands(command, kKubernetesCommands); }

}  // namespace muster::cli
