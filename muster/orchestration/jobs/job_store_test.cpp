#include "muster/orchestration/jobs/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "muster/base/error.h"
#include "muster/testing/forked.h"
#include "muster/testing/message_of.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"

namespace muster::jobs {
namespace {

using ::muster::testing::Forked;
using ::muster::testing::message_of;
using ::muster::testing::read_bytes;
using ::muster::testing::SmallDisk;
using ::muster::testing::TempDir;
using ::muster::testing::write_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Job named(const std::string& name) {
  static int age = 0;
  return {.job_id = name, .create_time = Time(std::chrono::seconds(1'000'000 + age++))};
}

class Store : public ::testing::Test {
 protected:
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TempDir dir_;
  const JobStore store_{dir_.path()};
};

TEST_F(Store, GivesBackWhatItWasGiven) {
  const Job job = named("a");
  store_.create(job, {"A=1", "B=\xff\n=", "C="});
  EXPECT_EQ(store_.read("a"), job);
  EXPECT_THAT(store_.environment_of("a"), ElementsAre("A=1", "B=\xff\n=", "C="));
}

TEST_F(Store, KeepsArgumentsAndEnvironmentFromOthers) {
  store_.create(named("a"), {"SECRET=x"});
  struct stat status {};
  ASSERT_EQ(::stat((dir_ / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
}

TEST_F(Store, ListsTheNewestFirstAndSkipsWhatIsNoJob) {
  for (const char* name : {"b", "a", "c"}) store_.create(named(name), {});
  std::filesystem::create_directory(dir_ / "other");
  write_bytes(dir_ / "b" / "job.json", std::string(1 << 20, '['));
  std::vector<std::string> names;
  for (const Job& job : store_.list()) names.push_back(job.job_id);
  EXPECT_THAT(names, ElementsAre("c", "a"));
  EXPECT_THAT(JobStore(dir_ / "none").list(), IsEmpty());
}

TEST_F(Store, WaitsForNoPipeAndReadsNothingOutside) {
  const TempDir outside;
  JobStore(outside.path()).create(named("secret"), {});
  for (const char* name : {"good", "pipe", "link"}) store_.create(named(name), {});
  std::filesystem::remove(dir_ / "pipe" / "job.json");
  ASSERT_EQ(::mkfifo((dir_ / "pipe" / "job.json").c_str(), 0600), 0);
  std::filesystem::remove(dir_ / "link" / "job.json");
  std::filesystem::create_symlink(outside / "secret" / "job.json", dir_ / "link" / "job.json");
  std::filesystem::create_directory_symlink(outside / "secret", dir_ / "folder");
  std::vector<std::string> names;
  for (const Job& job : store_.list()) names.push_back(job.job_id);
  EXPECT_THAT(names, ElementsAre("good"));
  for (const char* name : {"pipe", "link", "folder"}) {
    EXPECT_THROW(store_.read(name), InvalidArgument) << name;
    EXPECT_THROW(store_.change(name, [](Job& job) { job.labels["a"] = "b"; }), InvalidArgument);
  }
  EXPECT_TRUE(JobStore(outside.path()).read("secret").labels.empty());
}

TEST_F(Store, RefusesANameThatIsTakenAndLeavesTheJobAlone) {
  const Job job = named("a");
  store_.create(job, {});
  EXPECT_THAT(message_of([&] { store_.create(named("a"), {}); }),
              AllOf(HasSubstr("a job a already"), HasSubstr("muster jobs delete a")));
  EXPECT_EQ(store_.read("a"), job);
  EXPECT_THAT(entries(), ElementsAre("a"));
}

TEST_F(Store, OfManySubmitsOfOneNameOneWins) {
  constexpr int kMany = 8;
  std::vector<std::unique_ptr<Forked>> others;
  for (int i = 0; i < kMany; ++i) {
    others.push_back(std::make_unique<Forked>([&](const auto&) {
      try {
        store_.create(named("a"), {});
        return 0;
      } catch (const AlreadyExists&) {
        return 1;
      }
    }));
  }
  int winners = 0;
  for (const auto& other : others) winners += other->wait() == 0 ? 1 : 0;
  EXPECT_EQ(winners, 1);
  EXPECT_THAT(entries(), ElementsAre("a"));
}

TEST_F(Store, LeavesNothingOfASubmitThatAFullDiskEnds) {
  Job job = named("a");
  job.training_input.args.assign(1000, "a long argument");
  {
    const SmallDisk disk(1000);
    EXPECT_THROW(store_.create(job, {}), Error);
  }
  EXPECT_THAT(entries(), IsEmpty());
  store_.create(job, {});
}

TEST_F(Store, KeepsACopyOfAProgramThatIsBuiltAgainLater) {
  const TempDir built;
  const Path program = built / "census";
  write_bytes(program, "as submitted");
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  Job job = named("a");
  job.local.command = {program.string(), "--steps", "1"};
  store_.keep_program(job);
  store_.create(job, {});
  const Path kept = store_.folder_of("a") / "program" / "census";
  // In place, as some linkers do.
  write_bytes(program, "built again");
  EXPECT_EQ(read_bytes(kept), "as submitted");
  EXPECT_EQ(::access(kept.c_str(), X_OK), 0);
  EXPECT_EQ(store_.read("a"), job);
  EXPECT_THAT(store_.read("a").local.command, ElementsAre(kept.string(), "--steps", "1"));
  EXPECT_EQ(store_.read("a").local.program_from, program);
}

TEST_F(Store, HasNoJobWhoseProgramCannotBeCopied) {
  const TempDir built;
  Job job = named("a");
  job.local.command = {(built / "census").string()};
  store_.keep_program(job);
  EXPECT_THAT(message_of([&] { store_.create(job, {}); }), HasSubstr((built / "census").string()));
  write_bytes(built / "census", std::string(100'000, 'x'));
  {
    const SmallDisk disk(50'000);
    EXPECT_THROW(store_.create(job, {}), Error);
  }
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(Store, KeepsTheOldJobWhenAFullDiskEndsAChange) {
  Job job = named("a");
  store_.create(job, {});
  {
    const SmallDisk disk(100);
    EXPECT_THROW(store_.change("a", [](Job& changed) { changed.state = State::kRunning; }), Error);
  }
  EXPECT_EQ(store_.read("a"), job);
}

TEST_F(Store, OfNoSuchJobSuggestsOne) {
  store_.create(named("census_1"), {});
  EXPECT_THAT(message_of([&] { store_.read("census1"); }),
              AllOf(HasSubstr("no job census1"), HasSubstr("did you mean census_1?")));
  EXPECT_THROW(store_.change("b", [](Job&) {}), NotFound);
  EXPECT_THROW(store_.read("../census_1"), InvalidArgument);
}

TEST_F(Store, LosesNoChangeOfManyProcesses) {
  store_.create(named("a"), {});
  constexpr int kMany = 4;
  constexpr int kChanges = 25;
  std::vector<std::unique_ptr<Forked>> others;
  for (int i = 0; i < kMany; ++i) {
    others.push_back(std::make_unique<Forked>([&](const auto&) {
      for (int j = 0; j < kChanges; ++j) {
        store_.change("a", [](Job& job) { ++job.local.attempts; });
        store_.read("a");
      }
      return 0;
    }));
  }
  for (const auto& other : others) EXPECT_EQ(other->wait(), 0);
  EXPECT_EQ(store_.read("a").local.attempts, kMany * kChanges);
}

TEST_F(Store, RemovesJobsThatAreOverAlone) {
  store_.create(named("a"), {});
  EXPECT_THAT(message_of([&] { store_.remove("a"); }),
              AllOf(HasSubstr("a is QUEUED"), HasSubstr("muster jobs cancel a")));
  store_.change("a", [](Job& job) { job.state = State::kFailed; });
  store_.remove("a");
  EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(Store, RemovesWhatKilledSubmitsLeftWhenItIsOld) {
  std::filesystem::create_directory(dir_ / ".submit-a-1");
  std::filesystem::create_directory(dir_ / ".submit-b-2");
  std::filesystem::last_write_time(
      dir_ / ".submit-a-1", std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  store_.remove_leftovers();
  EXPECT_THAT(entries(), ElementsAre(".submit-b-2"));
}

TEST_F(Store, ALockIsHeldByOneProcessUntilItsEnd) {
  const Path file = dir_ / "run.lock";
  EXPECT_FALSE(HeldLock::is_held(file));
  Forked other([&](const auto& hear) {
    const auto lock = HeldLock::take(file);
    write_bytes(dir_ / "taken", lock ? "yes" : "no");
    hear();
    return 0;
  });
  while (!std::filesystem::exists(dir_ / "taken")) std::this_thread::yield();
  EXPECT_TRUE(HeldLock::is_held(file));
  EXPECT_FALSE(HeldLock::take(file).has_value());
  other.send(SIGKILL);
  other.wait();
  EXPECT_FALSE(HeldLock::is_held(file));
  EXPECT_TRUE(HeldLock::take(file).has_value());
}

}  // namespace
}  // namespace muster::jobs
