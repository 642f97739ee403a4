// `muster jobs --backend slurm` against a real slurmctld, with four slurmd on this host.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include "latest_hash.h"
#include "muster/base/file_system.h"
#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/slurm.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using jobs::Job;
using jobs::JobStore;
using jobs::State;
using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using testing::RunningProgram;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;
using testing::operator+;

constexpr int kNodes = 4;

constexpr const char* kSlurmMachines =
    "machineTypes:\n"
    "  tiny: {cpus: 0.5, memoryGb: 0.05}\n"
    "  whole: {cpus: 2, memoryGb: 0.05}\n"
    "scaleTiers:\n"
    "  ONE: {masterType: tiny}\n"
    "  NODE: {masterType: whole}\n"
    "  FOUR: {masterType: tiny, workerType: tiny, workerCount: 2,\n"
    "         parameterServerType: tiny, parameterServerCount: 1}\n";

std::string program_path(const std::string& name) {
  for (const char* folder : {"/usr/sbin/", "/usr/bin/", "/usr/local/sbin/", "/usr/local/bin/"}) {
    if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
  }
  return "";
}

// Why no Slurm can be started here; empty if one can.
std::string reason_to_skip() {
  if (::geteuid() != 0) return "slurmd needs root";
  for (const char* name : {"munged", "slurmctld", "slurmd", "sbatch"}) {
    if (program_path(name).empty()) {
      return fmt::format("there is no {}: install slurm-wlm and munge", name);
    }
  }
  return "";
}

