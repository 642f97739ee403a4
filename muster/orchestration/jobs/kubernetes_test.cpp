#include "muster/orchestration/jobs/kubernetes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/yaml_internal.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

KubernetesJob census() {
  return {
      .job_id = "Census_1",
      .roles = {{"master", 1, {8, 7.2, 1}}, {"worker", 2, {8, 7.2, 0}}, {"ps", 1, {0.5, 15, 0}}},
      .command = {"/usr/bin/census", "--job-dir", "/job"},
      .pod = {.image = "registry.example/census:1",
              .labels = {{"owner", "ana"}},
              .volumes = {{"shared", "/job"}}},
      .secret = "s3cret",
      .max_running_time = std::chrono::seconds(7200)};
}

// The documents of a text, each read on its own.
std::vector<YamlValue> documents_of(const std::string& text) {
  std::vector<YamlValue> documents;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find("---\n", begin), text.size());
    documents.push_back(parse_yaml(text.substr(begin, end - begin), "manifest"));
    begin = std::min(end + 4, text.size());
  }
  return documents;
}

// "spec.template.spec.containers.0.image"
const YamlValue& at(const YamlValue& value, const std::string& path) {
  const std::size_t dot = std::min(path.find('.'), path.size());
  const std::string word = path.substr(0, dot);
  const bool is_index = value.kind == YamlValue::Kind::kList;
  const YamlValue* const inner = is_index ? &value.items.at(std::stoul(word)) : value.find(word);
  if (inner == nullptr) throw NotFound("there is no {} in {}", word, value.place);
  return dot == path.size() ? *inner : at(*inner, path.substr(dot + 1));
}

std::string text_at(const YamlValue& value, const std::string& path) {
  return at(value, path).string(path);
}

class KubernetesManifests : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!MUSTER_HAS_YAML) GTEST_SKIP() << "muster was built without yaml-cpp";
  }
};
class KubernetesServing : public KubernetesManifests {};

TEST(KubernetesName, IsOneThatKubernetesTakes) {
  EXPECT_EQ(kubernetes_name("Census_1"), "census-1");
  EXPECT_EQ(kubernetes_name("a__"), "a");
  EXPECT_THAT(message_of([] { kubernetes_name(std::string(41, 'a')); }),
              HasSubstr("40 characters"));
}

TEST_F(KubernetesManifests, AreOneIndexedJobPerRoleBehindAHeadlessService) {
  const auto documents = documents_of(kubernetes_manifests(census()));
  ASSERT_EQ(documents.size(), 5);
  EXPECT_EQ(text_at(documents[0], "kind"), "Secret");
  EXPECT_EQ(text_at(documents[0], "stringData.secret"), "s3cret");
  EXPECT_EQ(text_at(documents[1], "kind"), "Service");
  EXPECT_EQ(text_at(documents[1], "spec.clusterIP"), "None");
  EXPECT_EQ(text_at(documents[1], "metadata.name"), "census-1");
  const YamlValue& worker = documents[3];
  EXPECT_EQ(text_at(worker, "apiVersion"), "batch/v1");
  EXPECT_EQ(text_at(worker, "metadata.name"), "census-1-worker");
  EXPECT_EQ(text_at(worker, "metadata.labels.owner"), "ana");
  EXPECT_EQ(text_at(worker, "spec.completionMode"), "Indexed");
  EXPECT_EQ(at(worker, "spec.completions").integer("completions"), 2);
  EXPECT_EQ(at(worker, "spec.parallelism").integer("parallelism"), 2);
  EXPECT_EQ(at(worker, "spec.activeDeadlineSeconds").integer(""), 7200);
  EXPECT_EQ(text_at(worker, "spec.template.spec.restartPolicy"), "Never");
  EXPECT_EQ(text_at(worker, "spec.template.spec.subdomain"), "census-1");
  EXPECT_EQ(text_at(worker, "spec.template.spec.volumes.1.persistentVolumeClaim.claimName"),
            "shared");
  const YamlValue& container = at(worker, "spec.template.spec.containers.0");
  EXPECT_EQ(text_at(container, "command.0"), "/usr/bin/census");
  EXPECT_EQ(text_at(container, "volumeMounts.1.mountPath"), "/job");
}

