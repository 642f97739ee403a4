// `muster launch`, `muster local train` and `muster cluster explain`, as processes. Their tasks are
// shell scripts: what a task does is in the script, who it is in TF_CONFIG.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include "muster/orchestration/process/process_identity.h"
#include "muster/testing/eventually.h"
#include "muster/testing/process.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using testing::read_bytes;
using testing::run_program;
using testing::RunningProgram;
using ::testing::StartsWith;
using testing::TempDir;
using testing::write_bytes;

// Sets $task to "worker1" and the like, and has words for what tests need.
constexpr const char* kPrelude = R"sh(
type=$(echo "$TF_CONFIG" | sed 's/.*"type":"\([a-z]*\)".*/\1/')
index=$(echo "$TF_CONFIG" | sed 's/.*"index":\([0-9]*\).*/\1/')
task=$type$index
dir=$1
note() { echo "$*" >> "$dir/notes"; }
hold() { while :; do sleep 0.02; done; }
until_there() { while [ ! -e "$dir/$1" ]; do sleep 0.01; done; }
)sh";

class Launch : public ::testing::Test {
 protected:
  // The words for a launch of this script as every task.
  std::vector<std::string> words(const std::string& script, std::vector<std::string> flags = {}) {
    write_bytes(dir_ / "script", kPrelude + script);
    std::vector<std::string> all{"launch", "--log-dir", dir_ / "runlogs"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", "/bin/sh", dir_ / "script", dir_.path().string()});
    return all;
  }

  Outcome launch(const std::string& script, std::vector<std::string> flags = {}) {
    return run_program(MUSTER_PROGRAM, words(script, std::move(flags)));
  }

  std::vector<std::string> notes() const {
    if (!std::filesystem::exists(dir_ / "notes")) return {};
    std::istringstream text(read_bytes(dir_ / "notes"));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  bool noted(std::size_t count) const { return notes().size() >= count; }
  bool has_note(const std::string& note) const {
    const auto all = notes();
    return std::find(all.begin(), all.end(), note) != all.end();
  }

  void touch(const char* name) const { write_bytes(dir_ / name, ""); }

  std::string log_of(const char* task) const {
    return read_bytes(dir_ / "runlogs" / (std::string(task) + ".log"));
  }

  TempDir dir_;
};

bool all_gone(const std::vector<std::string>& pids) {
  return std::none_of(pids.begin(), pids.end(), [](const std::string& pid) {
    return process::identify(std::stoi(pid)).has_value();
  });
}

// ---------------------------------------------------------------------------------- a good run

TEST_F(Launch, GivesEveryTaskItsPlaceItsFilesAndEndsWithTheMaster) {
  const Outcome run = launch("note $task; echo hello from $task");
  EXPECT_EQ(run.status, 0) << run.err;
  auto seen = notes();
  std::sort(seen.begin(), seen.end());
  EXPECT_THAT(seen, ElementsAre("master0", "ps0", "worker0", "worker1"));
  EXPECT_EQ(log_of("worker1"), "hello from worker1\n");
  EXPECT_THAT(run.out, HasSubstr("[worker:1] hello from worker1\n"));
  EXPECT_THAT(run.err, HasSubstr("Job launched."));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runlogs/worker1.pid"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runlogs/launch.pid"));
  EXPECT_THAT(read_bytes(dir_ / "training_log.md"),
              AllOf(StartsWith("---\n## local-sh_"), HasSubstr("\n### Hypothesis\n"),
                    HasSubstr("### Results\nExit status 0 after ")));
}

TEST_F(Launch, DrawsASecretForEachRunThatItsTasksShare) {
  for (const char* run : {"a", "b"}) {
    const Outcome outcome = launch("note $MUSTER_SECRET", {"--workers", "1", "--no-training-log"});
    EXPECT_EQ(outcome.status, 0) << run << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr(notes().front())));
  }
  const auto seen = notes();
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.begin() + 3).size(), 1U);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 2U);
  EXPECT_EQ(seen.front().size(), 64U);
}

TEST_F(Launch, APsThatFailsForGoodEndsTheRunWithItsStatus) {
  const Outcome run =
      launch("if [ $type = ps ]; then exit 3; fi; trap 'note $task; exit 0' TERM; hold",
             {"--workers", "1", "--restart", "never"});
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the run cannot go on without ps:0"));
}