// Slurm looks up addresses only on a host that has one beside 127.0.0.1.
void set_address(const char* interface, const char* address) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
  auto* const to = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
  to->sin_family = AF_INET;
  ::inet_pton(AF_INET, address, &to->sin_addr);
  EXPECT_EQ(::ioctl(socket, SIOCSIFADDR, &request), 0) << std::strerror(errno);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  EXPECT_EQ(::ioctl(socket, SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  ::close(socket);
}

// A network of its own keeps the ports apart from whatever runs on this host; where that is not
// allowed, the host's is used.
void enter_own_network() {
  if (::unshare(CLONE_NEWNET) != 0) return;
  set_address("lo", "127.0.0.1");
  set_address("lo:1", "192.0.2.1");
}

// munged, slurmctld and slurmd, as long as it lives.
class SlurmCluster {
 public:
  SlurmCluster() {
    enter_own_network();
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    for (const char* folder : {"state", "log", "spool"}) {
      std::filesystem::create_directories(dir_ / folder);
    }
    write_bytes(dir_ / "slurm.conf", configuration(host, 26817));
    write_bytes(dir_ / "nobody.conf", configuration(host, 26816));
    write_bytes(dir_ / "munge.key", std::string(128, 'k'));
    std::filesystem::permissions(dir_ / "munge.key", std::filesystem::perms::owner_read |
                                                         std::filesystem::perms::owner_write);
    munged_ = std::make_unique<RunningProgram>(
        program_path("munged"),
        Words{"--foreground", "--force", "--key-file=" + (dir_ / "munge.key").string(),
              "--socket=" + (dir_ / "munge.socket").string(),
              "--pid-file=" + (dir_ / "munged.pid").string(),
              "--seed-file=" + (dir_ / "munge.seed").string()});
    eventually([&] { return std::filesystem::exists(dir_ / "munge.socket"); });
    controller_ = std::make_unique<RunningProgram>(program_path("slurmctld"),
                                                   Words{"-D", "-c", "-f", dir_ / "slurm.conf"});
    for (int i = 0; i < kNodes; ++i) start_node(i);
    is_up_ = eventually([&] {
      return run("sinfo", {"--noheader", "--states=idle", "--format=%D"}).out ==
             fmt::format("{}\n", kNodes);
    });
  }
  /// Why it did not come up: a container may keep its daemons from what they need. Empty if it did.
  std::string failure() const {
    return is_up_ ? "" : "no Slurm comes up on this host: " + controller_->err();
  }

  void start_node(int i) {
    const std::string name = fmt::format("n{}", i);
    std::filesystem::create_directories(dir_ / "spool" / name);
    nodes_[i] = std::make_unique<RunningProgram>(
        program_path("slurmd"), Words{"-D", "-N", name, "-f", dir_ / "slurm.conf"});
  }
  // As a power cut does: slurmd and the tasks of the node are gone. The test does not wait for
  // Slurm to miss it.
  void kill_node(int i) {
    nodes_[i].reset();
    const std::string name = fmt::format("n{}", i);
    int killed = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      if (is_task_of(entry.path(), name) && ::kill(std::stoi(pid), SIGKILL) == 0) ++killed;
    }
    EXPECT_GT(killed, 0);
    run("scontrol", {"update", "NodeName=" + name, "State=DOWN", "Reason=killed"});
  }
  Outcome run(const std::string& program, const Words& words) const {
    return testing::run_program(program_path(program), words, environment());
  }
  std::vector<std::string> environment() const {
    return {"SLURM_CONF=" + (dir_ / "slurm.conf").string()};
  }
  Path configuration_of_nobody() const { return dir_ / "nobody.conf"; }

 private:
  bool is_task_of(const Path& process, const std::string& node) const {
    std::ifstream file(process / "environ", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const auto has = [&](const std::string& entry) {
      return (std::string(1, '\0') + text).find('\0' + entry + '\0') != std::string::npos;
    };
    return has("SLURMD_NODENAME=" + node) && has(environment().front());
  }

  std::string configuration(const std::string& host, int port) const {
    const std::string folder = dir_.path().string();
    return fmt::format(
        "ClusterName=test\nSlurmctldHost={0}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
        "AuthType=auth/munge\nAuthInfo=socket={1}/munge.socket\nSlurmctldPort={2}\n"
        "StateSaveLocation={1}/state\nSlurmdSpoolDir={1}/spool/%n\nSlurmctldPidFile={1}/ctld.pid\n"
        "SlurmdPidFile={1}/spool/%n.pid\nSlurmctldLogFile={1}/log/ctld.log\n"
        "SlurmdLogFile={1}/log/%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
        "SwitchType=switch/none\nMpiDefault=none\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_Core\nAccountingStorageType=accounting_storage/none\n"
        "JobAcctGatherType=jobacct_gather/none\nJobCompType=jobcomp/none\nReturnToService=2\n"
        "SlurmctldTimeout=30\nSlurmdTimeout=30\nKillWait=5\nMessageTimeout=5\n"
        "SchedulerParameters=sched_interval=1,bf_interval=1\nSlurmdParameters=config_overrides\n"
        "NodeName=n[0-{3}] NodeHostname={0} NodeAddr=127.0.0.1 Port=[26820-{4}] CPUs=2 "
        "RealMemory=1000 State=UNKNOWN\n"
        "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        "PartitionName=short Nodes=ALL MaxTime=1 State=UP\n",
        host, folder, port, kNodes - 1, 26820 + kNodes - 1);
  }

  TempDir dir_;
  bool is_up_ = false;
  std::unique_ptr<RunningProgram> munged_;
  std::unique_ptr<RunningProgram> controller_;
  std::unique_ptr<RunningProgram> nodes_[kNodes];
};

class SlurmJobs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (reason_to_skip().empty()) cluster_ = std::make_unique<SlurmCluster>();
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  void SetUp() override {
    if (const auto reason = reason_to_skip(); !reason.empty()) GTEST_SKIP() << reason;
    if (!cluster_->failure().empty()) GTEST_SKIP() << cluster_->failure();
    write_bytes(dir_ / "machines.yaml", kSlurmMachines);
  }
  void TearDown() override {
    if (!cluster_ || !cluster_->failure().empty()) return;
    cluster_->run("scancel", {"--user=root"});
    EXPECT_TRUE(eventually([] { return cluster_->run("squeue", {"--noheader"}).out.empty(); }));
  }

  Outcome muster(const Words& words) const {
    return testing::run_program(
        MUSTER_PROGRAM, Words{"jobs"} + words,
        cluster_->environment() + Words{"MUSTER_JOBS_DIR=" + store_.folder().string(),
                                        "MUSTER_MACHINES=" + (dir_ / "machines.yaml").string()});
  }
  Outcome submit(const std::string& name, const Words& flags, const Words& program) const {
    return muster(Words{"submit", "training", name, "--backend", "slurm"} + flags + Words{"--"} +
                  program);
  }
  // $dir is the folder of the test, $type and $index who the task is.
  Words script(const std::string& text) const {
    write_bytes(
        dir_ / "script.sh",
        "dir=$1\ntype=$(echo \"$TF_CONFIG\" | sed 's/.*\"type\":\"\\([a-z]*\\)\".*/\\1/')\n" +
            text);
    return {"/bin/sh", dir_ / "script.sh", dir_.path().string()};
  }
  State state(const std::string& name) const {
    muster({"describe", name});
    return store_.read(name).state;
  }
  State end_of(const std::string& name) const {
    const Outcome waited = muster({"wait", name, "--timeout", "100"});
    EXPECT_EQ(waited.err.find("is still"), std::string::npos) << waited.err << service_log(name);
    return store_.read(name).state;
  }
  std::string service_log(const std::string& name) const {
    const Path log = store_.folder_of(name) / "service.log";
    return std::filesystem::exists(log) ? read_bytes(log) : "";
  }
  // Slurm lets jobs that are queued again wait for two minutes. One that starts in the second in
  // which its last run was ended is refused by the nodes.
  bool is_back_in_the_queue(const std::string& name) const {
    if (state(name) != State::kQueued) return false;
    const Job job = store_.read(name);
    if (job.local.attempts == 0) return false;
    return cluster_->run("scontrol", {"update", "JobId=" + slurm_run(job).id, "StartTime=now+3"})
               .status == 0;
  }

  inline static std::unique_ptr<SlurmCluster> cluster_;
  TempDir dir_;
  const JobStore store_{dir_ / "jobs"};
};