TEST_F(KubernetesManifests, TellEveryTaskWhoItIsAndWhereTheOthersAre) {
  const auto documents = documents_of(kubernetes_manifests(census()));
  const YamlValue& variables = at(documents[3], "spec.template.spec.containers.0.env");
  EXPECT_EQ(text_at(variables, "0.name"), "MUSTER_SECRET");
  EXPECT_EQ(text_at(variables, "0.valueFrom.secretKeyRef.name"), "census-1-secret");
  // The index must stand before what refers to it.
  EXPECT_EQ(text_at(variables, "1.name"), "MUSTER_TASK_INDEX");
  EXPECT_EQ(text_at(variables, "1.valueFrom.fieldRef.fieldPath"),
            "metadata.annotations['batch.kubernetes.io/job-completion-index']");
  EXPECT_EQ(text_at(variables, "2.name"), "TF_CONFIG");
  EXPECT_EQ(text_at(variables, "2.value"),
            R"({"cluster":{"master":["census-1-master-0.census-1:2222"],)"
            R"("worker":["census-1-worker-0.census-1:2222","census-1-worker-1.census-1:2222"],)"
            R"("ps":["census-1-ps-0.census-1:2222"]},)"
            R"x("task":{"type":"worker","index":"$(MUSTER_TASK_INDEX)"}})x");
}

TEST_F(KubernetesManifests, AskForMachinesAndRetryByExitStatus) {
  const auto documents = documents_of(kubernetes_manifests(census()));
  const YamlValue& master = at(documents[2], "spec.template.spec.containers.0.resources");
  EXPECT_EQ(text_at(master, "requests.cpu"), "8");
  EXPECT_TRUE(at(master, "requests.cpu").is_quoted);
  EXPECT_EQ(text_at(master, "limits.memory"), "7200M");
  EXPECT_EQ(text_at(at(documents[4], "spec.template.spec.containers.0"), "resources.requests.cpu"),
            "500m");
  const YamlValue* gpus = at(master, "limits").find("nvidia.com/gpu");
  ASSERT_NE(gpus, nullptr);
  EXPECT_EQ(gpus->integer("gpus"), 1);
  const YamlValue& rules = at(documents[2], "spec.podFailurePolicy.rules");
  // A pod that the cluster moves is no failure, whatever its status; a misuse is never retried.
  EXPECT_EQ(text_at(rules, "0.action"), "Ignore");
  EXPECT_EQ(text_at(rules, "1.action"), "FailJob");
  EXPECT_EQ(at(rules, "1.onExitCodes.values").list("values").size(), 4);
  EXPECT_EQ(text_at(rules, "2.action"), "FailIndex");
  EXPECT_EQ(text_at(rules, "2.onExitCodes.values.0"), "137");
}

TEST_F(KubernetesManifests, OfOneTaskHaveNoCluster) {
  KubernetesJob job = census();
  job.roles.resize(1);
  const std::string text = kubernetes_manifests(job);
  EXPECT_EQ(documents_of(text).size(), 1);
  EXPECT_THAT(text, Not(HasSubstr("TF_CONFIG")));
  EXPECT_THAT(text, Not(HasSubstr("Service\n")));
}

TEST_F(KubernetesManifests, AreAJobSetWhereAskedFor) {
  KubernetesJob job = census();
  job.kind = ManifestKind::kJobSet;
  const auto documents = documents_of(kubernetes_manifests(job));
  ASSERT_EQ(documents.size(), 2);
  const YamlValue& set = documents[1];
  EXPECT_EQ(text_at(set, "kind"), "JobSet");
  EXPECT_EQ(text_at(set, "spec.network.subdomain"), "census-1");
  EXPECT_EQ(text_at(set, "spec.successPolicy.targetReplicatedJobs.0"), "master");
  EXPECT_EQ(text_at(set, "spec.replicatedJobs.1.name"), "worker");
  EXPECT_EQ(at(set, "spec.replicatedJobs.1.template.spec.completions").integer(""), 2);
  EXPECT_THAT(kubernetes_manifests(job), HasSubstr("census-1-worker-0-1.census-1:2222"));
}