TEST_F(Launch, OfLaunchesInOneInstantWithOneFolderOneRuns) {
  std::vector<std::unique_ptr<RunningProgram>> all;
  // Written once: a task may read the script while the next launch begins.
  const auto arguments = words("note $task; until_there end", {"--workers", "0", "--ps", "0"});
  std::generate_n(std::back_inserter(all), 4,
                  [&] { return std::make_unique<RunningProgram>(MUSTER_PROGRAM, arguments); });
  // Three say that there is another; then the one that runs may end.
  EXPECT_TRUE(eventually([&] {
    return std::count_if(all.begin(), all.end(), [](auto& one) { return one->ended(); }) >= 3;
  }));
  EXPECT_TRUE(eventually([&] { return noted(1); }));
  touch("end");
  int good = 0;
  for (auto& one : all) {
    const Outcome outcome = one->wait();
    if (outcome.status == 0) {
      ++good;
    } else {
      EXPECT_THAT(outcome.err, HasSubstr("another launch"));
    }
  }
  EXPECT_EQ(good, 1);
  EXPECT_EQ(notes().size(), 1U);
}

TEST_F(Launch, MergesWholeLinesOfTasksThatWriteAtOnce) {
  const Outcome run = launch(R"(
i=0; while [ $i -lt 300 ]; do printf '%s ' $task; printf 'line %s\n' $i; i=$((i + 1)); done)");
  std::istringstream text(run.out);
  std::size_t count = 0;
  for (std::string line; std::getline(text, line); ++count) {
    // "[worker:1] worker1 line 17": the name before it is that of the task that wrote it.
    const std::string name = line.substr(1, line.find(']') - 1);
    std::string plain = name;
    plain.erase(plain.find(':'), 1);
    ASSERT_THAT(line, StartsWith(fmt::format("[{}] {} line ", name, plain))) << line;
  }
  EXPECT_EQ(count, 1200U);
}

TEST_F(Launch, HandsTheProgramItsArgumentsWordForWord) {
  write_bytes(dir_ / "script", R"(printf '<%s>' "$@")");
  const Outcome run =
      run_program(MUSTER_PROGRAM, {"launch", "--log-dir", dir_ / "runlogs", "--workers", "0",
                                   "--ps", "0", "--no-training-log", "--", "/bin/sh",
                                   dir_ / "script", "--", "[1,2]", "--workers", "", "stop"});
  EXPECT_EQ(run.out, "[master:0] <--><[1,2]><--workers><><stop>\n") << run.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "training_log.md"));
}

TEST_F(Launch, LetsAnEvaluatorFinishAfterTheChief) {
  const Outcome run = launch(R"(
if [ $type = evaluator ]; then until_there chief_done; note evaluated; fi
if [ $type = chief ]; then note chief; touch $dir/chief_done; fi)",
                             {"--evaluator", "--ps", "0", "--workers", "0", "--grace", "0"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(notes(), ElementsAre("chief", "evaluated"));
}

// ------------------------------------------------------------------------------- ends of tasks

TEST_F(Launch, ReturnsTheMastersStatusAndEndsWorkersBeforePs) {
  const Outcome run = launch(R"(
trap 'note $type; exit 0' TERM
touch $dir/$task.up
if [ $type = master ]; then until_there ps0.up; until_there worker0.up; exit 7; fi
hold)",
                             {"--workers", "1"});
  EXPECT_EQ(run.status, 7) << run.err;
  EXPECT_THAT(notes(), ElementsAre("worker", "ps"));
  EXPECT_THAT(run.err, HasSubstr("master:0 failed status=7"));
}

TEST_F(Launch, KillsWhatIgnoresTheRequestToEnd) {
  const Outcome run = launch(R"(
trap '' TERM
touch $dir/$task.up
if [ $type = master ]; then until_there worker0.up; exit 3; fi
note $$; hold)",
                             {"--workers", "1", "--ps", "0", "--grace", "0.1"});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.err, HasSubstr("killing worker:0"));
  EXPECT_TRUE(all_gone(notes()));
}

TEST_F(Launch, GivesTheStatusOfASignalThatEndedTheMaster) {
  const Outcome run = launch("kill -9 $$", {"--workers", "0", "--ps", "0"});
  EXPECT_EQ(run.status, 128 + SIGKILL);
  EXPECT_FALSE(run.killed);
}

TEST_F(Launch, AFailedWorkerIsReportedAndTheMasterGoesOn) {
  const Outcome run = launch(R"(
if [ $type = worker ]; then touch $dir/failed; exit 5; fi
until_there failed)",
                             {"--workers", "1", "--ps", "0"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("worker:0 failed status=5"));
}

