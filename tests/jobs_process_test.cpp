// `muster jobs` as processes: what users type, and what is killed meanwhile. Most jobs are shell
// scripts; some train.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "latest_hash.h"
#include "muster/base/random.h"
#include "muster/orchestration/jobs/job_store.h"
#include "muster/orchestration/jobs/job_text.h"
#include "muster/orchestration/jobs/kubernetes_run.h"
#include "muster/orchestration/process/process_identity.h"
#include "muster/testing/eventually.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/stand_in.h"
#include "muster/testing/temp_dir.h"
#include "muster/testing/words.h"

namespace muster {
namespace {

using jobs::Job;
using jobs::JobStore;
using jobs::State;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using ::testing::StartsWith;
using testing::TempDir;
using testing::Words;
using testing::write_bytes;
using testing::operator+;

// Has words for what tests need; $dir is the folder of the test.
constexpr const char* kPrelude = R"sh(
dir=$1
note() { echo "$*" >> "$dir/notes"; }
hold() { while :; do sleep 0.02; done; }
until_there() { while [ ! -e "$dir/$1" ]; do sleep 0.01; done; }
)sh";

// Machines that are small enough for several jobs at a time on a host of 2 processors.
constexpr const char* kMachines =
    "host: {cpus: 2, memoryGb: 100}\n"
    "machineTypes:\n"
    "  one: {cpus: 1, memoryGb: 1}\n"
    "  both: {cpus: 2, memoryGb: 1}\n"
    "scaleTiers:\n"
    "  ONE: {masterType: one}\n"
    "  BOTH: {masterType: both}\n"
    "  PAIR: {masterType: one, workerType: one, workerCount: 1}\n";

class Jobs : public ::testing::Test {
 protected:
  Jobs() { write_bytes(dir_ / "machines.yaml", kMachines); }
  ~Jobs() override {
    for (const Job& job : store_.list()) {
      if (!is_final(job.state)) muster({"cancel", job.job_id});
    }
    EXPECT_TRUE(eventually([&] {
      const auto jobs = store_.list();
      return std::all_of(jobs.begin(), jobs.end(),
                         [](const Job& job) { return is_final(job.state); });
    }));
    kill_supervisor(SIGTERM);
  }

