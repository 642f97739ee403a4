#include "muster/platform/cluster/process_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error.h"
#include "muster/platform/cluster/explanation.h"
#include "muster/platform/cluster/slurm_node_list.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;

std::string error_of(const EnvironmentVariables& variables) {
  return message_of([&] { read_task_environment(variables); });
}

EnvironmentVariables with(EnvironmentVariables variables, const EnvironmentVariables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const EnvironmentVariables kHosts{{"JOB_NAME", "worker"},
                                  {"TASK_INDEX", "1"},
                                  {"PS_HOSTS", "p0:1, p1:2"},
                                  {"WORKER_HOSTS", "w0:3,w1:4"}};
const EnvironmentVariables kTorchrun{
    {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
const EnvironmentVariables kSlurm{{"SLURM_JOB_ID", "1000"},
                                  {"SLURM_STEP_ID", "0"},
                                  {"SLURM_PROCID", "3"},
                                  {"SLURM_NODEID", "1"},
                                  {"SLURM_STEP_NUM_TASKS", "5"},
                                  {"SLURM_STEP_NODELIST", "n[1-2],big"},
                                  {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"}};
const EnvironmentVariables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "3"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                   {"PMIX_NAMESPACE", "1234"}};

TEST(ProcessEnvironment, WithoutAnyVariableItIsAlone) {
  const TaskEnvironment environment = read_task_environment({{"HOME", "/root"}});
  EXPECT_TRUE(environment.is_alone());
  EXPECT_TRUE(environment.is_chief);
  EXPECT_EQ(environment.source, "");
}

// ------------------------------------------------------------------------------------ host lists

TEST(HostsEnvironment, WithoutAMasterWorkerZeroIsTheChiefAndTheOthersCountFromZero) {
  const TaskEnvironment environment = read_task_environment(kHosts);
  EXPECT_EQ(environment.source, "JOB_NAME");
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 0}));
  EXPECT_EQ(environment.cluster.to_string(),
            R"({"chief": ["w0:3"], "ps": ["p0:1", "p1:2"], "worker": ["w1:4"]})");
  EXPECT_EQ(environment.num_worker_replicas, 2);
  const TaskEnvironment chief = read_task_environment(with(kHosts, {{"TASK_INDEX", "0"}}));
  EXPECT_TRUE(chief.is_chief);
  EXPECT_EQ(chief.task, (TaskSpec{"chief", 0}));
}

TEST(HostsEnvironment, TakesAMasterHostThatIsAPlainString) {
  const TaskEnvironment environment = read_task_environment(with(kHosts, {{"MASTER_HOST", "m:9"}}));
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 1}));
  EXPECT_EQ(environment.cluster.address("master", 0), "m:9");
  EXPECT_EQ(environment.num_worker_replicas, 3);
}

TEST(HostsEnvironment, WorkersWithoutPsAreACluster) {
  const TaskEnvironment environment = read_task_environment(with(kHosts, {{"PS_HOSTS", ""}}));
  EXPECT_EQ(environment.num_worker_replicas, 2);
  EXPECT_FALSE(environment.is_chief);
  EXPECT_EQ(default_strategy(environment), "collective");
}

TEST(HostsEnvironment, RefusesWhatIsMissingOrContradictsAndNamesIt) {
  EXPECT_THAT(error_of(with(kHosts, {{"TASK_INDEX", "2"}})), HasSubstr("worker:2 is not a task"));
  EXPECT_THAT(error_of(with(kHosts, {{"TASK_INDEX", "x"}})), HasSubstr("TASK_INDEX"));
  EXPECT_THAT(error_of(with(kHosts, {{"JOB_NAME", "boss"}})), HasSubstr("not \"boss\""));
  EXPECT_THAT(error_of(with(kHosts, {{"JOB_NAME", ""}})), HasSubstr("JOB_NAME is not set"));
  EXPECT_THAT(error_of(with(kHosts, {{"MASTER_HOST", "a:1,b:1"}})), HasSubstr("MASTER_HOST"));
  EXPECT_THAT(error_of(with(kHosts, {{"WORKER_HOSTS", "w0:3,w1"}})),
              HasSubstr("cluster.worker[1]"));
  EXPECT_THAT(error_of({{"JOB_NAME", "worker"}, {"TASK_INDEX", "1"}}),
              HasSubstr("list the hosts of all tasks"));
}

