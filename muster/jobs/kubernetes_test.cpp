#include "muster/jobs/kubernetes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/jobs/yaml_internal.h"
#include "muster/testing/message_of.h"

namespace muster::jobs {
namespace {

using ::testing::HasSubstr;
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
  // What selects pods is on them.
  EXPECT_EQ(at(deployment, "spec.selector.matchLabels").entries.at(0).second.string("selector"),
            "census");
  EXPECT_EQ(text_at(documents[1], "spec.ports.1.port"), "8500");
  EXPECT_EQ(text_at(documents[2], "spec.metrics.0.pods.metric.name"), "muster_requests_in_flight");
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

TEST_F(KubernetesServing, RefusesWhatCannotBe) {
  KubernetesServer server = served();
  server.model_base_path = "models";
  EXPECT_THAT(message_of([&] { kubernetes_manifests(server); }), HasSubstr("--model-base-path"));
  server = served();
  server.max_replicas = 0;
  EXPECT_THAT(message_of([&] { kubernetes_manifests(server); }), HasSubstr("1 to 0"));
}

}  // namespace
}  // namespace muster::jobs