TEST_F(KubernetesManifests, AreATfJobWhoseOperatorRetriesOtherStatuses) {
  KubernetesJob job = census();
  job.kind = ManifestKind::kTfJob;
  const std::string text = kubernetes_manifests(job);
  EXPECT_THAT(text, Not(HasSubstr("TF_CONFIG")));
  const auto documents = documents_of(text);
  ASSERT_EQ(documents.size(), 2);
  const YamlValue& replicas = at(documents[1], "spec.tfReplicaSpecs");
  EXPECT_EQ(text_at(replicas, "PS.restartPolicy"), "ExitCode");
  const YamlValue& container = at(replicas, "Worker.template.spec.containers.0");
  EXPECT_EQ(text_at(container, "name"), "tensorflow");
  EXPECT_EQ(text_at(container, "env.0.name"), "MUSTER_RETRY_STATUS");
  EXPECT_TRUE(at(container, "env.0.value").is_quoted);
  EXPECT_EQ(text_at(container, "ports.0.name"), "tfjob-port");
}

TEST_F(KubernetesManifests, RefuseWhatKubernetesWould) {
  KubernetesJob job = census();
  job.pod.image.clear();
  EXPECT_THAT(message_of([&] { kubernetes_manifests(job); }), HasSubstr("--image"));
  job = census();
  job.pod.labels["team"] = "a-";
  EXPECT_THAT(message_of([&] { kubernetes_manifests(job); }), HasSubstr("label team=a-"));
  EXPECT_THAT(message_of([] { parse_manifest_kind("pod"); }), HasSubstr("jobs, jobset and tfjob"));
}

KubernetesServer served() {
  return {.name = "census",
          .pod = {.image = "registry.example/muster:1", .volumes = {{"models", "/models"}}},
          .model_base_path = "/models/census",
          .each = {2, 4, 0}};
}

TEST_F(KubernetesServing, IsADeploymentWithWhatBelongsToIt) {
  const auto documents = documents_of(kubernetes_manifests(served()));
  ASSERT_EQ(documents.size(), 4);
  const YamlValue& deployment = documents[0];
  EXPECT_EQ(text_at(deployment, "kind"), "Deployment");
  EXPECT_EQ(at(deployment, "spec").find("replicas"), nullptr);
  const YamlValue& container = at(deployment, "spec.template.spec.containers.0");
  EXPECT_EQ(text_at(container, "command.3"), "--model-base-path=/models/census");
  EXPECT_EQ(text_at(container, "readinessProbe.httpGet.path"), "/readyz");
  EXPECT_EQ(text_at(container, "livenessProbe.httpGet.path"), "/healthz");
  // The label that selects pods is on them.
  EXPECT_EQ(at(deployment, "spec.selector.matchLabels").entries.at(0).second.string("selector"),
            "census");
  EXPECT_EQ(text_at(documents[1], "spec.ports.1.port"), "8500");
  EXPECT_EQ(text_at(documents[2], "spec.metrics.0.pods.metric.name"), "muster_queue_seconds");
  EXPECT_EQ(text_at(documents[2], "spec.metrics.0.pods.target.averageValue"), "20m");
  EXPECT_EQ(text_at(documents[3], "kind"), "PodDisruptionBudget");
}

TEST_F(KubernetesServing, IsAnInferenceServiceWhereAskedFor) {
  KubernetesServer server = served();
  server.is_kserve = true;
  const auto documents = documents_of(kubernetes_manifests(server));
  ASSERT_EQ(documents.size(), 1);
  EXPECT_EQ(text_at(documents[0], "kind"), "InferenceService");
  const YamlValue& container = at(documents[0], "spec.predictor.containers.0");
  EXPECT_EQ(text_at(container, "name"), "kserve-container");
  EXPECT_EQ(text_at(container, "ports.0.containerPort"), "8080");
}