// ------------------------------------------------------------------------------------- restart

TEST_F(Launch, StartsAFailedTaskAgainAtTheSameAddress) {
  const Outcome run = launch(R"(
if [ $type = worker ]; then
  note $TF_CONFIG
  if [ -e $dir/once ]; then touch $dir/good; exit 0; fi
  touch $dir/once; exit 75
fi
until_there good)",
                             {"--workers", "1", "--ps", "0", "--restart", "on-failure:1"});
  EXPECT_EQ(run.status, 0) << run.err;
  ASSERT_EQ(notes().size(), 2U);
  EXPECT_EQ(notes()[0], notes()[1]);
  EXPECT_THAT(run.err, HasSubstr("worker:0 failed status=75: restart 1 of 1"));
}

// As when the master alone is stopped: it stops the others, and is back before the last of them
// has ended.
TEST_F(Launch, StartsThoseAgainThatTheMasterStopped) {
  const Outcome run = launch(R"(
if [ $type = master ]; then
  if [ ! -e $dir/once ]; then touch $dir/once; exit 143; fi
  touch $dir/again; until_there back; exit 0
fi
if [ -e $dir/left ]; then touch $dir/back; exit 0; fi
until_there again; touch $dir/left; exit 143)",
                             {"--workers", "1", "--ps", "0", "--restart", "on-failure:1"});
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(Launch, CallsNoTaskLostThatWasStoppedWithTheMaster) {
  const Outcome run = launch(R"(
if [ $type = ps ]; then touch $dir/stopped; exit 143; fi
until_there stopped; sleep 0.2; exit 143)",
                             {"--workers", "0", "--ps", "1"});
  EXPECT_EQ(run.status, 143) << run.err;
  EXPECT_THAT(run.err, HasSubstr("stopped ps:0 status=143"));
  EXPECT_THAT(run.err, Not(HasSubstr("cannot go on without")));
}

TEST_F(Launch, GivesUpAfterSoManyRestartsAndAtOnceOnMisuse) {
  const Outcome run =
      launch("note $task; exit 9", {"--workers", "0", "--ps", "0", "--restart", "on-failure:2"});
  EXPECT_EQ(run.status, 9);
  EXPECT_EQ(notes().size(), 3U);
  const Outcome misused =
      launch("note again; exit 2", {"--workers", "0", "--ps", "0", "--restart", "on-failure:2"});
  EXPECT_EQ(misused.status, 2);
  EXPECT_EQ(notes().size(), 4U);
}

// --------------------------------------------------------------------------------------- ports

TEST_F(Launch, StartsAllAgainWithOtherPortsWhenOneWasTaken) {
  const Outcome run = launch(R"(
if [ $type = worker ]; then
  note $TF_CONFIG
  if [ ! -e $dir/once ]; then touch $dir/once; echo 'bind: Address already in use'; exit 1; fi
  touch $dir/good; exit 0
fi
until_there good)",
                             {"--workers", "1", "--ps", "1", "--grace", "0.1"});
  EXPECT_EQ(run.status, 0) << run.err;
  ASSERT_EQ(notes().size(), 2U);
  EXPECT_NE(notes()[0], notes()[1]);
  EXPECT_THAT(run.err, HasSubstr("starting all tasks again with other ports, 2 of 3"));
}

TEST_F(Launch, KeepsItsPortsFromOtherLaunches) {
  // None of the tasks listens: a launch of the first task is kept from their ports by the launcher
  // alone.
  const Outcome run =
      launch(R"(
[ $type = master ] || exit 0
ports=$(echo "$TF_CONFIG" | grep -o 'localhost:[0-9]*' | sort | head -1 | sed 's/.*://')
)" MUSTER_PROGRAM
             R"( launch --log-dir $dir/inner --workers 0 --ps 0 --port-range $ports -- /bin/true
note inner $?)",
             {"--workers", "1", "--ps", "0"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(has_note("inner 1")) << run.out;
  EXPECT_THAT(run.out, HasSubstr("only 0 of the 1 ports needed are free"));
}

TEST_F(Launch, TriesOtherPortsOnlySoOften) {
  const Outcome run =
      launch("note $task; exit 75", {"--workers", "0", "--ps", "0", "--grace", "0.1"});
  EXPECT_EQ(run.status, 75);
  EXPECT_EQ(notes().size(), 3U);
}