  testing::ProgramOptions options() const {
    return {.environment = {"MUSTER_JOBS_DIR=" + store_.folder().string(),
                            "MUSTER_MACHINES=" + (dir_ / "machines.yaml").string()}};
  }
  Outcome muster(const Words& words) const {
    return testing::run_program(MUSTER_PROGRAM, Words{"jobs"} + words, options().environment);
  }
  Words script_words(const std::string& name, const std::string& script, const Words& flags) {
    write_bytes(dir_ / (name + ".sh"), kPrelude + script);
    return Words{"submit", "training", name} + flags +
           Words{"--", "/bin/sh", dir_ / (name + ".sh"), dir_.path().string()};
  }
  Outcome submit(const std::string& name, const std::string& script,
                 const Words& flags = {"--scale-tier", "one"}) {
    return muster(script_words(name, script, flags));
  }
  State state(const std::string& name) const { return store_.read(name).state; }
  bool comes_to(const std::string& name, State wanted) const {
    return eventually([&] { return state(name) == wanted; });
  }
  // Waits for the end of a job with a deadline.
  State end_of(const std::string& name) const {
    const Outcome waited = muster({"wait", name, "--timeout", "100"});
    EXPECT_EQ(waited.err.find("is still"), std::string::npos) << waited.err;
    return state(name);
  }
  void touch(const std::string& name) const { write_bytes(dir_ / name, ""); }
  std::vector<std::string> notes() const {
    if (!std::filesystem::exists(dir_ / "notes")) return {};
    std::istringstream text(read_bytes(dir_ / "notes"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  // Sends a signal to the process of a pid file, if that very process still runs.
  static bool send(const Path& pid_file, int signal) {
    const auto process = process::read_pid_file(pid_file);
    return process && process::is_alive(*process) && ::kill(process->pid, signal) == 0;
  }
  bool kill_supervisor(int signal = SIGKILL) const {
    return send(store_.folder() / "supervisor.pid", signal);
  }
  bool kill_runner(const std::string& name) const {
    return send(store_.folder_of(name) / "run.pid", SIGKILL);
  }
  bool kill_task(const std::string& name, const std::string& task) const {
    const auto attempt = store_.read(name).local.attempts;
    return send(store_.folder_of(name) / "attempts" / std::to_string(attempt) / (task + ".pid"),
                SIGKILL);
  }

  TempDir dir_;
  const JobStore store_{dir_ / "jobs"};
};

// ---------------------------------------------------------------------------------- a good job

TEST_F(Jobs, OfTheStandardTierIsStreamedToItsEnd) {
  const Outcome run =
      submit("census_1",
             "echo I am \"$TF_CONFIG\" | sed 's/.*\"type\":\"\\([a-z]*\\)\",\"index\":"
             "\\([0-9]*\\).*/I am \\1 \\2/'",
             {"--scale-tier", "STANDARD_1", "--labels", "team=a", "--stream-logs", "--region",
              "us-central1"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("Job [census_1] submitted successfully."),
                             HasSubstr("--region has no meaning on this host"),
                             HasSubstr("share the 2 processors")));
  for (const char* task : {"master 0", "worker 0", "worker 3", "ps 0", "ps 2"}) {
    const std::string type(task, std::strchr(task, ' '));
    EXPECT_THAT(run.out, HasSubstr(fmt::format("\t{}-replica-{}\t\tI am {}\n", type,
                                               task[type.size() + 1], task)));
  }
  EXPECT_THAT(run.out, HasSubstr("\tservice\t\tJob launched. tasks=8"));

  const Outcome list = muster({"list"});
  EXPECT_THAT(list.out, AllOf(StartsWith("JOB_ID    STATUS     CREATED\ncensus_1  SUCCEEDED  2")));
  const Outcome describe = muster({"describe", "census_1"});
  EXPECT_THAT(describe.out,
              AllOf(HasSubstr("state: SUCCEEDED"), HasSubstr("scaleTier: STANDARD_1"),
                    HasSubstr("endTime: '2"), HasSubstr("exitStatus: 0"), HasSubstr("team: a")));
  EXPECT_THAT(muster({"describe", "census_1", "--summarize"}).out,
              AllOf(StartsWith("Job Overview\n"), HasSubstr("\nTraining Input Summary\n")));
  const Outcome one = muster({"stream-logs", "census_1", "--task-name", "worker:3"});
  EXPECT_EQ(one.status, 0);
  EXPECT_EQ(std::count(one.out.begin(), one.out.end(), '\n'), 1);
  EXPECT_THAT(one.out, HasSubstr("worker-replica-3"));
}

TEST_F(Jobs, AreSubmittedInTheBackgroundAndSayWhatToTypeNext) {
  const Outcome run = submit("a", "until_there go; echo done; exit 0");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, "jobId: a\nstate: QUEUED\n");
  EXPECT_THAT(run.err, AllOf(HasSubstr("$ muster jobs describe a\n"),
                             HasSubstr("$ muster jobs stream-logs a\n")));
  EXPECT_TRUE(comes_to("a", State::kRunning));
  EXPECT_EQ(muster({"delete", "a"}).status, 1);
  touch("go");
  const Outcome waited = muster({"wait", "a"});
  EXPECT_EQ(waited.status, 0) << waited.err;
  EXPECT_EQ(waited.out, "SUCCEEDED\n");
  EXPECT_EQ(muster({"update", "a", "--update-labels", "x=1,y=2"}).err,
            "Updated ml engine job [a].\n");
  muster({"update", "a", "--remove-labels", "x"});
  EXPECT_EQ(store_.read("a").labels, (std::map<std::string, std::string>{{"y", "2"}}));
  EXPECT_EQ(muster({"update", "a"}).status, 2);
  EXPECT_EQ(muster({"delete", "a"}).status, 0);
  EXPECT_THAT(store_.names(), IsEmpty());
}

TEST_F(Jobs, GetTheEnvironmentFolderAndArgumentsOfWhoSubmits) {
  write_bytes(dir_ / "program", "#!/bin/sh\necho \"$FRUIT in $(pwd): $*\"\n");
  std::filesystem::permissions(dir_ / "program", std::filesystem::perms::owner_all);
  auto all = options();
  all.environment.emplace_back("FRUIT=pear tree");
  const Outcome run = testing::run_program(
      MUSTER_PROGRAM,
      {"jobs", "submit", "training", "a", "--module-name", "program", "--package-path",
       dir_.path().string(), "--job-dir", "out", "--stream-logs", "--", "--x", "a b", "--", "-y"},
      all.environment);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(fmt::format("pear tree in {}: --x a b -- -y --job-dir out\n",
                                             dir_.path().parent_path().string())));
}

// -------------------------------------------------------------------------------------- queue

TEST_F(Jobs, TakeTheNameOfAModuleForTheProgramInItsPackage) {
  std::filesystem::create_directories((dir_ / "trainer").string());
  write_bytes(dir_ / "trainer" / "task", "#!/bin/sh\necho \"task $*\"\n");
  std::filesystem::permissions((dir_ / "trainer" / "task").string(),
                               std::filesystem::perms::owner_all);
  const Words flags{"submit",
                    "training",
                    "a",
                    "--scale-tier",
                    "one",
                    "--module-name",
                    "trainer.task",
                    "--package-path",
                    dir_ / "trainer",
                    "--stream-logs"};
  const Outcome run = muster(flags + Words{"--", "--steps", "2"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\ttask --steps 2\n"));
  const Outcome local = testing::run_program(
      MUSTER_PROGRAM, {"local", "train", "--module-name", "trainer.task", "--package-path",
                       dir_ / "trainer", "--log-dir", dir_ / "logs", "--", "here"});
  EXPECT_EQ(local.status, 0) << local.err;
  EXPECT_THAT(local.out, HasSubstr("task here"));
  const Outcome none = muster({"submit", "training", "b", "--module-name", "trainer.tsak",
                               "--package-path", dir_ / "trainer"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("there is no program \"trainer.tsak\""),
                              HasSubstr((dir_ / "trainer" / "tsak").string())));
}

TEST_F(Jobs, AreListedAndDescribedAsJson) {
  EXPECT_EQ(submit("a", "true\n").status, 0);
  EXPECT_EQ(end_of("a"), State::kSucceeded);
  EXPECT_EQ(submit("b", "true\n").status, 0);
  EXPECT_EQ(end_of("b"), State::kSucceeded);
  std::istringstream lines(muster({"list", "--json"}).out);
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    names.push_back(jobs::job_from_json(line).job_id);
  }
  EXPECT_THAT(names, ElementsAre("b", "a"));
  EXPECT_EQ(jobs::job_from_json(muster({"describe", "a", "--json"}).out), store_.read("a"));
}

TEST_F(Jobs, WaitForTheirTurnAsTheHostAllows) {
  submit("a", "note a; until_there go_a");
  submit("b", "note b; until_there go_b");
  submit("c", "note c; until_there go_c", {"--scale-tier", "both"});
  submit("d", "note d");
  EXPECT_TRUE(eventually([&] { return notes().size() == 2; }));
  EXPECT_TRUE(comes_to("b", State::kRunning));
  touch("go_a");
  EXPECT_EQ(end_of("a"), State::kSucceeded);
  // c needs both processors, and d does not overtake it.
  EXPECT_EQ(state("c"), State::kQueued);
  EXPECT_EQ(state("d"), State::kQueued);
  touch("go_b");
  touch("go_c");
  EXPECT_EQ(end_of("d"), State::kSucceeded);
  auto order = notes();
  std::sort(order.begin(), order.begin() + 2);
  EXPECT_THAT(order, ElementsAre("a", "b", "c", "d"));
}

TEST_F(Jobs, ThatKeepTheirProgramRunItAsItWasWhenTheyWereSubmitted) {
  const Path program = dir_ / "program.sh";
  const auto build = [&](const char* word) {
    write_bytes(program, std::string("#!/bin/sh\n") + kPrelude + "note " + word + "\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  };
  ASSERT_EQ(submit("before", "until_there go", {"--scale-tier", "both"}).status, 0);
  EXPECT_TRUE(comes_to("before", State::kRunning));
  build("old");
  const Words words{"--scale-tier", "one", "--", program, dir_.path()};
  ASSERT_EQ(muster(Words{"submit", "training", "keeps", "--keep-program"} + words).status, 0);
  build("new");
  touch("go");
  EXPECT_EQ(end_of("keeps"), State::kSucceeded);
  EXPECT_THAT(notes(), ElementsAre("old"));
  EXPECT_THAT(
      muster({"describe", "keeps"}).out,
      AllOf(HasSubstr("keeps/program/program.sh"), HasSubstr("programFrom: " + program.string())));
  EXPECT_EQ(muster(Words{"submit", "training", "b", "--backend", "slurm", "--keep-program"} + words)
                .status,
            2);
}

TEST_F(Jobs, ThatAreCancelledInTheQueueNeverStart) {
  submit("a", "until_there go", {"--scale-tier", "both"});
  submit("b", "note b");
  EXPECT_TRUE(comes_to("a", State::kRunning));
  EXPECT_EQ(muster({"cancel", "b"}).status, 0);
  EXPECT_EQ(state("b"), State::kCancelled);
  touch("go");
  EXPECT_EQ(end_of("a"), State::kSucceeded);
  submit("c", "note c");
  EXPECT_EQ(end_of("c"), State::kSucceeded);
  EXPECT_THAT(notes(), ElementsAre("c"));
}

// ---------------------------------------------------------------------------------------- ends

TEST_F(Jobs, ThatFailSayWhichReplicaAndHow) {
  const Outcome run = submit("a", "echo why >&2; exit 3", {"--stream-logs", "--restarts", "0"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.out, HasSubstr("\tmaster-replica-0\t\twhy\n"));
  const Job job = store_.read("a");
  EXPECT_EQ(job.state, State::kFailed);
  EXPECT_EQ(job.error_message, "The replica master 0 exited with a non-zero status of 3.");
  const Outcome waited = muster({"wait", "a"});
  EXPECT_EQ(waited.status, 1);
  EXPECT_EQ(waited.out, "FAILED\n");
}

TEST_F(Jobs, AreRestartedAndRetriedAsTheirStatusSays) {
  submit("misused", "note misused; exit 2");
  EXPECT_EQ(end_of("misused"), State::kFailed);
  submit("again", "note again; [ $(grep -c again \"$dir/notes\") -ge 4 ] || exit 75",
         {"--scale-tier", "one", "--restarts", "1"});
  EXPECT_EQ(end_of("again"), State::kSucceeded);
  EXPECT_EQ(store_.read("again").local.attempts, 2);
  submit("hopeless", "note hopeless; exit 75", {"--scale-tier", "one", "--restarts", "0"});
  EXPECT_EQ(end_of("hopeless"), State::kFailed);
  const auto all = notes();
  EXPECT_EQ(std::count(all.begin(), all.end(), "misused"), 1);
  EXPECT_EQ(std::count(all.begin(), all.end(), "again"), 4);
  EXPECT_EQ(std::count(all.begin(), all.end(), "hopeless"), 4);
}

TEST_F(Jobs, ThatRunForTooLongAreCancelled) {
  submit("a", "hold", {"--scale-tier", "one", "--max-running-time", "1s"});
  EXPECT_EQ(end_of("a"), State::kCancelled);
  EXPECT_THAT(store_.read("a").error_message, HasSubstr("maxRunningTime of 1 s"));
}

TEST_F(Jobs, ThatAreCancelledEndThoughTasksRefuse) {
  submit("a", "trap '' TERM; touch \"$dir/trapped\"; hold",
         {"--scale-tier", "one", "--grace", "0.2"});
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / "trapped"); }));
  EXPECT_EQ(muster({"cancel", "a"}).status, 0);
  EXPECT_EQ(end_of("a"), State::kCancelled);
  EXPECT_EQ(muster({"cancel", "a"}).status, 0);
}

#ifdef CLUSTER_JOB
constexpr const char* kLeaveAside =
    "env -i setsid /bin/sh -c 'echo $$ > $0.new; mv $0.new $0; while :; do sleep 1; done' "
    "$dir/aside &\n"
    "setsid /bin/sh -c 'echo $$ > $0.new; mv $0.new $0; while :; do sleep 1; done' $dir/marked &\n"
    "until_there aside; until_there marked; note up; hold\n";

TEST_F(Jobs, ThatAreCancelledEndWhatTheirTasksStartedInOtherSessions) {
  submit("daemons", kLeaveAside);
  ASSERT_TRUE(eventually([&] { return !notes().empty(); }));
  const auto aside = process::identify(std::stoi(read_bytes(dir_ / "aside")));
  const auto marked = process::identify(std::stoi(read_bytes(dir_ / "marked")));
  ASSERT_TRUE(aside && marked);
  EXPECT_EQ(muster({"cancel", "daemons"}).status, 0);
  EXPECT_EQ(end_of("daemons"), State::kCancelled);
  EXPECT_FALSE(process::is_alive(*aside));
  EXPECT_FALSE(process::is_alive(*marked));
}

TEST_F(Jobs, EndWhatWasStartedInOtherSessionsByAProcessThatWasKilled) {
  submit("daemons", std::string("[ ! -e $dir/marked ] || { note again; exit 0; }\n") + kLeaveAside);
  ASSERT_TRUE(eventually([&] { return !notes().empty(); }));
  const auto aside = process::identify(std::stoi(read_bytes(dir_ / "aside")));
  const auto marked = process::identify(std::stoi(read_bytes(dir_ / "marked")));
  ASSERT_TRUE(aside && marked);
  EXPECT_TRUE(kill_runner("daemons"));
  EXPECT_EQ(end_of("daemons"), State::kSucceeded);
  EXPECT_THAT(notes(), ElementsAre("up", "again"));
  EXPECT_FALSE(process::is_alive(*marked));
  // Without an environment it was only the killed process's to find.
  ::kill(aside->pid, SIGKILL);
}

TEST_F(Jobs, WhoseFolderIsDeletedEndBeforeTheirNameIsFree) {
  submit("gone",
         "trap 'note asked; until_there may_end; note saved; exit 143' TERM\nnote up; hold\n",
         {"--scale-tier", "one", "--grace", "60"});
  ASSERT_TRUE(comes_to("gone", State::kRunning));
  ASSERT_TRUE(eventually([&] { return !notes().empty(); }));
  const auto task =
      process::read_pid_file(store_.folder_of("gone") / "attempts" / "1" / "master.pid");
  ASSERT_TRUE(task);
  std::filesystem::remove_all(store_.folder_of("gone").string());
  const Outcome refused = submit("gone", "true\n");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("of an earlier job gone"), HasSubstr("still runs")));
  EXPECT_TRUE(eventually([&] { return notes().size() == 2; }));
  touch("may_end");
  EXPECT_TRUE(eventually([&] { return !process::is_alive(*task); }));
  EXPECT_THAT(notes(), ElementsAre("up", "asked", "saved"));
  EXPECT_EQ(submit("gone", "note second\n").status, 0);
  EXPECT_EQ(end_of("gone"), State::kSucceeded);
  EXPECT_EQ(store_.read("gone").local.attempts, 1);
}