TEST_F(SlurmJobs, OfFourTasksAreStreamedToTheirEnd) {
  const Outcome run =
      submit("a", {"--scale-tier", "FOUR", "--grace", "1", "--stream-logs"},
             script("echo \"I am $type of $TF_CONFIG\"; [ $type != ps ] || exec sleep 60"));
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("Job [a] submitted successfully."));
  for (const char* task : {"master-replica-0\t\tI am master", "worker-replica-0\t\tI am worker",
                           "worker-replica-1\t\tI am worker", "ps-replica-0\t\tI am ps"}) {
    EXPECT_THAT(run.out, HasSubstr(task));
  }
  const Job job = store_.read("a");
  EXPECT_EQ(job.state, State::kSucceeded) << service_log("a");
  EXPECT_EQ(job.local.exit_status, 0);
  EXPECT_EQ(job.local.attempts, 1);
  EXPECT_TRUE(job.start_time && job.end_time);
  struct stat secret {};
  ASSERT_EQ(::stat((store_.folder_of("a") / "secret").c_str(), &secret), 0);
  EXPECT_EQ(secret.st_mode & 0777, 0600U);
  EXPECT_THAT(muster({"list"}).out, HasSubstr("a       SUCCEEDED"));
  EXPECT_EQ(muster({"delete", "a"}).status, 0);
}

TEST_F(SlurmJobs, ThatFailSayWhichReplicaAndHow) {
  EXPECT_EQ(submit("a", {"--scale-tier", "FOUR", "--grace", "1", "--restarts", "0"},
                   script("[ $type != master ] || exit 3; exec sleep 60"))
                .status,
            0);
  EXPECT_EQ(end_of("a"), State::kFailed);
  EXPECT_EQ(store_.read("a").error_message,
            "The replica master 0 exited with a non-zero status of 3.");
  // Each line has a stamp of its own, those of Slurm's commands too.
  EXPECT_THAT(service_log("a"), HasSubstr(" W service srun: error: "));
  EXPECT_THAT(service_log("a"), Not(HasSubstr("\nsrun")));
}

TEST_F(SlurmJobs, AreRestartedAndQueuedAgainAsTheirStatusSays) {
  submit("a", {"--scale-tier", "ONE", "--restarts", "1"},
         script("echo run >> $dir/notes; [ $(wc -l < $dir/notes) -ge 3 ] || exit 75"));
  EXPECT_TRUE(eventually([&] { return is_back_in_the_queue("a"); })) << service_log("a");
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  EXPECT_EQ(read_bytes(dir_ / "notes"), "run\nrun\nrun\n");
  EXPECT_EQ(store_.read("a").local.attempts, 2);
  EXPECT_EQ(store_.read("a").local.retries, 1);
}