TEST_F(KubernetesServing, TakesModelsFromStoresWithTheVariablesOfASecret) {
  KubernetesServer server = served();
  server.pod.environment_secrets = {"store-keys"};
  for (const char* path : {"s3://bucket/census", "gs://bucket/census", "hdfs://name:9870/census"}) {
    for (const bool is_kserve : {false, true}) {
      server.model_base_path = path;
      server.is_kserve = is_kserve;
      const auto documents = documents_of(kubernetes_manifests(server));
      const YamlValue& container = at(documents[0], is_kserve ? "spec.predictor.containers.0"
                                                              : "spec.template.spec.containers.0");
      EXPECT_EQ(text_at(container, "command.3"), std::string("--model-base-path=") + path);
      EXPECT_EQ(text_at(container, "envFrom.0.secretRef.name"), "store-keys");
    }
  }
}

TEST_F(KubernetesServing, AnswersWhatItHasBeforeItIsKilled) {
  const auto documents = documents_of(kubernetes_manifests(served()));
  const YamlValue& pod = at(documents[0], "spec.template.spec");
  const std::string wait = text_at(pod, "containers.0.lifecycle.preStop.exec.command.1");
  const std::string exit = text_at(pod, "containers.0.command.6");
  ASSERT_TRUE(exit.starts_with("--exit-timeout-secs=")) << exit;
  EXPECT_LT(std::stoi(wait) + std::stoi(exit.substr(exit.find('=') + 1)),
            std::stoi(text_at(pod, "terminationGracePeriodSeconds")));
}

TEST_F(KubernetesServing, TheRulesOfTheAdapterHaveTheMetricOfTheAutoscaler) {
  const auto rules = documents_of(prometheus_adapter_rules());
  ASSERT_EQ(rules.size(), 1);
  const auto documents = documents_of(kubernetes_manifests(served()));
  EXPECT_EQ(text_at(rules[0], "rules.0.name.as"),
            text_at(documents[2], "spec.metrics.0.pods.metric.name"));
  EXPECT_THAT(text_at(rules[0], "rules.0.metricsQuery"),
              HasSubstr("rate(muster_request_queue_duration_seconds_sum{<<.LabelMatchers>>}[1m])"));
}

TEST_F(KubernetesServing, RefusesWhatCannotBe) {
  KubernetesServer server = served();
  for (const char* path : {"models", "http://host/models", "s3://", ""}) {
    server.model_base_path = path;
    EXPECT_THAT(message_of([&] { kubernetes_manifests(server); }), HasSubstr("--model-base-path"));
  }
  server = served();
  server.target_queue_time = {};
  EXPECT_THAT(message_of([&] { kubernetes_manifests(server); }), HasSubstr("--target-queue-ms"));
  server = served();
  server.max_replicas = 0;
  EXPECT_THAT(message_of([&] { kubernetes_manifests(server); }), HasSubstr("1 to 0"));
}

// ---------------------------------------------------------------------------- unknown fields