TEST(HostsEnvironment, JobNameAloneMeansNothing) {
  const EnvironmentVariables jenkins{{"JOB_NAME", "nightly/build"}};
  EXPECT_TRUE(read_task_environment(jenkins).is_alone());
  EXPECT_THAT(explain(jenkins), HasSubstr("not read   JOB_NAME (not enough to mean a place)"));
}

// ------------------------------------------------------------------------------------------ RANK

TEST(RankEnvironment, KnowsTheTaskTheCountAndWhereToMeet) {
  const TaskEnvironment environment = read_task_environment(kTorchrun);
  EXPECT_EQ(environment.source, "RANK");
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 1}));
  EXPECT_EQ(environment.num_worker_replicas, 4);
  EXPECT_EQ(environment.global_id_in_cluster, 2);
  EXPECT_FALSE(environment.is_chief);
  EXPECT_FALSE(environment.is_alone());
  EXPECT_EQ(environment.rendezvous, (Rendezvous{.address = "node0:29500"}));
  EXPECT_TRUE(read_task_environment(with(kTorchrun, {{"RANK", "0"}})).is_chief);
}

TEST(RankEnvironment, SeesThatTorchrunsAgentRunsTheStore) {
  const auto environment = read_task_environment(
      with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_ADDR", "fe80::1"}}));
  EXPECT_EQ(environment.rendezvous, (Rendezvous{.address = "[fe80::1]:29500", .is_running = true}));
}

TEST(RankEnvironment, OneOfOneIsAlone) {
  EXPECT_TRUE(read_task_environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).is_alone());
}

TEST(RankEnvironment, RefusesWhatIsMissingOrContradictsAndNamesIt) {
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "4"}})), HasSubstr("RANK is 4"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"RANK", "-1"}})), HasSubstr("RANK must be"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR is not"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", ""}})), HasSubstr("MASTER_PORT is not"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT must"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MASTER_ADDR", "a b"}})), HasSubstr("MASTER_ADDR must"));
  EXPECT_THAT(error_of(with(kTorchrun, {{"MUSTER_NUM_PS", "1"}})), HasSubstr("MUSTER_NUM_PS"));
}

// ---------------------------------------------------------------------------------------- Slurm