TEST_F(Jobs, ThatTrainAreCancelledWithALastCheckpoint) {
  const std::string model_dir = dir_ / "model";
  ASSERT_EQ(
      muster({"submit", "training", "a", "--scale-tier", "one", "--", CLUSTER_JOB, "--model-dir",
              model_dir, "--steps", "1000000", "--save-steps", "1000000", "--step-ms", "5"})
          .status,
      0);
  const Path log = store_.folder_of("a") / "attempts" / "1" / "master.log";
  EXPECT_TRUE(eventually([&] {
    return std::filesystem::exists(log) && read_bytes(log).find("loss = ") != std::string::npos;
  })) << read_bytes(store_.folder_of("a") / "service.log");
  const auto begin = std::chrono::steady_clock::now();
  muster({"cancel", "a"});
  EXPECT_EQ(end_of("a"), State::kCancelled);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  RecordProperty("cancel_seconds", fmt::format("{:.2f}", seconds.count()));
  EXPECT_TRUE(latest_checkpoint(model_dir).has_value());
  EXPECT_EQ(store_.read("a").local.exit_status, 143);
}

TEST_F(Jobs, ThatTrainResumeToTheSameWeightsAfterAllIsKilled) {
  const Words flags{"--steps", "60", "--save-steps", "10", "--step-ms", "20", "--model-dir"};
  ASSERT_EQ(muster(Words{"submit", "training", "a", "--scale-tier", "one", "--", CLUSTER_JOB} +
                   flags + Words{dir_ / "killed"})
                .status,
            0);
  EXPECT_TRUE(
      eventually([&] { return std::filesystem::exists(dir_ / "killed/model.ckpt-20.index"); }));
  EXPECT_TRUE(kill_supervisor());
  EXPECT_TRUE(kill_task("a", "master"));
  EXPECT_TRUE(kill_runner("a"));
  EXPECT_EQ(end_of("a"), State::kSucceeded) << read_bytes(store_.folder_of("a") / "service.log");
  EXPECT_EQ(store_.read("a").local.attempts, 2);
  const Outcome alone = testing::run_program(CLUSTER_JOB, flags + Words{dir_ / "alone"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(hash_of(dir_ / "killed"), hash_of(dir_ / "alone"));
}

TEST_F(Jobs, ThatTrainAsAClusterEndWithTheWeightsOfOneProcess) {
  const Words flags{"--steps", "20", "--replicas", "5", "--model-dir"};
  const Outcome run = muster(Words{"submit", "training", "a", "--scale-tier", "standard-1",
                                   "--stream-logs", "--", testing::warm_stand_in(CLUSTER_JOB)} +
                             flags + Words{dir_ / "cluster"});
  EXPECT_EQ(run.status, 0) << run.out << run.err;
  const Outcome alone = testing::run_program(CLUSTER_JOB, flags + Words{dir_ / "alone"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(hash_of(dir_ / "cluster"), hash_of(dir_ / "alone"));
}
#endif

// --------------------------------------------------------------------------------------- kills

// Counts to 40 in a file, a step in about 20 ms, and goes on where it was; notes when two of it
// run at once.
constexpr const char* kCounting = R"sh(
exec 9>"$dir/$JOB.lock"
flock -n 9 || { note twice; exit 1; }
n=$(cat "$dir/$JOB.count" 2>/dev/null || echo 0)
while [ "$n" -lt 40 ]; do
  sleep 0.02 9>&-
  n=$((n + 1))
  echo $n > "$dir/$JOB.next" && mv "$dir/$JOB.next" "$dir/$JOB.count" 9>&-
done
note "$JOB done"
)sh";

TEST_F(Jobs, GoOnWhenTheirSupervisorIsKilled) {
  submit("a", "note start; until_there go");
  EXPECT_TRUE(comes_to("a", State::kRunning));
  ASSERT_TRUE(kill_supervisor());
  submit("b", "note b");
  EXPECT_EQ(end_of("b"), State::kSucceeded);
  EXPECT_EQ(state("a"), State::kRunning);
  touch("go");
  EXPECT_EQ(end_of("a"), State::kSucceeded);
  EXPECT_THAT(notes(), ElementsAre("start", "b"));
  EXPECT_EQ(store_.read("a").local.attempts, 1);
}

TEST_F(Jobs, AreFoundAgainAfterAllIsKilled) {
  submit("a", "note start; until_there go");
  EXPECT_TRUE(comes_to("a", State::kRunning));
  EXPECT_TRUE(kill_supervisor());
  EXPECT_TRUE(kill_runner("a"));
  kill_task("a", "master");
  EXPECT_THAT(muster({"list"}).out, HasSubstr("a       RUNNING"));
  EXPECT_TRUE(eventually([&] { return notes().size() == 2; }));
  touch("go");
  EXPECT_EQ(end_of("a"), State::kSucceeded);
  EXPECT_EQ(store_.read("a").local.attempts, 2);
}

// The process that is killed, and when, are functions of the seed.
TEST_F(Jobs, EndRightWhateverIsKilled) {
  const int seeds = testing::are_tests_long() ? 100 : 3;
  std::size_t finished = 0;
  for (int seed = 0; seed < seeds && !HasFailure(); ++seed) {
    Random random(19, 0, static_cast<std::uint64_t>(seed));
    const std::vector<std::string> names{fmt::format("s{}_a", seed), fmt::format("s{}_b", seed),
                                         fmt::format("s{}_c", seed)};
    for (const std::string& name : names) {
      const Outcome run = submit(name, fmt::format("JOB={}\n{}", name, kCounting));
      ASSERT_EQ(run.status, 0) << run.err;
    }
    for (int kill = 0; kill < 4; ++kill) {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(static_cast<int>(random.uniform(0, 400))));
      const bool everything = random.uniform(0, 3) < 1;
      if (everything || random.uniform(0, 2) < 1) kill_supervisor();
      for (const std::string& name : names) {
        if (everything || random.uniform(0, 3) < 1) kill_runner(name);
        if (everything || random.uniform(0, 3) < 1) kill_task(name, "master");
      }
      EXPECT_EQ(muster({"list"}).status, 0);
    }
    for (const std::string& name : names) {
      EXPECT_EQ(end_of(name), State::kSucceeded)
          << "seed " << seed << "\n"
          << read_bytes(store_.folder_of(name) / "service.log");
      EXPECT_EQ(read_bytes(dir_ / (name + ".count")), "40\n");
    }
    finished += names.size();
    // One that is killed behind its last step says again that it is done.
    const auto lines = notes();
    const std::set<std::string> all(lines.begin(), lines.end());
    EXPECT_THAT(all, Not(Contains("twice"))) << "seed " << seed;
    EXPECT_EQ(all.size(), finished) << "seed " << seed;
  }
}

// ------------------------------------------------------------------------------------- mistakes

TEST_F(Jobs, ThatCannotBeAreRefusedAndLeaveNothing) {
  write_bytes(dir_ / "bad.yaml", "trainingInput:\n  scaleTier: [\n");
  write_bytes(dir_ / "counts.yaml", "trainingInput:\n  workerCount: 2\n");
  const std::pair<Words, const char*> mistakes[] = {
      {{"--scale-tier", "standrad-1"}, "did you mean STANDARD_1?"},
      {{"--scale-tier", "custom"}, "--master-machine-type"},
      {{"--scale-tier", "basic-tpu"}, "no TPU"},
      {{"--worker-count", "2"}, "workerCount (--worker-count) goes with the scale tier CUSTOM"},
      {{"--config", dir_ / "bad.yaml"}, "bad.yaml:3: no YAML or JSON"},
      {{"--config", dir_ / "counts.yaml"}, "counts.yaml:2) goes with the scale tier CUSTOM"},
      {{"--labels", "Team=a"}, "\"Team\""},
      {{"--backend", "pbs"}, "there are local, slurm and kubernetes"},
      {{"--slurm-option=--partition=a"}, "--slurm-option goes with --backend slurm"},
      {{"--dry-run"}, "--dry-run goes with --backend kubernetes"},
      {{"--max-running-time", "2h"}, "7200s"},
  };
  for (const auto& [flags, words] : mistakes) {
    const Outcome run = submit("a", "note a", flags);
    EXPECT_EQ(run.status, 2) << words;
    EXPECT_THAT(run.err, HasSubstr(words));
  }
  EXPECT_EQ(submit("a-b", "note a").status, 2);
  const Outcome none = muster({"submit", "training", "a", "--", "no_such_program"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no program \"no_such_program\""));
  EXPECT_THAT(store_.names(), IsEmpty());

  EXPECT_EQ(submit("a", "exit 0").status, 0);
  const Outcome again = muster({"submit", "training", "a", "--", "/bin/false"});
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("there is a job a already"));
  EXPECT_EQ(end_of("a"), State::kSucceeded);
}

// ----------------------------------------------------------------------------------- Kubernetes

// Answers as kubectl does, with what lies in $FAKE_CLUSTER:
//   objects/KIND-NAME   what was made, each with its manifest
//   state.json          what `get` says while the job's objects are there; then terminating.json
//   logs/POD            lines of a pod, with times
//   error               what it says instead of doing anything
//   refused             a kind that cannot be made, and why
// Every call is a line of `calls`.
constexpr const char* kFakeKubectl = R"sh(#!/bin/sh
cd "$FAKE_CLUSTER" || exit 9
mkdir -p objects
echo "$*" >> calls
while [ "${1#--}" != "$1" ]; do shift; done
if [ -e error ]; then cat error >&2; exit 1; fi
verb=$1
selector=
since=
for word in "$@"; do
  case $word in
    --selector=muster-run=*) selector=${word#--selector=muster-run=} ;;
    --since-time=*) since=${word#--since-time=} ;;
  esac
done
case $verb in
create)
  cat > input.yaml
  rm -f document.*
  awk 'BEGIN { n = 0 } /^---$/ { n++; next } { print > ("document." n) }' input.yaml
  status=0
  for document in document.*; do
    kind=$(sed -n 's/^kind: //p' "$document")
    name=$(awk '/^metadata:/ { inside = 1 } inside && /^  name: / { print $2; exit }' "$document")
    if [ -e refused ] && [ "$(cut -d' ' -f1 refused)" = "$kind" ]; then
      cut -d' ' -f2- refused >&2
      status=1
    elif [ -e "objects/$kind-$name" ]; then
      echo "Error from server (AlreadyExists): error when creating \"STDIN\": jobs.batch \"$name\" already exists" >&2
      status=1
    else
      cp "$document" "objects/$kind-$name"
      echo "$kind/$name created"
    fi
  done
  exit $status ;;