TEST_F(SlurmJobs, WithHyperparametersAreStudiesInOneAllocation) {
  write_bytes(dir_ / "study.yaml",
              "trainingInput:\n  scaleTier: ONE\n  hyperparameters:\n    goal: MINIMIZE\n"
              "    hyperparameterMetricTag: loss\n    maxTrials: 3\n    params:\n"
              "      - {parameterName: x, type: INTEGER, minValue: 1, maxValue: 3}\n"
              "    algorithm: GRID_SEARCH\n");
  submit("a", {"--config", dir_ / "study.yaml", "--job-dir", dir_ / "out"},
         script("echo $SLURM_JOB_ID >> $dir/ids\n"
                "for word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n"
                "echo \"{\\\"loss\\\": \\\"$x\\\", \\\"global_step\\\": \\\"1\\\"}\" > "
                "$CLOUD_ML_HP_METRIC_FILE"));
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  const std::string id = slurm_run(store_.read("a")).id;
  EXPECT_EQ(read_bytes(dir_ / "ids"), fmt::format("{0}\n{0}\n{0}\n", id));
  EXPECT_THAT(muster({"describe", "a", "--summarize"}).out,
              HasSubstr("TRIAL  STATE      loss  STEP  x\n1      SUCCEEDED  1     1     1\n"));
}

// Studies of five trials, two at a time, each of which takes a node.
class SlurmStudies : public SlurmJobs {
 protected:
  void SetUp() override {
    SlurmJobs::SetUp();
    write_bytes(dir_ / "study.yaml",
                "trainingInput:\n  scaleTier: NODE\n  hyperparameters:\n    goal: MINIMIZE\n"
                "    hyperparameterMetricTag: loss\n    maxTrials: 5\n    maxParallelTrials: 2\n"
                "    params:\n"
                "      - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}\n");
  }

  // Does what `before` says, then reports (x - 0.3)^2.
  Words trial(const std::string& before) const {
    return script("id=$CLOUD_ML_TRIAL_ID\n" + before +
                  "\nfor word; do case $word in --x=*) x=${word#--x=} ;; esac; done\n"
                  "awk -v x=$x 'BEGIN { printf \"{\\\"loss\\\": \\\"%.17g\\\", "
                  "\\\"global_step\\\": \\\"7\\\"}\\n\", (x - 0.3) * (x - 0.3) }' "
                  "> $CLOUD_ML_HP_METRIC_FILE\n");
  }
  void submit_study(const std::string& name, const Words& program) const {
    const Outcome run =
        submit(name, {"--config", dir_ / "study.yaml", "--job-dir", dir_ / "out"}, program);
    EXPECT_EQ(run.status, 0) << run.err;
  }
  static std::string table_in(const Path& job_dir) {
    return testing::run_program(MUSTER_PROGRAM, {"tune", "show", job_dir}).out;
  }
  // The table of the same study on this host.
  std::string local_table() const {
    const Outcome run = testing::run_program(
        MUSTER_PROGRAM,
        Words{"tune", "--config", dir_ / "study.yaml", "--job-dir", dir_ / "here", "--"} +
            trial(""));
    EXPECT_EQ(run.status, 0) << run.err;
    return table_in(dir_ / "here");
  }
  std::string study_log() const {
    return read_bytes(store_.folder_of("a") / "attempts" / "1" / "master.log");
  }
  // How often the study says that it resumes a trial.
  std::size_t resumes_of(const std::string& id) const {
    std::istringstream lines(study_log());
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);) {
      const bool is_its = line.find("trial " + id + " ") != std::string::npos;
      count += is_its && line.find(" and is resumed, ") != std::string::npos ? 1U : 0U;
    }
    return count;
  }
  std::string notes() const {
    return std::filesystem::exists(dir_ / "notes") ? read_bytes(dir_ / "notes") : "";
  }
};

TEST_F(SlurmStudies, RunTrialsAsStepsOnAllNodesOfOneAllocation) {
  submit_study("a", trial("echo $id $SLURM_JOB_ID.$SLURM_STEP_ID $SLURMD_NODENAME >> $dir/notes\n"
                          "while [ $(wc -l < $dir/notes) -lt 2 ]; do sleep 0.1; done"));
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  std::istringstream lines(notes());
  std::set<std::string> trials, steps, nodes;
  for (std::string id, step, node; lines >> id >> step >> node;) {
    EXPECT_TRUE(step.starts_with(slurm_run(store_.read("a")).id + ".")) << step;
    trials.insert(id);
    steps.insert(step);
    nodes.insert(node);
  }
  EXPECT_EQ(trials.size(), 5U) << notes();
  EXPECT_EQ(steps.size(), 5U) << notes();
  EXPECT_EQ(nodes.size(), 2U) << notes();
  EXPECT_EQ(store_.read("a").local.needs.cpus, 4);
  EXPECT_THAT(table_in(dir_ / "out"), HasSubstr("SUCCEEDED"));
  EXPECT_EQ(table_in(dir_ / "out"), local_table());
}