// ------------------------------------------------------------------------------------- signals

TEST_F(Launch, PassesASignalOnOnceAndToPsLast) {
  RunningProgram run(MUSTER_PROGRAM, words(R"(
trap 'note $type INT; exit 130' INT
touch $dir/$task.up
hold)",
                                           {"--workers", "1"}));
  for (const char* task : {"master0.up", "worker0.up", "ps0.up"}) {
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / task); })) << task;
  }
  run.send(SIGINT);
  const Outcome outcome = run.wait();
  EXPECT_EQ(outcome.status, 130) << outcome.err;
  EXPECT_FALSE(outcome.killed);
  auto seen = notes();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[2], "ps INT");
}

TEST_F(Launch, ASecondSignalKills) {
  RunningProgram run(MUSTER_PROGRAM, words(R"(
trap 'touch $dir/asked' TERM
note $$
hold)",
                                           {"--workers", "0", "--ps", "0", "--grace", "1000"}));
  ASSERT_TRUE(eventually([&] { return noted(1); }));
  run.send(SIGTERM);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / "asked"); }));
  run.send(SIGTERM);
  EXPECT_EQ(run.wait().status, 128 + SIGKILL);
  EXPECT_TRUE(all_gone(notes()));
}

// --------------------------------------------------------------------------- end of the launcher

// Also what tasks have started, and what does not listen to SIGTERM.
TEST_F(Launch, TasksEndWhenTheLauncherIsKilled) {
  RunningProgram run(MUSTER_PROGRAM, words(R"(
[ $type = ps ] && trap '' TERM
sleep 600 & note $!
note $$
hold)",
                                           {"--workers", "1", "--grace", "0.3"}));
  ASSERT_TRUE(eventually([&] { return noted(6); }));
  ASSERT_FALSE(all_gone(notes()));
  run.send(SIGKILL);
  EXPECT_TRUE(run.wait().killed);
  EXPECT_TRUE(eventually([&] { return all_gone(notes()); }));
}

// ---------------------------------------------------------------------------------------- stop

TEST_F(Launch, StopEndsALaunchInOrder) {
  RunningProgram run(MUSTER_PROGRAM, words(R"(
trap 'note $type; exit 0' TERM
touch $dir/$task.up
hold)",
                                           {"--workers", "0"}));
  for (const char* task : {"master0.up", "ps0.up"}) {
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / task); })) << task;
  }
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(dir_ / "runlogs/launch.pid"); }));
  const Outcome second = run_program(MUSTER_PROGRAM, words("exit 0"));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.err, HasSubstr("muster launch stop --log-dir"));
  const Outcome stop =
      run_program(MUSTER_PROGRAM, {"launch", "stop", "--log-dir", dir_ / "runlogs"});
  EXPECT_EQ(stop.status, 0) << stop.err;
  EXPECT_THAT(stop.out, StartsWith("stopped launch (process "));
  EXPECT_EQ(run.wait().status, 0);
  EXPECT_THAT(notes(), ElementsAre("master", "ps"));
  EXPECT_THAT(run_program(MUSTER_PROGRAM, {"launch", "stop", "--log-dir", dir_ / "runlogs"}).out,
              AllOf(StartsWith("nothing of "), EndsWith(" runs\n")));
}

// -------------------------------------------------------------------------------------- misuse

