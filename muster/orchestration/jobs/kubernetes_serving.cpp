#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
constexpr int kScaleDownSeconds = 300;

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
    if (!server.model_base_path.starts_with('/')) {
      throw InvalidArgument(
          "--model-base-path is a path inside the container, /models/census: "
          "\"{}\"",
          server.model_base_path);
    }
    if (server.min_replicas < 1 || server.max_replicas < server.min_replicas) {
      throw InvalidArgument("replicas are 1 at least, and no fewer at most: {} to {}",
                            server.min_replicas, server.max_replicas);
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

  Manifest container(const char* name, int rest_port) const {
    Manifest container = container_of(server_.pod, name, server_.each);
    container["command"] = {"muster",
                            "serve",
                            fmt::format("--model-name={}", server_.name),
                            fmt::format("--model-base-path={}", server_.model_base_path),
                            fmt::format("--rest-api-port={}", rest_port),
                            fmt::format("--port={}", kGrpcPort)};
    container["ports"] = Manifest::array({{{"name", "http"}, {"containerPort", rest_port}},
                                          {{"name", "grpc"}, {"containerPort", kGrpcPort}}});
    // Ready when every model answers; alive as long as the process does, whatever its models do.
    container["startupProbe"] = get_probe("/healthz", rest_port, 2, 150);
    container["readinessProbe"] = get_probe("/readyz", rest_port, 5, 1);
    container["livenessProbe"] = get_probe("/healthz", rest_port, 10, 6);
    return container;
  }

  Manifest deployment() const {
    Manifest one = container("server", kRestPort);
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
        {"metrics", Manifest::array(
                        {{{"type", "Pods"},
                          {"pods",
                           {{"metric", {{"name", "muster_requests_in_flight"}}},
                            {"target",
                             {{"type", "AverageValue"},
                              {"averageValue", std::to_string(server_.target_requests)}}}}}},
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
    Manifest predictor = pod_spec_of(server_.pod, container(kKServeContainer, kKServePort));
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

}  // namespace

std::string kubernetes_manifests(const KubernetesServer& server) {
  return yaml_of(ServerManifests(server).documents());
}

}  // namespace muster::jobs