TEST(SlurmNodeList, ExpandsRangesWithTheirZeros) {
  EXPECT_THAT(expand_slurm_node_list("n[1-3,7]"), ElementsAre("n1", "n2", "n3", "n7"));
  EXPECT_THAT(expand_slurm_node_list("gpu[08-10],login"),
              ElementsAre("gpu08", "gpu09", "gpu10", "login"));
  EXPECT_THAT(expand_slurm_node_list("r[1-2]n[0,5].x"),
              ElementsAre("r1n0.x", "r1n5.x", "r2n0.x", "r2n5.x"));
  EXPECT_THAT(expand_slurm_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
}

TEST(SlurmNodeList, RefusesDamageAndEndlessLists) {
  for (const char* list :
       {"", "n[1-", "n[]", "n[1-3,]", "n[3-1]", "n[a]", "n],m", "a,", "a,,b",
        "n[1-99999999999999999999]", "n[0-9999999]", "a b", "n[1-9999]x[1-9999]"}) {
    EXPECT_THAT(message_of([&] { expand_slurm_node_list(list); }), HasSubstr("node list")) << list;
  }
  std::string deep;
  for (int i = 0; i < 40'000; ++i) deep += "[1]";
  for (const std::string& list : {std::string(100'000, 'n') + "[1-60000]", deep, "n" + deep}) {
    EXPECT_THAT(message_of([&] { expand_slurm_node_list(list); }), HasSubstr("node list"));
  }
  for (const char* counts : {"", "x", "2(x", "2(x3", "2(x3),", "1(x99999999)", "-1"}) {
    EXPECT_THAT(message_of([&] { expand_slurm_counts(counts); }), HasSubstr("per node")) << counts;
  }
}

TEST(SlurmEnvironment, NumbersTasksHostByHostWithPortsThatFollowFromTheJob) {
  const TaskEnvironment environment = read_task_environment(kSlurm);
  EXPECT_EQ(environment.source, "SLURM");
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 2}));
  // 1000 % 300 jobs of 64 ports each.
  EXPECT_EQ(
      environment.cluster.to_string(),
      R"({"chief": ["n1:18400"], "worker": ["n1:18401", "n2:18400", "n2:18401", "big:18400"]})");
}

TEST(SlurmEnvironment, GivesTheLastTasksToPsWhereAsked) {
  const TaskEnvironment environment = read_task_environment(
      with(kSlurm, {{"MUSTER_NUM_PS", "2"}, {"MUSTER_CLUSTER_PORT", "2222"}}));
  EXPECT_EQ(environment.task, (TaskSpec{"ps", 0}));
  EXPECT_EQ(
      environment.cluster.to_string(),
      R"({"chief": ["n1:2222"], "ps": ["n2:2223", "big:2222"], "worker": ["n1:2223", "n2:2222"]})");
  EXPECT_THAT(error_of(with(kSlurm, {{"MUSTER_NUM_PS", "5"}})), HasSubstr("MUSTER_NUM_PS"));
}

TEST(SlurmEnvironment, NumbersTasksInTurnWhenTheyAreDealtInTurn) {
  const TaskEnvironment environment = read_task_environment(
      with(kSlurm, {{"SLURM_DISTRIBUTION", "cyclic"}, {"SLURM_NODEID", "0"}}));
  EXPECT_EQ(
      environment.cluster.to_string(),
      R"({"chief": ["n1:18400"], "worker": ["n2:18400", "big:18400", "n1:18401", "n2:18401"]})");
}

TEST(SlurmEnvironment, RefusesWhatContradicts) {
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_PROCID", "5"}})), HasSubstr("SLURM_PROCID is 5"));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_NODEID", "2"}})), HasSubstr("--distribution"));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "3,3"}})),
              HasSubstr("6 tasks on 2 hosts"));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_STEP_NODELIST", "n["}})),
              HasSubstr("SLURM_STEP_NODELIST: "));
  EXPECT_THAT(error_of(with(kSlurm, {{"SLURM_STEP_NODELIST", ""}})), HasSubstr("are unknown"));
}

TEST(SlurmEnvironment, AJobScriptItselfIsAloneAndSaysWhy) {
  const TaskEnvironment environment =
      read_task_environment({{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}});
  EXPECT_TRUE(environment.is_alone());
  EXPECT_THAT(environment.warnings, ElementsAre(HasSubstr("srun did not start this process")));
}

// -------------------------------------------------------------------------------------- Open MPI

TEST(OpenMpiEnvironment, RanksOfOneHostMeetOnLoopback) {
  const TaskEnvironment environment = read_task_environment(kMpirun);
  EXPECT_EQ(environment.source, "OMPI");
  EXPECT_EQ(environment.task, (TaskSpec{"worker", 0}));
  EXPECT_EQ(environment.cluster.count(), 3);
  EXPECT_THAT(environment.master, HasSubstr("grpc://127.0.0.1:"));
  // Ranks must agree on all addresses.
  EXPECT_EQ(read_task_environment(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}})).cluster,
            environment.cluster);
}

TEST(OpenMpiEnvironment, RanksOfSeveralHostsNeedAPlaceToMeet) {
  const auto apart = with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THAT(error_of(apart), HasSubstr("mpirun -x MASTER_ADDR=HOST"));
  const auto environment =
      read_task_environment(with(apart, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}}));
  EXPECT_EQ(environment.rendezvous, (Rendezvous{.address = "h:1"}));
  EXPECT_EQ(environment.source, "OMPI");
}

// ------------------------------------------------------------------------------------ precedence

TEST(Precedence, TfConfigComesFirstAndAContradictionIsAWarning) {
  const EnvironmentVariables config{
      {"TF_CONFIG",
       R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}})"}};
  const TaskEnvironment environment = read_task_environment(with(kTorchrun, config));
  EXPECT_EQ(environment.task, (TaskSpec{"chief", 0}));
  EXPECT_THAT(environment.warnings,
              ElementsAre(AllOf(HasSubstr("TF_CONFIG decides"), HasSubstr("chief:0 of 2 workers"),
                                HasSubstr("RANK would make it worker:1 of 4 workers"))));
}

