#include "muster/platform/cluster/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/cluster/process_environment.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The cluster of tf.estimator's own tests: one chief, three workers, two ps.
constexpr std::string_view kCluster =
    R"("cluster": {"chief": ["host0:0"], "ps": ["host1:1", "host2:2"],
                   "worker": ["host3:3", "host4:4", "host5:5"]})";

std::string config(std::string_view task, std::string_view more = "") {
  return "{" + std::string(kCluster) + ", \"task\": " + std::string(task) + std::string(more) + "}";
}

std::string with_cluster(std::string_view cluster, std::string_view task) {
  return "{\"cluster\": " + std::string(cluster) + ", \"task\": " + std::string(task) + "}";
}

TaskEnvironment parse_task(std::string_view type, int index) {
  return parse_tf_config(config("{\"type\": \"" + std::string(type) +
                                "\", \"index\": " + std::to_string(index) + "}"));
}

std::string error_of(std::string_view text) {
  try {
    parse_tf_config(text);
  } catch (const UsageError& error) {
    return error.message();
  }
  return "no error";
}

std::vector<std::string> peer_names(const TaskEnvironment& environment) {
  std::vector<std::string> names;
  for (const Peer& peer : environment.peers) names.push_back(peer.task.name());
  return names;
}

void expect_alone(const TaskEnvironment& environment) {
  EXPECT_TRUE(environment.cluster.empty());
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 0}));
  EXPECT_TRUE(environment.is_chief);
  EXPECT_EQ(environment.num_ps_replicas, 0);
  EXPECT_EQ(environment.num_worker_replicas, 1);
  EXPECT_EQ(environment.global_id_in_cluster, 0);
  EXPECT_EQ(environment.master, "");
  EXPECT_EQ(environment.evaluation_master, "");
  EXPECT_FALSE(environment.needs_server());
  EXPECT_THAT(environment.peers, IsEmpty());
}

// ------------------------------------------------------------------------------------- alone

TEST(TfConfigAlone, UnsetEmptyAndEmptyMapMeanAClusterOfOne) {
  for (const char* text :
       {"", "  \n", "{}", R"({"task": {}})", R"({"cluster": {}})",
        R"({"task": {"type": "worker", "index": 0}})", R"({"cluster": {"worker": []}})"}) {
    SCOPED_TRACE(text);
    expect_alone(parse_tf_config(text));
  }
}

TEST(TfConfigAlone, AnotherTypeOrIndexIsAnError) {
  EXPECT_THAT(error_of(R"({"task": {"type": "ps", "index": 0}})"),
              HasSubstr("without a cluster task.type must be \"worker\""));
  EXPECT_THAT(error_of(R"({"task": {"type": "worker", "index": 1}})"),
              HasSubstr("without a cluster task.index must be 0"));
  EXPECT_THAT(error_of(R"({"task": {"type": "local"}})"), HasSubstr("leave out both"));
}

TEST(TfConfigAlone, ANumberThatIsTooLargeIsAnError) {
  EXPECT_THAT(error_of(R"({"job": {"x": 6e66666}})"),
              AllOf(HasSubstr("a number is too large"), HasSubstr("\"x\"")));
}