get)
  if grep -ql "muster-run: .*$selector" objects/Job* objects/TFJob* 2>/dev/null; then
    cat state.json
  elif [ -e terminating.json ]; then
    cat terminating.json
  else
    echo '{"apiVersion": "v1", "kind": "List", "items": []}'
  fi ;;
logs)
  if [ ! -e "logs/$2" ]; then
    echo "Error from server (NotFound): pods \"$2\" not found" >&2
    exit 1
  fi
  awk -v since="${since%Z}" 'substr($1, 1, 19) >= since' "logs/$2" ;;
delete)
  for kind in $(echo "$2" | tr ',' ' '); do
    case $kind in
      jobs.batch) found=$(ls objects/Job-* 2>/dev/null) ;;
      jobsets.*) found=$(ls objects/JobSet-* 2>/dev/null) ;;
      tfjobs.*) found=$(ls objects/TFJob-* 2>/dev/null) ;;
      services) found=$(ls objects/Service-* 2>/dev/null) ;;
      secrets) found=$(ls objects/Secret-* 2>/dev/null) ;;
      *) echo "error: the server doesn't have a resource type \"$kind\"" >&2; exit 1 ;;
    esac
    for object in $found; do
      if [ -n "$selector" ]; then
        if grep -q "muster-run: .*$selector" "$object"; then rm "$object"; fi
      else
        case " $* " in *" ${object#objects/Job-} "*) rm "$object" ;; esac
      fi
    done
  done ;;