TEST_F(SlurmStudies, ResumeTrialsThatAreKilledAndWaitForWhatIsLeftOfThem) {
  // The first trial is killed, the second loses its srun and goes on for a while.
  submit_study("a",
               trial("[ -e $dir/$id ] && kill -0 $(cat $dir/$id) 2>/dev/null && "
                     "echo $id runs twice >> $dir/notes\n"
                     "echo $id $SLURM_STEP_ID >> $dir/notes\n"
                     "first=; [ -e $dir/$id ] || first=1\n"
                     "echo $$ > $dir/$id\n"
                     "[ $id$first != 11 ] || kill -KILL $$\n"
                     "if [ $id$first = 21 ]; then\n"
                     "  for process in /proc/[0-9]*; do\n"
                     "    case $(tr '\\0' ' ' < $process/cmdline 2>/dev/null) in\n"
                     "      'srun '*--job-name=*/study/2\\ *) kill -KILL ${process#/proc/} ;;\n"
                     "    esac\n"
                     "  done\n"
                     "  sleep 30\n"
                     "fi"));
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  EXPECT_THAT(notes(), Not(HasSubstr("runs twice")));
  // By their steps: where a node is too busy to answer in time, Slurm sends it a step again, and it
  // may run a short one once more.
  std::istringstream lines(notes());
  std::set<std::string> steps;
  for (std::string line; std::getline(lines, line);) steps.insert(line);
  std::multiset<std::string> starts;
  for (const std::string& step : steps) starts.insert(step.substr(0, step.find(' ')));
  const std::multiset<std::string> least{"1", "1", "2", "2", "3", "4", "5"};
  EXPECT_TRUE(std::ranges::includes(starts, least)) << notes() << service_log("a");
  EXPECT_THAT(starts, ::testing::Each(::testing::AnyOf("1", "2", "3", "4", "5")));
  // One more for each time that its log says so: srun may fail by itself where the machine is too
  // busy for Slurm's timeouts. A step more than that, behind the others, was seen on such machines
  // and is not explained yet, so all that is known of it is printed.
  for (const std::string id : {"1", "2", "3", "4", "5"}) {
    EXPECT_GE(starts.count(id), 1 + resumes_of(id)) << id << "\n" << notes() << study_log();
    if (starts.count(id) == 1 + resumes_of(id)) continue;
    std::cerr << "trial " << id << " has more steps than starts:\n" << notes() << study_log();
  }
  EXPECT_EQ(table_in(dir_ / "out"), local_table());
}

TEST_F(SlurmStudies, ThatAreCancelledSaveTheirTrialsAndGoOnInAnotherAllocation) {
  const Words program = trial(
      "if [ ! -e $dir/go ]; then\n"
      "  trap 'echo $id is asked >> $dir/notes; exit 143' TERM\n"
      "  echo $id waits >> $dir/notes\n"
      "  while :; do sleep 0.1; done\n"
      "fi");
  submit_study("a", program);
  EXPECT_TRUE(eventually([&] {
    return notes().find("1 waits\n") != std::string::npos &&
           notes().find("2 waits\n") != std::string::npos;
  })) << service_log("a");
  EXPECT_EQ(muster({"cancel", "a"}).status, 0);
  EXPECT_EQ(end_of("a"), State::kCancelled) << service_log("a");
  EXPECT_THAT(notes(), AllOf(HasSubstr("1 is asked\n"), HasSubstr("2 is asked\n")));
  EXPECT_THAT(table_in(dir_ / "out"), HasSubstr("2      RUNNING"));
  write_bytes(dir_ / "go", "");
  submit_study("b", program);
  EXPECT_EQ(end_of("b"), State::kSucceeded) << service_log("b");
  EXPECT_EQ(table_in(dir_ / "out"), local_table());
}