// The fields of the API's types that our manifests are made of: "field" holds a scalar or a list of
// them, "field:Type" an object, "field:[Type" a list of objects, "field:*" names of anybody's
// choice. A cluster drops or refuses a field that it does not know.
const std::map<std::string, std::string> kApiTypes{
    {"v1 Secret", "apiVersion kind metadata:ObjectMeta type data:* stringData:* immutable"},
    {"v1 Service", "apiVersion kind metadata:ObjectMeta spec:ServiceSpec"},
    {"batch/v1 Job", "apiVersion kind metadata:ObjectMeta spec:JobSpec"},
    {"apps/v1 Deployment", "apiVersion kind metadata:ObjectMeta spec:DeploymentSpec"},
    {"autoscaling/v2 HorizontalPodAutoscaler",
     "apiVersion kind metadata:ObjectMeta spec:HorizontalPodAutoscalerSpec"},
    {"policy/v1 PodDisruptionBudget",
     "apiVersion kind metadata:ObjectMeta spec:PodDisruptionBudgetSpec"},
    {"jobset.x-k8s.io/v1alpha2 JobSet", "apiVersion kind metadata:ObjectMeta spec:JobSetSpec"},
    {"kubeflow.org/v1 TFJob", "apiVersion kind metadata:ObjectMeta spec:TFJobSpec"},
    {"serving.kserve.io/v1beta1 InferenceService",
     "apiVersion kind metadata:ObjectMeta spec:InferenceServiceSpec"},
    {"ObjectMeta", "name namespace generateName labels:* annotations:* finalizers"},
    {"ServiceSpec",
     "clusterIP type selector:* ports:[ServicePort publishNotReadyAddresses sessionAffinity "
     "externalName ipFamilies ipFamilyPolicy internalTrafficPolicy externalTrafficPolicy"},
    {"ServicePort", "name port targetPort protocol nodePort appProtocol"},
    {"JobSpec",
     "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy "
     "manualSelector maxFailedIndexes parallelism podFailurePolicy:PodFailurePolicy "
     "podReplacementPolicy selector:LabelSelector successPolicy:SuccessPolicy suspend "
     "template:PodTemplateSpec ttlSecondsAfterFinished"},
    {"PodFailurePolicy", "rules:[PodFailurePolicyRule"},
    {"PodFailurePolicyRule", "action onExitCodes:OnExitCodes onPodConditions:[OnPodCondition"},
    {"OnExitCodes", "containerName operator values"},
    {"OnPodCondition", "type status"},
    {"SuccessPolicy", "rules:[SuccessPolicyRule"},
    {"SuccessPolicyRule", "succeededIndexes succeededCount"},
    {"PodTemplateSpec", "metadata:ObjectMeta spec:PodSpec"},
    {"PodSpec",
     "activeDeadlineSeconds automountServiceAccountToken containers:[Container "
     "initContainers:[Container enableServiceLinks hostname imagePullSecrets:[LocalReference "
     "nodeName nodeSelector:* preemptionPolicy priority priorityClassName restartPolicy "
     "runtimeClassName schedulerName securityContext:PodSecurityContext serviceAccountName "
     "setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds "
     "volumes:[Volume"},
    {"LocalReference", "name"},
    {"PodSecurityContext",
     "fsGroup fsGroupChangePolicy runAsGroup runAsNonRoot runAsUser seccompProfile:SeccompProfile "
     "supplementalGroups"},
    {"SeccompProfile", "type localhostProfile"},
    {"Container",
     "args command env:[EnvVar envFrom:[EnvFromSource image imagePullPolicy lifecycle:Lifecycle "
     "livenessProbe:Probe name "
     "ports:[ContainerPort readinessProbe:Probe resources:Resources restartPolicy "
     "securityContext:SecurityContext startupProbe:Probe terminationMessagePath "
     "terminationMessagePolicy volumeMounts:[VolumeMount workingDir"},
    {"EnvFromSource", "secretRef:SecretRef configMapRef:SecretRef prefix"},
    {"SecretRef", "name optional"},
    {"EnvVar", "name value valueFrom:EnvVarSource"},
    {"EnvVarSource", "fieldRef:FieldRef secretKeyRef:KeyRef configMapKeyRef:KeyRef"},
    {"FieldRef", "apiVersion fieldPath"},
    {"KeyRef", "name key optional"},
    {"ContainerPort", "name containerPort protocol hostPort hostIP"},
    {"Resources", "requests:* limits:*"},
    {"SecurityContext",
     "allowPrivilegeEscalation capabilities:Capabilities privileged readOnlyRootFilesystem "
     "runAsGroup runAsNonRoot runAsUser"},
    {"Capabilities", "add drop"},
    {"VolumeMount", "name mountPath mountPropagation readOnly subPath"},
    {"Volume", "name emptyDir:EmptyDir persistentVolumeClaim:ClaimSource secret:SecretSource"},
    {"EmptyDir", "medium sizeLimit"},
    {"ClaimSource", "claimName readOnly"},
    {"SecretSource", "secretName defaultMode optional"},
    {"Lifecycle", "preStop:Handler postStart:Handler"},
    {"Handler", "exec:Exec httpGet:HttpGet"},
    {"Exec", "command"},
    {"HttpGet", "path port host scheme"},
    {"Probe",
     "exec:Exec httpGet:HttpGet failureThreshold initialDelaySeconds periodSeconds "
     "successThreshold timeoutSeconds terminationGracePeriodSeconds"},
    {"LabelSelector", "matchLabels:*"},
    {"DeploymentSpec",
     "minReadySeconds paused progressDeadlineSeconds replicas revisionHistoryLimit "
     "selector:LabelSelector strategy:DeploymentStrategy template:PodTemplateSpec"},
    {"DeploymentStrategy", "type rollingUpdate:RollingUpdate"},
    {"RollingUpdate", "maxSurge maxUnavailable"},
    {"HorizontalPodAutoscalerSpec",
     "behavior:Behavior maxReplicas metrics:[MetricSpec minReplicas scaleTargetRef:TargetRef"},
    {"Behavior", "scaleDown:ScalingRules scaleUp:ScalingRules"},
    {"ScalingRules", "selectPolicy stabilizationWindowSeconds"},
    {"TargetRef", "apiVersion kind name"},
    {"MetricSpec", "type pods:PodsMetric resource:ResourceMetric"},
    {"PodsMetric", "metric:MetricName target:MetricTarget"},
    {"ResourceMetric", "name target:MetricTarget"},
    {"MetricName", "name selector:LabelSelector"},
    {"MetricTarget", "type averageUtilization averageValue value"},
    {"PodDisruptionBudgetSpec",
     "maxUnavailable minAvailable selector:LabelSelector unhealthyPodEvictionPolicy"},
    {"JobSetSpec",
     "network:JobSetNetwork successPolicy:JobSetSuccess failurePolicy:JobSetFailure "
     "ttlSecondsAfterFinished suspend replicatedJobs:[ReplicatedJob"},
    {"JobSetNetwork", "enableDNSHostnames subdomain publishNotReadyAddresses"},
    {"JobSetSuccess", "operator targetReplicatedJobs"},
    {"JobSetFailure", "maxRestarts restartStrategy"},
    {"ReplicatedJob", "name groupName replicas template:JobTemplateSpec"},
    {"JobTemplateSpec", "metadata:ObjectMeta spec:JobSpec"},
    {"TFJobSpec",
     "runPolicy:RunPolicy successPolicy enableDynamicWorker tfReplicaSpecs:TFReplicas"},
    {"RunPolicy",
     "cleanPodPolicy ttlSecondsAfterFinished activeDeadlineSeconds backoffLimit suspend managedBy"},
    {"TFReplicas",
     "Chief:ReplicaSpec Master:ReplicaSpec Worker:ReplicaSpec PS:ReplicaSpec "
     "Evaluator:ReplicaSpec"},
    {"ReplicaSpec", "replicas restartPolicy template:PodTemplateSpec"},
    {"InferenceServiceSpec", "predictor:Predictor"},
    // A pod's spec with more.
    {"Predictor",
     "containers:[Container volumes:[Volume securityContext:PodSecurityContext serviceAccountName "
     "terminationGracePeriodSeconds minReplicas maxReplicas scaleMetric scaleTarget "
     "containerConcurrency timeout canaryTrafficPercent"},
};

