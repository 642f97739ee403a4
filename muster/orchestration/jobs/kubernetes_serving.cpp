#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/kubernetes_parts_internal.h"

namespace muster::jobs {
namespace {

constexpr int kRestPort = 8501;
constexpr int kGrpcPort = 8500;
// KServe sends requests there.
constexpr int kKServePort = 8080;
constexpr const char* kKServeContainer = "kserve-container";
// Longer than the longest request and the time in which a load balancer hears of the end.
constexpr int kGraceSeconds = 60;
constexpr int kDrainSeconds = 5;
// The rest of it, from when no more requests come, less a moment to end in.
constexpr int kExitSeconds = kGraceSeconds - kDrainSeconds - 5;
// KServe leaves Kubernetes' own 30 s to some of its pods.
constexpr int kKServeExitSeconds = 25;
constexpr int kScaleDownSeconds = 300;
// Mean time of a pod's requests in their queues, over the last minute.
constexpr const char* kQueueMetric = "muster_queue_seconds";

void check_model_path(const std::string& path) {
  for (const std::string_view scheme : {"/", "s3://", "gs://", "hdfs://"}) {
    if (path.starts_with(scheme) && (scheme == "/" || path.size() > scheme.size())) return;
  }
  throw InvalidArgument(
      "--model-base-path is a path inside the container, /models/census, or in a store, "
      "s3://BUCKET/PATH, gs://BUCKET/PATH or hdfs://NAMENODE/PATH: \"{}\"",
      path);
}

Manifest get_probe(const char* path, int port, int period, int failures) {
  return {{"httpGet", {{"path", path}, {"port", port}}},
          {"periodSeconds", period},
          {"failureThreshold", failures}};
}

class ServerManifests {
 public:
  explicit ServerManifests(const KubernetesServer& server)
      : server_(server), name_(kubernetes_name(server.name)) {
    check_pod(server.pod);
    check_model_path(server.model_base_path);
    if (server.min_replicas < 1 || server.max_replicas < server.min_replicas) {
      throw InvalidArgument("replicas are 1 at least, and no fewer at most: {} to {}",
                            server.min_replicas, server.max_replicas);
    }
    if (server.target_queue_time < std::chrono::milliseconds(1)) {
      throw InvalidArgument("--target-queue-ms must be 1 at least: {}",
                            server.target_queue_time.count());
    }
  }

  std::vector<Manifest> documents() const {
    if (server_.is_kserve) return {inference_service()};
    return {deployment(), service(), autoscaler(), disruption_budget()};
  }

 private:
  Manifest object(const char* version, const char* kind) const {
    return object_of(version, kind, name_, labels_of(server_.pod, name_));
  }
  Manifest selector() const { return {{"app.kubernetes.io/instance", name_}}; }

  Manifest container(const char* name, int rest_port, int exit_seconds) const {
    Manifest container = container_of(server_.pod, name, server_.each);
    container["command"] = {"muster",
                            "serve",
                            fmt::format("--model-name={}", server_.name),
                            fmt::format("--model-base-path={}", server_.model_base_path),
                            fmt::format("--rest-api-port={}", rest_port),
                            fmt::format("--port={}", kGrpcPort),
                            fmt::format("--exit-timeout-secs={}", exit_seconds)};
    container["ports"] = Manifest::array({{{"name", "http"}, {"containerPort", rest_port}},
                                          {{"name", "grpc"}, {"containerPort", kGrpcPort}}});
    // Ready when every model answers; alive as long as the process does, whatever its models do.
    container["startupProbe"] = get_probe("/healthz", rest_port, 2, 150);
    container["readinessProbe"] = get_probe("/readyz", rest_port, 5, 1);
    container["livenessProbe"] = get_probe("/healthz", rest_port, 10, 6);
    return container;
  }