*) echo "error: unknown command \"$verb\"" >&2; exit 1 ;;
esac
)sh";

class KubernetesJobs : public Jobs {
 protected:
  KubernetesJobs() {
    std::filesystem::create_directories(cluster_ / "logs");
    write_bytes(dir_ / "kubectl", kFakeKubectl);
    std::filesystem::permissions(dir_ / "kubectl", std::filesystem::perms::owner_all);
    says("");
  }
  ~KubernetesJobs() override {
    // So that what is open can be cancelled.
    std::filesystem::remove(cluster_ / "error");
    std::filesystem::remove(cluster_ / "terminating.json");
    says("");
    for (const Job& job : store_.list()) {
      if (!is_final(job.state)) kubernetes({"cancel", job.job_id});
    }
  }

  Outcome kubernetes(const Words& words) const {
    auto all = options();
    all.environment.push_back("MUSTER_KUBECTL=" + (dir_ / "kubectl").string());
    all.environment.push_back("FAKE_CLUSTER=" + cluster_.string());
    return testing::run_program(MUSTER_PROGRAM, Words{"jobs"} + words, all.environment);
  }
  Outcome submit_there(const std::string& name, const Words& flags = {"--scale-tier", "pair"}) {
    return kubernetes(Words{"submit", "training", name, "--backend", "kubernetes", "--image", "i:1",
                            "--job-dir", "/job"} +
                      flags + Words{"--", "census", "--train-steps", "100"});
  }

  // Sets the cluster's answer about the job's objects from now on.
  void says(const std::string& items) const {
    write_bytes(cluster_ / "state.json",
                R"({"apiVersion": "v1", "kind": "List", "items": [)" + items + "]}");
  }
  static std::string job(const std::string& role, const std::string& condition = "",
                         const std::string& reason = "", const std::string& message = "") {
    const std::string conditions =
        condition.empty()
            ? ""
            : fmt::format(
                  R"({{"type": "{}", "status": "True", "lastTransitionTime": "2026-03-01T10:04:11Z", "reason": "{}", "message": "{}"}})",
                  condition, reason, message);
    return fmt::format(
        R"({{"kind": "Job", "metadata": {{"name": "census-1-{0}", "labels": {{"app.kubernetes.io/component": "{0}"}}}}, "spec": {{"parallelism": 1}}, "status": {{"conditions": [{1}]}}}})",
        role, conditions);
  }
  static std::string pod(const std::string& role, const std::string& phase,
                         const std::string& more = "", const std::string& suffix = "x") {
    return fmt::format(
        R"(, {{"kind": "Pod", "metadata": {{"name": "census-1-{0}-0-{3}", "labels": {{"app.kubernetes.io/component": "{0}"}}, "annotations": {{"batch.kubernetes.io/job-completion-index": "0"}}}}, "status": {{"phase": "{1}"{2}}}}})",
        role, phase, more, suffix);
  }
  void logs(const std::string& pod, const std::string& lines) const {
    write_bytes(cluster_ / "logs" / pod, lines);
  }
  std::vector<std::string> objects() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cluster_ / "objects")) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string described(const std::string& name) const {
    return kubernetes({"describe", name, "--summarize"}).out;
  }

  const Path cluster_ = dir_ / "cluster";
  const std::string jobs_ = job("master") + ", " + job("worker");
  const std::string both_run_ = jobs_ + pod("master", "Running") + pod("worker", "Running");
};

TEST_F(KubernetesJobs, AreManifestsWithADryRun) {
  const Words dry{"--dry-run", "--scale-tier", "STANDARD_1"};
  const Outcome printed = submit_there("census_1", dry);
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("name: census-1-worker\n"));
  // A host of two processors says nothing of a cluster.
  EXPECT_THAT(printed.err, Not(HasSubstr("this host")));
  EXPECT_THAT(printed.out, HasSubstr("- --job-dir\n            - /job\n"));
  EXPECT_EQ(submit_there("census_1", dry + Words{"--context", "c"}).status, 2);
  EXPECT_EQ(muster({"submit", "training", "a", "--dry-run", "--", "/bin/true"}).status, 2);
  EXPECT_THAT(store_.names(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(cluster_ / "calls"));
}