TEST_F(Launch, MisuseNamesTheFlag) {
  const auto error_of = [](const std::vector<std::string>& arguments) {
    const Outcome run = run_program(MUSTER_PROGRAM, arguments);
    EXPECT_EQ(run.status, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(error_of({"launch"}), HasSubstr("no program to start: write it after --"));
  EXPECT_THAT(error_of({"launch", "--restart", "often", "--", "true"}), HasSubstr("--restart: "));
  EXPECT_THAT(error_of({"launch", "--port-range", "9-1", "--", "true"}),
              HasSubstr("--port-range: "));
  EXPECT_THAT(error_of({"launch", "--workers", "-1", "--", "true"}), HasSubstr("--workers"));
  EXPECT_THAT(error_of({"launch", "--master", "--evaluator", "--", "true"}),
              HasSubstr("--master does not go with --evaluator"));
  EXPECT_THAT(error_of({"launch", "--workers", "2000", "--", "true"}),
              HasSubstr("the number of workers"));
  EXPECT_THAT(error_of({"launch", "--colour", "--", "true"}), HasSubstr("--colour"));
}

TEST_F(Launch, TheHelpOfStopSpeaksOfStopAlone) {
  EXPECT_THAT(run_program(MUSTER_PROGRAM, {"launch", "stop", "--help"}).out,
              Not(HasSubstr("follow --")));
}

TEST_F(Launch, AProgramThatIsNotThereIsNamed) {
  const Outcome run = run_program(
      MUSTER_PROGRAM, {"launch", "--log-dir", dir_ / "runlogs", "--", "/no/such/program"});
  EXPECT_EQ(run.status, 1);
  EXPECT_THAT(run.err, HasSubstr("/no/such/program"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "training_log.md"));
}

TEST_F(Launch, DryRunStartsNothing) {
  const Outcome run = launch("note ran", {"--dry-run", "--gpus", "0"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, AllOf(HasSubstr("# worker:1\nTF_CONFIG='{"),
                             HasSubstr("CUDA_VISIBLE_DEVICES=0 /bin/sh ")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runlogs"));
  EXPECT_TRUE(notes().empty());
}

// ---------------------------------------------------------------------------------- local train

class LocalTrain : public Launch {
 protected:
  Outcome train(const std::string& script, std::vector<std::string> flags,
                const std::vector<std::string>& arguments = {}) {
    write_bytes(dir_ / "program", "#!/bin/sh\n" + std::string(kPrelude) + script);
    std::filesystem::permissions(dir_ / "program", std::filesystem::perms::owner_all);
    flags.insert(flags.begin(), {"local", "train", "--module-name", dir_ / "program", "--log-dir",
                                 dir_ / "runlogs"});
    flags.insert(flags.end(), {"--", dir_.path().string()});
    flags.insert(flags.end(), arguments.begin(), arguments.end());
    return run_program(MUSTER_PROGRAM, flags);
  }
};

TEST_F(LocalTrain, HasPortsInARowAndKillsTheOthersWhenTheMasterEnds) {
  const Outcome run = train(R"(
trap '' TERM
note "$task $$"
if [ $type = master ]; then
  until [ $(wc -l < $dir/notes) -eq 4 ]; do sleep 0.01; done
  echo "$TF_CONFIG"; echo "$2 $3 $4"; exit 4
fi
hold)",
                            {"--distributed", "--parameter-server-count", "1", "--start-port",
                             "30100", "--job-dir", "out"},
                            {"--epochs"});
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_THAT(run.out, HasSubstr(R"("cluster":{"master":["localhost:30100"],)"
                                 R"("ps":["localhost:30101"],)"
                                 R"("worker":["localhost:30102","localhost:30103"]})"));
  EXPECT_THAT(run.out, HasSubstr(R"("args":[")"));
  EXPECT_THAT(run.out, HasSubstr("[master:0] --epochs --job-dir out\n"));
  for (const std::string& note : notes()) {
    EXPECT_TRUE(all_gone({note.substr(note.find(' ') + 1)})) << note;
  }
}

TEST_F(LocalTrain, AloneIsToldOfNoClusterAndRunsBesideItsPackage) {
  std::filesystem::create_directories(dir_ / "project/trainer");
  const Outcome run = train(R"(echo "$TF_CONFIG"; pwd)",
                            {"--worker-count", "3", "--package-path", dir_ / "project/trainer/"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(R"("cluster":{},"task":{},"environment":"cloud"})"));
  EXPECT_THAT(run.out, HasSubstr((dir_ / "project").string() + "\n"));
  EXPECT_THAT(run.err, HasSubstr("--worker-count is of no use without --distributed"));
}

// -------------------------------------------------------------------------------------- explain

TEST(ClusterExplain, ExplainsTheEnvironmentAndAnothers) {
  const Outcome own = run_program(MUSTER_PROGRAM, {"cluster", "explain"},
                                  {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=1"});
  EXPECT_EQ(own.status, 0) << own.err;
  EXPECT_THAT(own.out, HasSubstr("this task  worker:0: trains"));
  const std::string config =
      R"({"cluster": {"chief": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}})";
  const TempDir dir;
  write_bytes(dir / "config.json", config);
  const Outcome text = run_program(MUSTER_PROGRAM, {"cluster", "explain", "--tf-config", config});
  const Outcome file =
      run_program(MUSTER_PROGRAM, {"cluster", "explain", "--tf-config", dir / "config.json"});
  EXPECT_THAT(text.out, HasSubstr("this task  ps:0: holds variables"));
  EXPECT_EQ(file.out, text.out);
  const Outcome json =
      run_program(MUSTER_PROGRAM, {"cluster", "explain", "--json", "--tf-config", config});
  EXPECT_THAT(json.out, AllOf(StartsWith("{\n"), HasSubstr("\"source\": \"TF_CONFIG\"")));
}

TEST(ClusterExplain, ExitsWithTwoAndTheReason) {
  const Outcome run = run_program(MUSTER_PROGRAM, {"cluster", "explain"},
                                  {"TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\"]}}"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("cluster must have one \"chief\""));
}

// ---------------------------------------------------------------------------------------- hosts

/// Launches on hosts that a script stands for, which runs what it is given as sshd would.
class LaunchOnHosts : public Launch {
 protected:
  std::vector<std::string> on_hosts(const std::string& script, std::vector<std::string> flags) {
    write_bytes(dir_ / "ssh", R"sh(
dir=$1
shift
echo "$*" | tr '\n' ' ' >> "$dir/ssh_words"
while [ "$1" != -- ]; do shift; done
echo "$2" >> "$dir/asked"
exec env -i PATH="$PATH" /bin/sh -c "$3"
)sh");
    flags.insert(flags.end(),
                 {"--ssh", "/bin/sh " + (dir_ / "ssh").string() + " " + dir_.path().string()});
    return words(script, std::move(flags));
  }
  std::vector<std::string> asked() const {
    std::istringstream text(read_bytes(dir_ / "asked"));
    std::vector<std::string> hosts{std::istream_iterator<std::string>(text), {}};
    std::sort(hosts.begin(), hosts.end());
    return hosts;
  }
};

TEST_F(LaunchOnHosts, TasksAreDealtInTurnAndLearnTheirAddresses) {
  const Outcome outcome =
      run_program(MUSTER_PROGRAM, on_hosts("note \"$TF_CONFIG\"; [ $task != worker1 ] || exit 3",
                                           {"--workers", "2", "--ps", "1", "--hosts", "a,me@b,c"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(asked(), ElementsAre("a", "a", "c", "me@b"));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("worker:1 failed status=3"), HasSubstr("started worker:0 pid=")));
  EXPECT_THAT(notes().front(), AllOf(HasSubstr(R"({"master":["a:)"), HasSubstr(R"("ps":["a:)"),
                                     HasSubstr(R"("worker":["b:)"), HasSubstr(R"(,"c:)")));
}

TEST_F(LaunchOnHosts, TheSecretIsInNoCommandLine) {
  const Outcome outcome =
      run_program(MUSTER_PROGRAM,
                  on_hosts("note \"$MUSTER_SECRET $MUSTER_EXTRA\"",
                           {"--workers", "0", "--ps", "0", "--hosts", "a"}),
                  {"MUSTER_SECRET=a long random text", "MUSTER_EXTRA=it's \"quoted\""});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(notes(), ElementsAre("a long random text it's \"quoted\""));
  EXPECT_THAT(read_bytes(dir_ / "ssh_words"), Not(HasSubstr("random")));
}

TEST_F(LaunchOnHosts, ASignalIsPassedOnToTheTaskAndItsEndWaitedFor) {
  RunningProgram launcher(MUSTER_PROGRAM,
                          on_hosts("trap 'sleep 0.1; note saved; exit 143' TERM; note ready; hold",
                                   {"--workers", "0", "--ps", "0", "--hosts", "a"}));
  ASSERT_TRUE(eventually([&] { return noted(1); }));
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait().status, 143);
  EXPECT_TRUE(has_note("saved"));
}

TEST_F(LaunchOnHosts, ATaskEndsWhenItsLauncherIsKilled) {
  RunningProgram launcher(MUSTER_PROGRAM,
                          on_hosts("trap 'note ended; exit 143' TERM; note ready; hold",
                                   {"--workers", "0", "--ps", "0", "--hosts", "a"}));
  ASSERT_TRUE(eventually([&] { return noted(1); }));
  launcher.send(SIGKILL);
  launcher.wait();
  EXPECT_TRUE(eventually([&] { return has_note("ended"); }));
}

TEST_F(LaunchOnHosts, NamesThatSshWouldTakeForOptionsAreRefused) {
  const Outcome outcome = run_program(
      MUSTER_PROGRAM, on_hosts("", {"--workers", "0", "--ps", "0", "--hosts", "-oProxyCommand=x"}));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err, HasSubstr("not the name of a host: '-oProxyCommand=x'"));
}

}  // namespace
}  // namespace muster