// The fields of a value that its type does not have, by their paths.
void add_unknown_fields(const YamlValue& value, const std::string& type, const std::string& path,
                        std::vector<std::string>& unknown) {
  const auto found = kApiTypes.find(type);
  if (found == kApiTypes.end()) {
    unknown.push_back(path + " of the unknown type " + type);
    return;
  }
  std::map<std::string, std::string> types;
  std::istringstream words(found->second);
  for (std::string word; words >> word;) {
    const auto colon = std::min(word.find(':'), word.size());
    types[word.substr(0, colon)] = colon < word.size() ? word.substr(colon + 1) : "";
  }
  for (const auto& [name, inner] : value.map(path)) {
    const std::string inner_path = path + "." + name;
    const auto field = types.find(name);
    const bool is_map = inner.kind == YamlValue::Kind::kMap;
    if (field == types.end()) {
      unknown.push_back(inner_path);
    } else if (field->second.empty()) {
      if (is_map) unknown.push_back(inner_path + " is an object");
    } else if (field->second.front() == '[') {
      for (const YamlValue& item : inner.list(inner_path)) {
        add_unknown_fields(item, field->second.substr(1), inner_path, unknown);
      }
    } else if (field->second != "*") {
      add_unknown_fields(inner, field->second, inner_path, unknown);
    } else if (!is_map) {
      unknown.push_back(inner_path + " is no object");
    }
  }
}