TEST_F(KubernetesJobs, AreFollowedFromTheQueueToTheirEnd) {
  const Outcome submitted =
      submit_there("census_1", {"--scale-tier", "pair", "--context", "lab", "--namespace", "team"});
  ASSERT_EQ(submitted.status, 0) << submitted.err;
  EXPECT_EQ(submitted.out, "jobId: census_1\nstate: QUEUED\n");
  EXPECT_THAT(objects(), ElementsAre("Job-census-1-master", "Job-census-1-worker",
                                     "Secret-census-1-secret", "Service-census-1"));
  EXPECT_THAT(read_bytes(cluster_ / "calls"),
              StartsWith("--context=lab --namespace=team --request-timeout=20s create "));
  says(jobs_);
  EXPECT_THAT(kubernetes({"list"}).out, HasSubstr("census_1  QUEUED "));
  says(
      jobs_ +
      pod("master", "Pending",
          R"(, "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}])"));
  EXPECT_THAT(described("census_1"),
              AllOf(HasSubstr("QUEUED"),
                    HasSubstr("master-replica-0: Unschedulable: 0/3 nodes are available")));
  says(
      jobs_ + pod("master", "Running") +
      pod("worker", "Pending",
          R"(, "conditions": [{"type": "PodScheduled", "status": "True"}], "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image i:1"}}}])"));
  EXPECT_THAT(described("census_1"),
              AllOf(HasSubstr("PREPARING"), HasSubstr("worker-replica-0: ImagePullBackOff")));
  says(both_run_);
  logs("census-1-master-0-x",
       "2026-03-01T10:04:11.100000000Z 2026-03-01T10:04:11.099 I master:0 loss = 3.5, step = 41\n"
       "2026-03-01T10:04:11.300000000Z three\n");
  logs("census-1-worker-0-x", "2026-03-01T10:04:11.200000000Z two\n");
  EXPECT_THAT(described("census_1"), AllOf(HasSubstr("RUNNING"), HasSubstr("step  41")));
  EXPECT_FALSE(kubernetes_run(store_.read("census_1")).note.size());
  EXPECT_EQ(kubernetes({"wait", "census_1", "--timeout", "0.6"}).status, 1);
  logs("census-1-master-0-x",
       read_bytes(cluster_ / "logs" / "census-1-master-0-x") +
           "2026-03-01T10:04:11.300000000Z the same moment\n2026-03-01T10:04:12.5Z last");
  says(job("master", "Complete") + ", " + job("worker") + pod("master", "Succeeded") +
       pod("worker", "Running"));
  const Outcome streamed = kubernetes({"stream-logs", "census_1"});
  EXPECT_EQ(streamed.status, 0) << streamed.err;
  std::string tasks;
  std::istringstream lines(streamed.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\tservice\t") == std::string::npos) {
      tasks += line.substr(line.find("replica") - 7) + "\n";
    }
  }
  EXPECT_EQ(tasks,
            "master-replica-0\t\tloss = 3.5, step = 41\nworker-replica-0\t\ttwo\n"
            "master-replica-0\t\tthree\nmaster-replica-0\t\tthe same moment\n"
            "master-replica-0\t\tlast\n");
  EXPECT_THAT(streamed.out, AllOf(HasSubstr("\tservice\t\tjob census_1 is RUNNING\n"),
                                  HasSubstr("\tservice\t\tjob census_1 is SUCCEEDED\n")));
  // The worker would have gone on.
  EXPECT_THAT(objects(), Not(Contains("Job-census-1-worker")));
  EXPECT_EQ(jobs::to_text(*store_.read("census_1").end_time), "2026-03-01T10:04:11.000000Z");
  EXPECT_EQ(kubernetes({"wait", "census_1"}).out, "SUCCEEDED\n");
  // Its logs stay when its pods are gone.
  std::filesystem::remove_all(cluster_ / "logs");
  EXPECT_THAT(kubernetes({"stream-logs", "census_1", "--task-name", "worker"}).out,
              HasSubstr("worker-replica-0\t\ttwo\n"));
  EXPECT_EQ(kubernetes({"delete", "census_1"}).status, 0);
  EXPECT_THAT(objects(), IsEmpty());
  EXPECT_THAT(store_.names(), IsEmpty());
  // This host had nothing to do with it.
  EXPECT_FALSE(std::filesystem::exists(store_.folder() / "supervisor.log"));
}

TEST_F(KubernetesJobs, ThatFailSayWhichReplicaAndHow) {
  ASSERT_EQ(submit_there("census_1").status, 0);
  const auto ended = [](int status, const char* reason) {
    return fmt::format(
        R"(, "containerStatuses": [{{"state": {{"terminated": {{"exitCode": {}, "reason": "{}"}}}}}}])",
        status, reason);
  };
  says(both_run_);
  EXPECT_THAT(described("census_1"), HasSubstr("RUNNING"));
  // Worth another try: the pod has a successor.
  says(jobs_ + pod("master", "Running") + pod("worker", "Failed", ended(75, "Error"), "a") +
       pod("worker", "Running", "", "b"));
  logs("census-1-worker-0-a", "2026-03-01T10:04:11.1Z peer lost\n");
  logs("census-1-worker-0-b", "2026-03-01T10:04:12.1Z again\n");
  EXPECT_THAT(described("census_1"),
              AllOf(HasSubstr("RUNNING"), HasSubstr("worker-replica-0: exited with status 75")));
  says(job("master") + ", " +
       job("worker", "Failed", "PodFailurePolicy", "matching FailJob rule at index 1") +
       pod("master", "Running") + pod("worker", "Failed", ended(2, "Error"), "b"));
  const Outcome waited = kubernetes({"wait", "census_1"});
  EXPECT_EQ(waited.status, 1);
  EXPECT_EQ(waited.out, "FAILED\n");
  EXPECT_THAT(waited.err, HasSubstr("worker-replica-0 exited with status 2"));
  EXPECT_THAT(objects(), Not(Contains("Job-census-1-master")));
  const std::string lines = kubernetes({"stream-logs", "census_1", "--task-name", "worker:0"}).out;
  EXPECT_THAT(lines, AllOf(HasSubstr("peer lost"), HasSubstr("again")));
  // One whose objects were deleted by hand.
  ASSERT_EQ(submit_there("other_1").status, 0);
  says(both_run_);
  EXPECT_THAT(described("other_1"), HasSubstr("RUNNING"));
  std::filesystem::remove_all(cluster_ / "objects");
  EXPECT_THAT(described("other_1"),
              AllOf(HasSubstr("FAILED"), HasSubstr("has no object of the job any more")));
}

TEST_F(KubernetesJobs, ThatAreCancelledGetTimeToSave) {
  ASSERT_EQ(submit_there("census_1").status, 0);
  says(both_run_);
  EXPECT_EQ(kubernetes({"delete", "census_1"}).status, 1);
  EXPECT_THAT(described("census_1"), HasSubstr("RUNNING"));
  write_bytes(
      cluster_ / "terminating.json",
      R"({"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": "census-1-master-0-x", "deletionTimestamp": "2026-03-01T10:04:11Z", "labels": {"app.kubernetes.io/component": "master"}}, "status": {"phase": "Running"}}]})");
  EXPECT_EQ(kubernetes({"cancel", "census_1"}).status, 0);
  EXPECT_EQ(state("census_1"), State::kCancelling);
  // Tasks that save need the names of the others.
  EXPECT_THAT(objects(), ElementsAre("Secret-census-1-secret", "Service-census-1"));
  logs("census-1-master-0-x", "2026-03-01T10:04:11.1Z saved\n");
  EXPECT_THAT(described("census_1"), HasSubstr("CANCELLING"));
  std::filesystem::remove(cluster_ / "terminating.json");
  const Outcome waited = kubernetes({"wait", "census_1", "--timeout", "60"});
  EXPECT_EQ(waited.out, "CANCELLED\n") << waited.err;
  EXPECT_THAT(objects(), IsEmpty());
  EXPECT_EQ(store_.read("census_1").error_message, "The job was cancelled by the user.");
  EXPECT_EQ(kubernetes({"cancel", "census_1"}).status, 0);
  EXPECT_THAT(kubernetes({"stream-logs", "census_1"}).out, HasSubstr("\tsaved\n"));
}