  Manifest deployment() const {
    Manifest one = container("server", kRestPort, kExitSeconds);
    one["lifecycle"] = {
        {"preStop", {{"exec", {{"command", {"sleep", std::to_string(kDrainSeconds)}}}}}}};
    Manifest spec = pod_spec_of(server_.pod, one);
    spec["terminationGracePeriodSeconds"] = kGraceSeconds;
    Manifest deployment = object("apps/v1", "Deployment");
    // How many replicas there are is the autoscaler's to say.
    deployment["spec"] = {
        {"selector", {{"matchLabels", selector()}}},
        {"strategy",
         {{"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", 0}, {"maxSurge", 1}}}}},
        {"template",
         {{"metadata",
           {{"labels", labels_of(server_.pod, name_)},
            {"annotations",
             {{"prometheus.io/scrape", "true"},
              {"prometheus.io/path", "/metrics"},
              {"prometheus.io/port", std::to_string(kRestPort)}}}}},
          {"spec", spec}}}};
    return deployment;
  }

  Manifest service() const {
    Manifest service = object("v1", "Service");
    service["spec"] = {
        {"selector", selector()},
        {"ports",
         Manifest::array({{{"name", "http"}, {"port", kRestPort}, {"targetPort", "http"}},
                          {{"name", "grpc"}, {"port", kGrpcPort}, {"targetPort", "grpc"}}})}};
    return service;
  }

  Manifest autoscaler() const {
    Manifest autoscaler = object("autoscaling/v2", "HorizontalPodAutoscaler");
    autoscaler["spec"] = {
        {"scaleTargetRef", {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", name_}}},
        {"minReplicas", server_.min_replicas},
        {"maxReplicas", server_.max_replicas},
        {"metrics",
         Manifest::array(
             {{{"type", "Pods"},
               {"pods",
                {{"metric", {{"name", kQueueMetric}}},
                 {"target",
                  {{"type", "AverageValue"},
                   // In thousandths of a second.
                   {"averageValue", fmt::format("{}m", server_.target_queue_time.count())}}}}}},
              {{"type", "Resource"},
               {"resource",
                {{"name", "cpu"},
                 {"target", {{"type", "Utilization"}, {"averageUtilization", 80}}}}}}})},
        {"behavior", {{"scaleDown", {{"stabilizationWindowSeconds", kScaleDownSeconds}}}}}};
    return autoscaler;
  }

  Manifest disruption_budget() const {
    Manifest budget = object("policy/v1", "PodDisruptionBudget");
    budget["spec"] = {{"minAvailable", 1}, {"selector", {{"matchLabels", selector()}}}};
    return budget;
  }

  Manifest inference_service() const {
    Manifest predictor =
        pod_spec_of(server_.pod, container(kKServeContainer, kKServePort, kKServeExitSeconds));
    predictor["minReplicas"] = server_.min_replicas;
    predictor["maxReplicas"] = server_.max_replicas;
    predictor["scaleMetric"] = "concurrency";
    predictor["scaleTarget"] = server_.target_requests;
    Manifest service = object("serving.kserve.io/v1beta1", "InferenceService");
    service["spec"] = {{"predictor", predictor}};
    return service;
  }

  const KubernetesServer& server_;
  std::string name_;
};

// Sums over a minute of the requests of a pod.
std::string rate_of(const char* series) {
  return fmt::format("sum(rate({}{{<<.LabelMatchers>>}}[1m])) by (<<.GroupBy>>)", series);
}

}  // namespace

std::string prometheus_adapter_rules() {
  constexpr const char* kCount = "muster_request_queue_duration_seconds_count";
  const auto resource = [](const char* name) -> Manifest { return {{"resource", name}}; };
  // A pod without requests has no queue: 0, and not a number divided by nothing.
  const Manifest rule = {
      {"seriesQuery", fmt::format("{}{{namespace!=\"\",pod!=\"\"}}", kCount)},
      {"resources",
       {{"overrides", {{"namespace", resource("namespace")}, {"pod", resource("pod")}}}}},
      {"name", {{"matches", kCount}, {"as", kQueueMetric}}},
      {"metricsQuery",
       fmt::format("{} / clamp_min({}, 0.001)",
                   rate_of("muster_request_queue_duration_seconds_sum"), rate_of(kCount))}};
  return yaml_of({Manifest{{"rules", Manifest::array({rule})}}});
}

std::string kubernetes_manifests(const KubernetesServer& server) {
  return yaml_of(ServerManifests(server).documents());
}

}  // namespace muster::jobs