TEST(Precedence, FormsThatAgreeAreSilent) {
  const TaskEnvironment environment = read_task_environment(
      with(kSlurm,
           {{"RANK", "3"}, {"WORLD_SIZE", "5"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}));
  EXPECT_EQ(environment.source, "RANK");
  EXPECT_THAT(environment.warnings, IsEmpty());
}

TEST(Precedence, MpirunInsideSlurmCountsItsOwnRanks) {
  EXPECT_EQ(read_task_environment(with(kSlurm, kMpirun)).source, "OMPI");
}

TEST(Precedence, AWrongFormIsAnErrorAndNotSkipped) {
  EXPECT_THAT(error_of(with(kSlurm, {{"TF_CONFIG", "{"}})), HasSubstr("TF_CONFIG: not valid JSON"));
}

TEST(Precedence, ATfConfigWithoutAClusterMeansAlone) {
  const auto environment = read_task_environment(with(kHosts, {{"TF_CONFIG", "{}"}}));
  EXPECT_TRUE(environment.is_alone());
  EXPECT_EQ(environment.source, "TF_CONFIG");
}

// ----------------------------------------------------------------------------------- explanation

TEST(Explanation, ShowsSourcesTableTaskPeersAndStrategy) {
  EXPECT_EQ(explain(kHosts), R"(read       JOB_NAME, TASK_INDEX, PS_HOSTS, WORKER_HOSTS

task      address
chief:0   w0:3     not talked to
ps:0      p0:1     peer
ps:1      p1:2     peer
worker:0  w1:4     this task

this task  worker:0: trains
chief      chief:0 at w0:3
peers      ps:0 at p0:1, ps:1 at p1:2
replicas   2 by default: 2 tasks with one device each
strategy   parameter server, synchronous by default: the cluster has ps
)");
}

TEST(Explanation, OfARendezvousSaysWhereTasksMeet) {
  EXPECT_THAT(explain(kTorchrun),
              AllOf(HasSubstr("found through the store at node0:29500, which the chief starts"),
                    HasSubstr("collective by default"), Not(HasSubstr("address"))));
}

TEST(Explanation, NamesEveryVariableThatWasRead) {
  EXPECT_THAT(explain(with(kSlurm, {{"MUSTER_NUM_PS", "1"}})),
              AllOf(HasSubstr("SLURM_STEP_TASKS_PER_NODE"), HasSubstr("MUSTER_NUM_PS")));
}

TEST(Explanation, AsJsonHoldsTheSame) {
  EXPECT_EQ(explain_json(with(kHosts, {{"PS_HOSTS", "p0:1"}})), R"({
  "source": "JOB_NAME",
  "task": {
    "type": "worker",
    "index": 0
  },
  "is_chief": false,
  "is_alone": false,
  "cluster": {
    "chief": {
      "0": "w0:3"
    },
    "ps": {
      "0": "p0:1"
    },
    "worker": {
      "0": "w1:4"
    }
  },
  "rendezvous": null,
  "peers": [
    {
      "task": "ps:0",
      "address": "p0:1"
    }
  ],
  "num_worker_replicas": 2,
  "num_ps_replicas": 1,
  "global_id_in_cluster": 1,
  "strategy": "parameter server, synchronous",
  "warnings": []
})");
  EXPECT_THAT(explain_json(kTorchrun), HasSubstr(R"("rendezvous": "node0:29500")"));
}

TEST(Explanation, NamesWhatCannotWork) {
  const EnvironmentVariables odd{
      {"TF_CONFIG",
       R"({"cluster": {"chief": ["localhost:0"], "worker": ["far:1"]}, "colour": 1,
           "task": {"type": "chief", "index": 0}})"}};
  EXPECT_THAT(explain(odd), AllOf(HasSubstr("chief:0 at localhost:0 has port 0"),
                                  HasSubstr("while worker:0 at far:1 is elsewhere"),
                                  HasSubstr("unknown key \"colour\"")));
}

}  // namespace
}  // namespace muster