TEST_F(KubernetesJobs, ThatCannotBeMadeLeaveNothing) {
  const Outcome none = muster({"submit", "training", "a", "--backend", "kubernetes", "--image",
                               "i:1", "--kubectl", "/no/kubectl", "--", "census"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("there is no program /no/kubectl"), HasSubstr("--kubectl"),
                              Not(HasSubstr("could not be deleted"))));
  const auto refused = [&](const char* words, int status, const char* wanted) {
    write_bytes(cluster_ / "error", words);
    const Outcome run = submit_there("a");
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err,
                AllOf(HasSubstr(wanted), HasSubstr(std::string(words).substr(0, 30)),
                      HasSubstr("kubectl delete jobs.batch,services,secrets --selector=")));
    EXPECT_THAT(store_.names(), IsEmpty());
    std::filesystem::remove(cluster_ / "error");
  };
  // Nothing can have been made: there is nothing to be deleted.
  for (const char* words :
       {"The connection to the server localhost:8080 was refused - did you specify the right host "
        "or port?",
        "error: error validating \"STDIN\": error validating data: failed to download openapi: Get "
        "\"https://10.0.0.1:6443/openapi/v2?timeout=20s\": dial tcp 10.0.0.1:6443: connect: "
        "connection refused; if you choose to ignore these errors, turn validation off with "
        "--validate=false"}) {
    write_bytes(cluster_ / "error", words);
    const Outcome away = submit_there("a");
    EXPECT_EQ(away.status, 75) << away.err;
    EXPECT_THAT(away.err, AllOf(HasSubstr("the cluster cannot be reached"), HasSubstr("refused"),
                                Not(HasSubstr("delete it with"))));
    EXPECT_THAT(store_.names(), IsEmpty());
    std::filesystem::remove(cluster_ / "error");
  }
  refused("Unable to connect to the server: net/http: TLS handshake timeout", 75,
          "the cluster cannot be reached");
  refused("error: You must be logged in to the server (Unauthorized)", 1, "does not know you");
  // Objects that were created before are deleted.
  write_bytes(cluster_ / "refused",
              "Job Error from server (Forbidden): error when creating \"STDIN\": jobs.batch is "
              "forbidden: User \"ana\" cannot create resource \"jobs\" in API group \"batch\" in "
              "the namespace \"default\"\n");
  const Outcome forbidden = submit_there("a");
  EXPECT_EQ(forbidden.status, 1);
  EXPECT_THAT(forbidden.err, AllOf(HasSubstr("the cluster does not allow it"),
                                   HasSubstr("User \"ana\" cannot create resource"),
                                   Not(HasSubstr("could not be deleted"))));
  EXPECT_THAT(objects(), IsEmpty());
  EXPECT_THAT(store_.names(), IsEmpty());
  std::filesystem::remove(cluster_ / "refused");
  // A job of another user stays as it is.
  write_bytes(cluster_ / "objects" / "Job-a-worker", "theirs");
  const Outcome exists = submit_there("a");
  EXPECT_EQ(exists.status, 1);
  EXPECT_THAT(exists.err, AllOf(HasSubstr("choose another name"), HasSubstr("already exists")));
  EXPECT_THAT(objects(), ElementsAre("Job-a-worker"));
  EXPECT_THAT(store_.names(), IsEmpty());
}

TEST_F(KubernetesJobs, OfOtherKindsAreFollowedToo) {
  ASSERT_EQ(submit_there("census_1", {"--scale-tier", "pair", "--kind", "jobset"}).status, 0);
  EXPECT_THAT(objects(), ElementsAre("JobSet-census-1", "Secret-census-1-secret"));
  says(
      R"({"kind": "JobSet", "metadata": {"name": "census-1"}, "status": {"terminalState": "Completed", "conditions": [{"type": "Completed", "status": "True"}]}})" +
      pod("master", "Succeeded") + pod("worker", "Succeeded"));
  EXPECT_THAT(described("census_1"), HasSubstr("SUCCEEDED"));
  EXPECT_EQ(kubernetes({"delete", "census_1"}).status, 0);
  EXPECT_THAT(objects(), IsEmpty());
  ASSERT_EQ(submit_there("census_1", {"--scale-tier", "pair", "--kind", "tfjob"}).status, 0);
  EXPECT_THAT(objects(), ElementsAre("Secret-census-1-secret", "TFJob-census-1"));
  says(
      R"({"kind": "TFJob", "metadata": {"name": "census-1"}, "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "TFJobFailed", "message": "TFJob census-1 has failed because 1 Worker replica(s) failed."}]}})" +
      pod("worker", "Failed"));
  EXPECT_THAT(described("census_1"), AllOf(HasSubstr("FAILED"), HasSubstr("TFJobFailed")));
  EXPECT_THAT(read_bytes(cluster_ / "calls"),
              AllOf(HasSubstr("get jobsets.jobset.x-k8s.io,pods --selector=muster-run="),
                    HasSubstr("get tfjobs.kubeflow.org,pods --selector=muster-run="),
                    HasSubstr("logs census-1-worker-0-x --container=program --timestamps"),
                    HasSubstr("logs census-1-worker-0-x --container=tensorflow --timestamps")));
  // An object without a controller there is refused.
  write_bytes(cluster_ / "refused",
              "JobSet error: unable to recognize \"STDIN\": no matches for kind \"JobSet\" in "
              "version \"jobset.x-k8s.io/v1alpha2\"\n");
  const Outcome none = submit_there("b", {"--scale-tier", "pair", "--kind", "jobset"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("--kind jobs"), HasSubstr("no matches for kind")));
  EXPECT_THAT(store_.names(), ElementsAre("census_1"));
}

// Jobs that a kill -9 in the middle of a submit leaves.
TEST_F(KubernetesJobs, ThatWereHalfSubmittedAreTakenBack) {
  ASSERT_EQ(submit_there("census_1").status, 0);
  const auto set = [&](std::chrono::seconds age) {
    store_.change("census_1", [&](Job& job) {
      jobs::KubernetesRun run = kubernetes_run(job);
      run.is_submitted = false;
      keep(job, run);
      job.create_time = std::chrono::time_point_cast<std::chrono::microseconds>(
          std::chrono::system_clock::now() - age);
    });
  };
  set(std::chrono::seconds(0));
  EXPECT_THAT(kubernetes({"list"}).out, HasSubstr("QUEUED"));
  EXPECT_EQ(objects().size(), 4);
  set(std::chrono::seconds(60));
  {
    const auto submits = jobs::HeldLock::take(run_lock_of(store_, "census_1"));
    EXPECT_THAT(kubernetes({"list"}).out, HasSubstr("QUEUED"));
  }
  EXPECT_THAT(kubernetes({"list"}).out, HasSubstr("FAILED"));
  EXPECT_THAT(objects(), IsEmpty());
  EXPECT_THAT(store_.read("census_1").error_message, HasSubstr("The submit was killed"));
}