TEST_F(SlurmJobs, ThatCanNeverFitAreTakenWithAWarning) {
  const auto warning_of = [&](const std::string& name, const Words& flags) {
    const Outcome outcome =
        submit(name, Words{"--scale-tier", "ONE"} + flags, script("touch $dir/started"));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const auto place = outcome.err.find("it cannot start");
    return place == std::string::npos ? "" : outcome.err.substr(place);
  };
  EXPECT_THAT(warning_of("tasks", {"--slurm-option=--ntasks=20"}),
              AllOf(HasSubstr("Requested node configuration is not available"),
                    HasSubstr("--slurm-option=--partition=NAME")));
  EXPECT_THAT(warning_of("time", {"--slurm-option=--partition=short", "--slurm-option=--time=60"}),
              HasSubstr("(reason Partition"));
  // One that only waits its turn.
  EXPECT_EQ(warning_of("later", {"--slurm-option=--begin=now+1hour"}), "");
  for (const char* name : {"tasks", "time", "later"}) {
    EXPECT_EQ(muster({"cancel", name}).status, 0);
    EXPECT_EQ(end_of(name), State::kCancelled);
  }
}

TEST_F(SlurmJobs, ThatAreCancelledInTheQueueNeverStart) {
  submit("a", {"--scale-tier", "ONE", "--slurm-option=--begin=now+1hour"},
         script("touch $dir/started"));
  EXPECT_EQ(state("a"), State::kQueued);
  EXPECT_EQ(muster({"cancel", "a"}).status, 0);
  EXPECT_EQ(end_of("a"), State::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "started"));
  EXPECT_EQ(store_.read("a").error_message, "The job was cancelled by the user.");
}

TEST_F(SlurmJobs, AreNotSubmittedWithoutAController) {
  const Outcome run =
      testing::run_program(MUSTER_PROGRAM,
                           Words{"jobs", "submit", "training", "a", "--backend", "slurm",
                                 "--jobs-dir", store_.folder().string(), "--", "/bin/true"},
                           {"SLURM_CONF=" + cluster_->configuration_of_nobody().string()});
  // Worth another try.
  EXPECT_EQ(run.status, 75) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("Slurm did not take the job: "),
                             HasSubstr("Unable to contact slurm controller"),
                             Not(HasSubstr("submitted successfully"))));
  EXPECT_THAT(store_.names(), IsEmpty());
  // One that Slurm refuses is treated alike.
  const Outcome refused = submit("b", {"--slurm-option=--partition=nowhere"}, {"/bin/true"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("invalid partition"));
  EXPECT_THAT(store_.names(), IsEmpty());
}

#ifdef CLUSTER_JOB
TEST_F(SlurmJobs, ThatPredictAnswerTheirFilesInAnAllocation) {
  graph::MetaGraph meta{.tags = {"serve"}};
  const graph::TensorInfo x{.name = "x:0", .dtype = DataType::kFloat, .shape = {-1}};
  meta.graph.nodes = {
      graph::placeholder_node("x", DataType::kFloat, {-1}),
      {.name = "y", .op = "Relu", .inputs = {"x"}, .attrs = {{"T", DataType::kFloat}}}};
  meta.signatures["serving_default"] = {
      .inputs = {{"x", x}},
      .outputs = {{"y", {.name = "y:0", .dtype = DataType::kFloat, .shape = {-1}}}},
      .method_name = std::string(graph::kPredictMethod)};
  graph::write_saved_model(dir_ / "model", {.meta_graphs = {meta}});
  write_bytes(dir_ / "input", "1.5\n-2\n");
  const Words flags{"submit",
                    "prediction",
                    "a",
                    "--backend",
                    "slurm",
                    "--max-worker-count",
                    "1",
                    "--model-dir",
                    dir_ / "model",
                    "--machine-type",
                    "tiny",
                    "--data-format",
                    "json",
                    "--input-paths",
                    dir_ / "input",
                    "--output-path",
                    dir_ / "out",
                    "--stream-logs",
                    "--slurm-option=--partition=main"};
  const Outcome run = muster(flags);
  EXPECT_EQ(run.status, 0) << run.out << run.err << service_log("a");
  EXPECT_EQ(read_bytes(dir_ / "out/prediction.results-00000-of-00001"),
            "{\"y\": 1.5}\n{\"y\": 0.0}\n");
  EXPECT_THAT(read_bytes(store_.folder_of("a") / "job.sbatch"),
              AllOf(HasSubstr("--ntasks=1\n"), HasSubstr("--cpus-per-task=1\n"),
                    HasSubstr("--mem-per-cpu=52M\n"), HasSubstr("--partition=main\n")));
  EXPECT_THAT(muster({"describe", "a"}).out, HasSubstr("predictionCount: '2'"));
}