TEST(TfConfigAlone, SessionMasterIsTaken) {
  EXPECT_EQ(parse_tf_config(R"({"session_master": "grpc://x:1"})").master, "grpc://x:1");
}

// ----------------------------------------------------------------------------------- cluster

TEST(TfConfigCluster, ChiefSeesTheWholeCluster) {
  const auto chief = parse_task("chief", 0);
  EXPECT_TRUE(chief.is_chief);
  EXPECT_EQ(chief.master, "grpc://host0:0");
  EXPECT_EQ(chief.num_ps_replicas, 2);
  EXPECT_EQ(chief.num_worker_replicas, 4);
  EXPECT_TRUE(chief.needs_server());
  EXPECT_EQ(chief.cluster.count(), 6);
}

TEST(TfConfigCluster, WorkerKnowsItsAddressAndIsNoChief) {
  const auto worker = parse_task("worker", 1);
  EXPECT_FALSE(worker.is_chief);
  EXPECT_EQ(worker.master, "grpc://host4:4");
  EXPECT_EQ(worker.evaluation_master, "");
  EXPECT_EQ(worker.task.name(), "worker:1");
}

TEST(TfConfigCluster, GlobalIdsAreChiefThenWorkersThenPs) {
  EXPECT_EQ(parse_task("chief", 0).global_id_in_cluster, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(parse_task("worker", i).global_id_in_cluster, 1 + i);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(parse_task("ps", i).global_id_in_cluster, 4 + i);
}

TEST(TfConfigCluster, OtherJobsAreNumberedByNameBetweenChiefAndPs) {
  const auto id = [](std::string_view task) {
    return parse_tf_config(with_cluster(
                               R"({"ps": ["p:1"], "zebra": ["z:1"], "apple": ["a:1", "a:2"],
                                   "chief": ["c:1"], "worker": ["w:1"]})",
                               task))
        .global_id_in_cluster;
  };
  EXPECT_EQ(id(R"({"type": "apple", "index": 1})"), 2);
  EXPECT_EQ(id(R"({"type": "worker", "index": 0})"), 3);
  EXPECT_EQ(id(R"({"type": "zebra", "index": 0})"), 4);
  EXPECT_EQ(id(R"({"type": "ps", "index": 0})"), 5);
}

TEST(TfConfigCluster, MasterIsTheChiefOfALegacyCluster) {
  const auto master =
      parse_tf_config(with_cluster(R"({"master": ["m:1"], "worker": ["w:1"], "ps": ["p:1"]})",
                                   R"({"type": "master", "index": 0})"));
  EXPECT_TRUE(master.is_chief);
  EXPECT_EQ(master.num_worker_replicas, 2);
  EXPECT_EQ(master.global_id_in_cluster, 0);
  EXPECT_EQ(master.master, "grpc://m:1");
}

TEST(TfConfigCluster, AClusterOfOneTaskStartsNoServer) {
  const auto chief =
      parse_tf_config(with_cluster(R"({"chief": ["h:1"]})", R"({"type": "chief", "index": 0})"));
  EXPECT_EQ(chief.master, "");
  EXPECT_FALSE(chief.needs_server());
  EXPECT_EQ(chief.num_worker_replicas, 1);
  EXPECT_FALSE(chief.cluster.empty());
}

TEST(TfConfigCluster, SessionMasterWinsAndGoogleStartsItsOwnServers) {
  const auto worker =
      parse_tf_config(config(R"({"type": "worker", "index": 0})",
                             R"(, "session_master": "grpc://other:9", "environment": "google")"));
  EXPECT_EQ(worker.master, "grpc://other:9");
  EXPECT_EQ(worker.environment, "google");
  EXPECT_FALSE(worker.needs_server());
}

TEST(TfConfigCluster, IndexMayBeANumericString) {
  EXPECT_EQ(parse_tf_config(config(R"({"type": "worker", "index": "2"})")).master,
            "grpc://host5:5");
}

TEST(TfConfigCluster, AJobMayBeAMapWithGaps) {
  const auto worker = parse_tf_config(
      with_cluster(R"({"chief": {"0": "c:1"}, "worker": {"7": "w:7"}, "ps": ["p:0", "p:1"]})",
                   R"({"type": "worker", "index": 7})"));
  EXPECT_EQ(worker.master, "grpc://w:7");
  EXPECT_EQ(worker.num_worker_replicas, 2);
  EXPECT_EQ(worker.global_id_in_cluster, 8);
  EXPECT_THAT(error_of(with_cluster(R"({"chief": ["c:1"], "worker": {"7": "w:7"}})",
                                    R"({"type": "worker", "index": 0})")),
              HasSubstr("task.index 0 is not an index of the job \"worker\""));
}

TEST(TfConfigPeers, WithPsAWorkerNeedsNoOtherWorker) {
  EXPECT_THAT(peer_names(parse_task("worker", 1)), ElementsAre("ps:0", "ps:1"));
  EXPECT_THAT(peer_names(parse_task("chief", 0)), ElementsAre("ps:0", "ps:1"));
  EXPECT_THAT(peer_names(parse_task("ps", 0)),
              ElementsAre("chief:0", "ps:1", "worker:0", "worker:1", "worker:2"));
  EXPECT_THAT(peer_names(parse_task("evaluator", 0)), IsEmpty());
}

TEST(TfConfigPeers, WithoutPsTheWorkersNeedEachOther) {
  const auto worker = parse_tf_config(with_cluster(
      R"({"chief": ["c:1"], "worker": ["w:0", "w:1"]})", R"({"type": "worker", "index": 1})"));
  EXPECT_THAT(peer_names(worker), ElementsAre("chief:0", "worker:0"));
  EXPECT_EQ(worker.peers[0].address, "c:1");
}

// --------------------------------------------------------------------------------- evaluator

TEST(TfConfigEvaluator, IsNoPartOfTheCluster) {
  const auto evaluator = parse_tf_config(
      config(R"({"type": "evaluator", "index": 12})", R"(, "eval_session_master": "grpc://e:1")"));
  EXPECT_TRUE(evaluator.is_evaluator());
  EXPECT_EQ(evaluator.task.index, 12);
  EXPECT_TRUE(evaluator.cluster.empty());
  EXPECT_FALSE(evaluator.is_chief);
  EXPECT_EQ(evaluator.master, "");
  EXPECT_EQ(evaluator.num_ps_replicas, 0);
  EXPECT_EQ(evaluator.num_worker_replicas, 0);
  EXPECT_EQ(evaluator.global_id_in_cluster, std::nullopt);
  EXPECT_EQ(evaluator.evaluation_master, "grpc://e:1");
  EXPECT_FALSE(evaluator.needs_server());
}

TEST(TfConfigEvaluator, ListedInTheClusterChangesNothingForTheOthers) {
  constexpr std::string_view kListed =
      R"({"chief": ["c:1"], "worker": ["w:1"], "evaluator": ["e:1"]})";
  constexpr std::string_view kUnlisted = R"({"chief": ["c:1"], "worker": ["w:1"]})";
  for (const char* task : {R"({"type": "chief", "index": 0})", R"({"type": "worker", "index": 0})",
                           R"({"type": "evaluator", "index": 0})"}) {
    SCOPED_TRACE(task);
    const auto listed = parse_tf_config(with_cluster(kListed, task));
    const auto unlisted = parse_tf_config(with_cluster(kUnlisted, task));
    EXPECT_EQ(listed.cluster, unlisted.cluster);
    EXPECT_EQ(listed.master, unlisted.master);
    EXPECT_EQ(listed.global_id_in_cluster, unlisted.global_id_in_cluster);
    EXPECT_EQ(listed.peers, unlisted.peers);
    EXPECT_EQ(listed.evaluators.at(0), "e:1");
  }
}

TEST(TfConfigEvaluator, DoesNotGoWithMaster) {
  EXPECT_THAT(error_of(with_cluster(R"({"master": ["m:1"], "worker": ["w:1"]})",
                                    R"({"type": "evaluator", "index": 0})")),
              HasSubstr("\"evaluator\" does not go with a \"master\""));
}

// ------------------------------------------------------------------------------------ errors

TEST(TfConfigErrors, ChiefIsMissingOrGivenTwice) {
  EXPECT_THAT(error_of(with_cluster(R"({"worker": ["w:1"]})", R"({"type": "worker", "index": 0})")),
              AllOf(HasSubstr("must have one \"chief\""), HasSubstr("w:1")));
  EXPECT_THAT(
      error_of(with_cluster(R"({"chief": ["a:1", "b:1"]})", R"({"type": "chief", "index": 0})")),
      HasSubstr("only one \"chief\" task, but has 2"));
  EXPECT_THAT(
      error_of(with_cluster(R"({"master": ["a:1", "b:1"]})", R"({"type": "master", "index": 0})")),
      HasSubstr("only one \"master\" task, but has 2"));
  EXPECT_THAT(error_of(with_cluster(R"({"chief": ["a:1"], "master": ["b:1"]})",
                                    R"({"type": "chief", "index": 0})")),
              HasSubstr("both \"master\" and \"chief\""));
}

TEST(TfConfigErrors, TaskTypeAndIndexHaveTheirOwn) {
  EXPECT_THAT(error_of(config(R"({"index": 0})")), HasSubstr("task.type must be set"));
  EXPECT_THAT(error_of(config(R"({"type": "", "index": 0})")), HasSubstr("task.type must be set"));
  EXPECT_THAT(error_of(config(R"({"type": "worker"})")), HasSubstr("task.index must be set"));
  EXPECT_THAT(error_of(config(R"({"type": "worker", "index": -1})")),
              HasSubstr("task.index must not be negative: -1"));
  EXPECT_THAT(error_of(config(R"({"type": "local", "index": 0})")),
              HasSubstr("leave out both cluster and task"));
  for (const char* index : {"1.5", "true", "\"one\"", "\"1 \"", "null", "99999999999"}) {
    EXPECT_THAT(error_of(config(R"({"type": "worker", "index": )" + std::string(index) + "}")),
                HasSubstr("task.index must be a whole number"))
        << index;
  }
}

TEST(TfConfigErrors, ATaskOutsideTheClusterIsToldTheClusterAndWhereItComesFrom) {
  EXPECT_THAT(error_of(config(R"({"type": "cook", "index": 0})")),
              AllOf(HasSubstr("task.type \"cook\" is not a job"), HasSubstr("host3:3"),
                    HasSubstr("environment variable TF_CONFIG")));
  EXPECT_THAT(error_of(config(R"({"type": "worker", "index": 3})")),
              AllOf(HasSubstr("task.index 3 is not an index of the job \"worker\""),
                    HasSubstr("host3:3"), HasSubstr("environment variable TF_CONFIG")));
}

TEST(TfConfigErrors, WrongTypesNameTheirPath) {
  const auto cluster_error = [](std::string_view cluster) {
    return error_of(with_cluster(cluster, "{}"));
  };
  EXPECT_THAT(error_of("[]"), HasSubstr("the whole must be a map"));
  EXPECT_THAT(cluster_error("[]"), HasSubstr("cluster must be a map, but is array"));
  EXPECT_THAT(cluster_error(R"({"worker": "w:1"})"), HasSubstr("cluster.worker must be a list"));
  EXPECT_THAT(cluster_error(R"({"worker": ["w:1", 2]})"),
              HasSubstr("cluster.worker[1] must be a string, but is number: 2"));
  EXPECT_THAT(cluster_error(R"({"worker": {"x": "w:1"}})"), HasSubstr("\"x\" is no index"));
  EXPECT_THAT(cluster_error(R"({"worker": {"1": "w:1", "01": "w:2"}})"),
              HasSubstr("cluster.worker gives index 1 twice"));
  EXPECT_THAT(cluster_error(R"({"worker": ["nohost"]})"), HasSubstr("cluster.worker[0]"));
  EXPECT_THAT(error_of(R"({"task": 1})"), HasSubstr("task must be a map, but is number"));
  EXPECT_THAT(error_of(R"({"service": "x"})"), HasSubstr("service must be a map"));
  EXPECT_THAT(error_of(R"({"model_dir": ""})"), HasSubstr("model_dir must not be empty"));
  EXPECT_THAT(error_of(R"({"environment": 1})"), HasSubstr("environment must be a string"));
}

TEST(TfConfigErrors, BadJsonIsToldWithKeyAndByte) {
  EXPECT_THAT(error_of(R"({"cluster": {"worker": ["a:1",]}})"),
              AllOf(HasSubstr("TF_CONFIG: not valid JSON at byte 31"), HasSubstr("\"worker\"")));
  EXPECT_THAT(error_of("{\"a\": \"\xff\"}"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(error_of("{"), HasSubstr("not valid JSON at byte 2"));
}

TEST(TfConfigErrors, SizeAndDepthAreBounded) {
  EXPECT_THAT(error_of(std::string(kMaxTfConfigBytes + 1, '[')), HasSubstr("longer than"));
  EXPECT_THAT(error_of("{\"a\": " + std::string(10'000, '[')), HasSubstr("nested deeper"));
}

// -------------------------------------------------------------------------------- other keys

TEST(TfConfig, KeepsTrialEnvironmentModelDirServiceAndJob) {
  const auto environment = parse_tf_config(
      config(R"({"type": "chief", "index": 0, "trial": "3", "cloud": "x"})",
             R"(, "environment": "cloud", "model_dir": "runs/a", "service": {"k": "v"},
                  "job": {"args": ["--x", "1"]})"));
  EXPECT_EQ(environment.trial, "3");
  EXPECT_EQ(environment.environment, "cloud");
  EXPECT_EQ(environment.model_dir, "runs/a");
  EXPECT_EQ(environment.service_json, R"({"k":"v"})");
  EXPECT_EQ(environment.job_json, R"({"args":["--x","1"]})");
  EXPECT_THAT(environment.warnings, IsEmpty());
  EXPECT_EQ(parse_tf_config(R"({"task": {"trial": 5}})").trial, "5");
}

TEST(TfConfig, UnknownKeysAndSharedAddressesWarn) {
  const auto environment =
      parse_tf_config(R"({"cluster": {"chief": ["a:1"], "worker": ["a:1"]}, "colour": {},
                          "task": {"type": "chief", "index": 0, "weight": 1}})");
  EXPECT_THAT(environment.warnings,
              ElementsAre(HasSubstr("unknown key \"colour\""), HasSubstr("task.\"weight\""),
                          AllOf(HasSubstr("chief:0 and worker:0"), HasSubstr("a:1"))));
}

TEST(TfConfig, AKeyThatIsNearlyAnotherIsASlip) {
  EXPECT_THAT(error_of(R"({"clutser": {"chief": ["a:1"]}})"),
              HasSubstr("unknown key \"clutser\"; write \"cluster\" if that is meant"));
  EXPECT_THAT(error_of(R"({"task": {"type": "chief", "indx": 1}})"),
              HasSubstr("unknown key task.\"indx\"; write \"index\""));
}

TEST(TfConfig, TheEnvironmentVariableIsReadAndItsWarningsAreLogged) {
  std::vector<std::string> lines;
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  ::setenv("TF_CONFIG", R"({"colour": "red", "environment": "cloud"})", 1);
  EXPECT_EQ(task_environment_from_env().environment, "cloud");
  ::unsetenv("TF_CONFIG");
  expect_alone(task_environment_from_env());
  log::set_sink({});
  EXPECT_THAT(lines, Contains(HasSubstr("unknown key \"colour\"")));
  EXPECT_THAT(lines, Not(IsEmpty()));
}

}  // namespace
}  // namespace muster