TEST_F(KubernetesJobs, OfAClusterThatDoesNotAnswerStayAsTheyWere) {
  ASSERT_EQ(submit_there("census_1").status, 0);
  says(both_run_);
  EXPECT_THAT(described("census_1"), HasSubstr("RUNNING"));
  write_bytes(cluster_ / "error",
              "Unable to connect to the server: net/http: TLS handshake timeout");
  const Outcome list = kubernetes({"list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, HasSubstr("census_1  RUNNING"));
  EXPECT_THAT(list.err, HasSubstr("TLS handshake timeout"));
  const Outcome describe = kubernetes({"describe", "census_1"});
  EXPECT_THAT(describe.out, HasSubstr("state: RUNNING"));
  EXPECT_THAT(describe.err, HasSubstr("the cluster cannot be reached"));
  // A cancellation that did not reach it is repeated by the next command that does.
  EXPECT_EQ(kubernetes({"cancel", "census_1"}).status, 75);
  EXPECT_EQ(state("census_1"), State::kCancelling);
  std::filesystem::remove(cluster_ / "error");
  EXPECT_EQ(kubernetes({"wait", "census_1", "--timeout", "60"}).out, "CANCELLED\n");
  EXPECT_THAT(objects(), IsEmpty());
}

TEST_F(Jobs, OnAFullDiskOrInAFolderThatCannotBeWrittenAreNotSubmitted) {
  auto small = options();
  small.most_file_bytes = 100;
  testing::RunningProgram full(MUSTER_PROGRAM, Words{"jobs"} + script_words("a", "note a", {}),
                               small);
  const Outcome run = full.wait();
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_THAT(run.err, Not(HasSubstr("submitted successfully")));
  EXPECT_THAT(store_.names(), IsEmpty());
  write_bytes(dir_ / "file", "");
  const Outcome no_folder =
      muster({"submit", "training", "a", "--jobs-dir", dir_ / "file" / "jobs", "--", "/bin/true"});
  EXPECT_EQ(no_folder.status, 1);
  EXPECT_THAT(no_folder.err, HasSubstr((dir_ / "file").string()));
}

// ---------------------------------------------------------------------------------------- many

TEST_F(Jobs, AreListedByTheThousand) {
  for (int i = 0; i < 1000; ++i) {
    Job job{.job_id = fmt::format("job_{}", i),
            .state = State::kSucceeded,
            .create_time = jobs::Time(std::chrono::seconds(i))};
    job.training_input.args = {"--train-steps", "1000", "--train-files", "adult.data.csv"};
    job.local.command = {"/usr/bin/census", "--train-steps", "1000"};
    // Not by create(), which waits for the disk.
    std::filesystem::create_directories(store_.folder_of(job.job_id));
    write_bytes(store_.folder_of(job.job_id) / "job.json", to_json(job));
  }
  const auto begin = std::chrono::steady_clock::now();
  const Outcome list = muster({"list"});
  const auto listed = std::chrono::steady_clock::now();
  const Outcome added = submit("another", "exit 0");
  const auto submitted = std::chrono::steady_clock::now();
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 1001);
  EXPECT_THAT(list.out, HasSubstr("CREATED\njob_999 "));
  EXPECT_EQ(added.status, 0) << added.err;
  const auto ms = [](auto span) { return std::chrono::duration<double, std::milli>(span).count(); };
  fmt::print("list of 1000 jobs {:.0f} ms, submit {:.0f} ms\n", ms(listed - begin),
             ms(submitted - listed));
  EXPECT_EQ(end_of("another"), State::kSucceeded);
}

TEST_F(KubernetesJobs, ThatPredictRunInOnePod) {
  const Words flags{"submit",  "prediction",    "p",        "--backend",     "kubernetes",
                    "--image", "census:1",      "--volume", "data:/data",    "--max-worker-count",
                    "3",       "--data-format", "json",     "--output-path", "gs://b/out"};
  const Outcome dry = kubernetes(
      flags + Words{"--model-dir", "/data/model", "--input-paths", "/data/a.json", "--dry-run"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("- batch-predict"), HasSubstr("- --model-dir=/data/model"),
                             HasSubstr("- --input-paths=/data/a.json"),
                             HasSubstr("- --output-path=gs://b/out"), HasSubstr("claimName: data"),
                             HasSubstr("memory: '3000M'"), HasSubstr("type: RuntimeDefault")));
  EXPECT_THAT(store_.names(), IsEmpty());
  const Outcome here = kubernetes(
      flags + Words{"--model-dir", "model", "--input-paths", "/data/a.json", "--dry-run"});
  EXPECT_EQ(here.status, 2);
  EXPECT_THAT(here.err, HasSubstr("--model-dir: in Kubernetes a path is one of a store"));
  EXPECT_EQ(kubernetes(flags + Words{"--model-dir", "/data/model", "--input-paths", "/data/a.json"})
                .status,
            0);
  EXPECT_THAT(objects(), ElementsAre("Job-p-master"));
  says(job("master", "Complete") + pod("master", "Succeeded"));
}

TEST_F(KubernetesJobs, WithHyperparametersAreStudiesInOnePod) {
  write_bytes(dir_ / "study.yaml",
              "trainingInput:\n  scaleTier: ONE\n  hyperparameters:\n    params:\n"
              "      - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}\n");
  const Outcome one = submit_there("a", {"--config", dir_ / "study.yaml", "--dry-run"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("- muster\n            - tune\n"));
  EXPECT_THAT(one.err, Not(HasSubstr("hyperparameters")));
  const Outcome pair =
      submit_there("a", {"--config", dir_ / "study.yaml", "--scale-tier", "pair", "--dry-run"});
  EXPECT_THAT(pair.err, HasSubstr("with a tier of several the program runs once"));
}

constexpr const char* kStudy =
    "trainingInput:\n"
    "  scaleTier: ONE\n"
    "  hyperparameters:\n"
    "    goal: MINIMIZE\n"
    "    hyperparameterMetricTag: loss\n"
    "    maxTrials: 5\n"
    "    params:\n"
    "      - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}\n";

// Reports x as the loss, after a while.
constexpr const char* kStudyScript = R"sh(
note "$CLOUD_ML_TRIAL_ID $*"
sleep 0.1
for word; do case $word in --x=*) x=${word#--x=} ;; esac; done
echo "{\"loss\": \"$x\", \"global_step\": \"3\"}" > "$CLOUD_ML_HP_METRIC_FILE"
)sh";

TEST_F(Jobs, WithHyperparametersAreStudies) {
  write_bytes(dir_ / "study.yaml", kStudy);
  const std::string job_dir = dir_ / "out";
  submit("study", kStudyScript, {"--config", dir_ / "study.yaml", "--job-dir", job_dir});
  // The process of the study; the job is restarted after it.
  EXPECT_TRUE(eventually([&] { return notes().size() >= 2; }));
  const auto process =
      process::read_pid_file(store_.folder_of("study") / "attempts" / "1" / "master.pid");
  ASSERT_TRUE(process);
  ::kill(process->pid, SIGKILL);
  EXPECT_EQ(end_of("study"), State::kSucceeded) << store_.read("study").error_message;
  const Outcome shown = muster({"describe", "study", "--summarize"});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("Trials\nTRIAL  STATE      loss"), HasSubstr("\n5 ")));
  std::set<std::string> trials;
  for (const std::string& note : notes()) trials.insert(note);
  EXPECT_EQ(trials.size(), 5U) << "every trial has its values and folder, however often it starts";
  EXPECT_THAT(*trials.begin(), HasSubstr("--job-dir " + job_dir + "/1"));
}

TEST_F(Jobs, WithHyperparametersCanForkTheirTrials) {
  write_bytes(dir_ / "study.yaml", kStudy);
  // A shell cannot be forked, and the study says so.
  submit("study", kStudyScript,
         {"--config", dir_ / "study.yaml", "--job-dir", dir_ / "out", "--warm", "--restarts", "0"});
  EXPECT_EQ(end_of("study"), State::kFailed);
  EXPECT_THAT(muster({"stream-logs", "study"}).out, HasSubstr("has no run_main(argc, argv, body)"));
  EXPECT_THAT(submit("plain", kStudyScript, {"--warm"}).err, HasSubstr("--warm is for studies"));
}

TEST_F(Jobs, WithHyperparametersThatCannotBeSearchedAreRefused) {
  write_bytes(dir_ / "study.yaml", std::string(kStudy) + "    algorithm: GRID_SEARCH\n");
  const Outcome refused =
      submit("study", "", {"--config", dir_ / "study.yaml", "--job-dir", dir_ / "out"});
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("study.yaml:4"), HasSubstr("GRID_SEARCH goes over no DOUBLE")));
  EXPECT_THAT(store_.names(), IsEmpty());
}

}  // namespace
}  // namespace muster