class SlurmTraining : public SlurmJobs {
 protected:
  std::string hash_of_one_process() const {
    const Outcome alone =
        testing::run_program(CLUSTER_JOB, kFlags + Words{"--model-dir", dir_ / "alone"});
    EXPECT_EQ(alone.status, 0) << alone.err;
    return hash_of(dir_ / "alone");
  }
  Outcome train(const Words& flags) const {
    return submit("a", Words{"--scale-tier", "FOUR"} + flags,
                  Words{CLUSTER_JOB, "--model-dir", dir_ / "cluster", "--step-ms", "50"} + kFlags);
  }
  bool has_checkpoint(int step) const {
    return std::filesystem::exists(dir_ / fmt::format("cluster/model.ckpt-{}.index", step));
  }

  inline static const Words kFlags{"--steps", "60", "--replicas", "3", "--save-steps", "10"};
};

TEST_F(SlurmTraining, OfFourTasksEndsWithTheWeightsOfOneProcess) {
  ASSERT_EQ(train({}).status, 0);
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  EXPECT_EQ(hash_of(dir_ / "cluster"), hash_of_one_process());
}

TEST_F(SlurmTraining, ThatIsCancelledSavesALastCheckpoint) {
  const Words long_run{"--steps", "1000000", "--save-steps", "1000000"};
  ASSERT_EQ(
      submit("a", {"--scale-tier", "FOUR"},
             Words{CLUSTER_JOB, "--model-dir", dir_ / "cluster", "--replicas", "3"} + long_run)
          .status,
      0);
  const Path log = store_.folder_of("a") / "attempts" / "1" / "master.log";
  EXPECT_TRUE(eventually([&] {
    return std::filesystem::exists(log) && read_bytes(log).find("loss = ") != std::string::npos;
  })) << service_log("a");
  EXPECT_EQ(muster({"cancel", "a"}).status, 0);
  EXPECT_EQ(end_of("a"), State::kCancelled) << service_log("a");
  EXPECT_EQ(store_.read("a").local.exit_status, 143);
  EXPECT_TRUE(latest_checkpoint(dir_ / "cluster").has_value());
}

// The last of its suite: the node stays away.
TEST_F(SlurmTraining, OnANodeThatIsKilledIsQueuedAgainAndResumesToTheSameWeights) {
  if (!testing::are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 runs it";
  ASSERT_EQ(train({}).status, 0);
  EXPECT_TRUE(eventually([&] { return has_checkpoint(20); })) << service_log("a");
  cluster_->kill_node(1);
  EXPECT_TRUE(eventually([&] { return is_back_in_the_queue("a"); })) << service_log("a");
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  EXPECT_EQ(store_.read("a").local.attempts, 2);
  EXPECT_EQ(hash_of(dir_ / "cluster"), hash_of_one_process());
}

// With a cluster of its own: one is killed after two minutes, as all programs of tests are.
class SlurmTimeLimit : public SlurmTraining {};

TEST_F(SlurmTimeLimit, OfATrainingQueuesItAgainAndItResumesToTheSameWeights) {
  if (!testing::are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 runs it";
  // Slow until it is queued again.
  const Words slow_once =
      script(fmt::format("exec {} --model-dir {} --step-ms ${{SLURM_RESTART_COUNT:-1000}} {}",
                         CLUSTER_JOB, (dir_ / "cluster").string(), fmt::join(kFlags, " ")));
  ASSERT_EQ(submit("a", {"--scale-tier", "FOUR", "--max-running-time", "60s"}, slow_once).status,
            0);
  EXPECT_TRUE(eventually([&] { return is_back_in_the_queue("a"); })) << service_log("a");
  EXPECT_THAT(service_log("a"), HasSubstr("the time limit is near"));
  EXPECT_EQ(end_of("a"), State::kSucceeded) << service_log("a");
  EXPECT_EQ(store_.read("a").local.attempts, 2);
  EXPECT_EQ(store_.read("a").local.retries, 0);
  EXPECT_EQ(hash_of(dir_ / "cluster"), hash_of_one_process());
}
#endif

}  // namespace
}  // namespace muster