std::vector<std::string> unknown_fields(const std::string& manifests) {
  std::vector<std::string> unknown;
  for (const YamlValue& document : documents_of(manifests)) {
    const std::string kind = text_at(document, "kind");
    add_unknown_fields(document, text_at(document, "apiVersion") + " " + kind, kind, unknown);
  }
  return unknown;
}

// With all that flags can ask for.
KubernetesJob full_census(ManifestKind kind) {
  KubernetesJob job = census();
  job.kind = kind;
  job.roles.push_back({"evaluator", 1, {1, 1, 0}});
  job.pod.environment = {{"FRUIT", "pear"}};
  job.pod.service_account = "trainer";
  return job;
}

TEST_F(KubernetesManifests, HaveNoFieldThatTheApiDoesNotKnow) {
  for (const ManifestKind kind :
       {ManifestKind::kJobs, ManifestKind::kJobSet, ManifestKind::kTfJob}) {
    EXPECT_THAT(unknown_fields(kubernetes_manifests(full_census(kind))), IsEmpty());
    KubernetesJob alone = census();
    alone.kind = kind;
    alone.roles.resize(1);
    EXPECT_THAT(unknown_fields(kubernetes_manifests(alone)), IsEmpty());
  }
  for (const bool is_kserve : {false, true}) {
    KubernetesServer server = served();
    server.is_kserve = is_kserve;
    server.pod.environment = {{"FRUIT", "pear"}};
    server.pod.environment_secrets = {"store-keys"};
    server.each.gpus = 1;
    EXPECT_THAT(unknown_fields(kubernetes_manifests(server)), IsEmpty());
  }
}

TEST_F(KubernetesManifests, WithAFieldThatTheApiDoesNotKnowAreFound) {
  const std::string good = kubernetes_manifests(full_census(ManifestKind::kJobs));
  const auto with = [&](const std::string& word, const std::string& other) {
    std::string changed = good;
    changed.replace(changed.rfind(word), word.size(), other);
    return unknown_fields(changed);
  };
  EXPECT_THAT(with("completions:", "completionss:"), ElementsAre("Job.spec.completionss"));
  EXPECT_THAT(with("mountPath:", "path:"),
              ElementsAre("Job.spec.template.spec.containers.volumeMounts.path"));
  EXPECT_THAT(with("batch/v1", "batch/v2"), ElementsAre("Job of the unknown type batch/v2 Job"));
}

// ------------------------------------------------------------------------------ custom resources

// No schema of these is at hand: what they are is kept in files, and a change shows in a review.
// MUSTER_UPDATE_GOLDEN=1 rewrites them.
TEST_F(KubernetesManifests, OfCustomResourcesAreThoseOfTheGoldenFiles) {
  KubernetesServer server = served();
  server.is_kserve = true;
  const std::pair<const char*, std::string> all[] = {
      {"jobset.yaml", kubernetes_manifests(full_census(ManifestKind::kJobSet))},
      {"tfjob.yaml", kubernetes_manifests(full_census(ManifestKind::kTfJob))},
      {"inference_service.yaml", kubernetes_manifests(server)}};
  for (const auto& [name, text] : all) {
    const std::filesystem::path path = std::filesystem::path(JOBS_GOLDEN_DIR) / name;
    if (std::getenv("MUSTER_UPDATE_GOLDEN") != nullptr) testing::write_bytes(path, text);
    EXPECT_EQ(testing::read_bytes(path), text) << path;
  }
}

}  // namespace
}  // namespace muster::jobs
