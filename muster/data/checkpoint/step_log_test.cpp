#include "muster/data/checkpoint/step_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "muster/base/error.h"
#include "muster/data/checkpoint/step_log_check.h"
#include "muster/testing/message_of.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::flip_byte;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_bytes;
using testing::SmallDisk;
using testing::TempDir;
using testing::write_bytes;
using Kind = StepLogRecord::Kind;

const StepLogIdentity kIdentity{.run = "r1", .task = "ps:0", .model = "m", .replicas = 4};

/// A log that is written, read back and damaged.
class Log {
 public:
  explicit Log(const Path& folder, StepLogOptions options = {}) : log_(folder, options) {}

  void begin(std::int64_t step = 0, const StepLogIdentity& identity = kIdentity) {
    step_ = step;
    write(&StepLog::begin, {.kind = Kind::kBase, .step = step, .identity = identity}, "base");
  }
  void prepare(std::vector<StepLogRecord::Push> pushes = {{"chief:0", 0, 2}, {"worker:0", 2, 4}},
               const std::string& body = "gradients") {
    write(&StepLog::append,
          {.kind = Kind::kPrepared,
           .step = step_,
           .skipped_batches = left_out_,
           .pushes = std::move(pushes),
           .detail = "detail"},
          body);
  }
  void commit(bool is_left_out = false, std::vector<double> squares = {1.5}) {
    write(&StepLog::append,
          {.kind = Kind::kCommitted,
           .step = step_,
           .skipped_batches = left_out_,
           .is_left_out = is_left_out,
           .squares = std::move(squares)},
          "");
    ++(is_left_out ? left_out_ : step_);
  }
  void make_steps(int count) {
    for (int i = 0; i < count; ++i) {
      prepare();
      commit();
    }
  }
  void end() { write(&StepLog::append, {.kind = Kind::kEnded, .step = step_}, ""); }
  StepLog& get() { return log_; }

 private:
  void write(void (StepLog::*how)(const StepLogRecord&, StepLogBody), const StepLogRecord& record,
             const std::string& body) {
    const auto bytes = std::as_bytes(std::span(body));
    // Two pieces, which are one for a reader.
    const std::array pieces{bytes.first(bytes.size() / 2), bytes.subspan(bytes.size() / 2)};
    (log_.*how)(record, pieces);
  }

  StepLog log_;
  std::int64_t step_ = 0;
  std::int64_t left_out_ = 0;
};

/// Records that recover() visits, as text.
std::vector<std::string> recovered(StepLog& log, const StepLogIdentity& identity = kIdentity) {
  std::vector<std::string> seen;
  const bool found = log.recover(identity, [&](const StepLogRecord& record, std::string_view body) {
    seen.push_back(fmt::format("{} {} {}", static_cast<int>(record.kind), record.step, body));
  });
  EXPECT_EQ(found, !seen.empty());
  return seen;
}
std::vector<std::string> recovered(const Path& folder) {
  StepLog log(folder);
  return recovered(log);
}

Path file_in(const Path& folder) { return list_step_logs(folder).back(); }

TEST(StepLog, GivesBackWhatWasWritten) {
  const TempDir folder;
  Log log(folder.path());
  log.begin(7);
  log.prepare();
  log.commit();
  log.prepare({{"chief:0", 0, 4}}, std::string(3 << 20, 'g'));
  EXPECT_THAT(recovered(folder.path()),
              ElementsAre("1 7 base", "2 7 gradients", "3 7 ", "2 8 " + std::string(3 << 20, 'g')));
  StepLogReader reader(file_in(folder.path()));
  std::string_view body;
  EXPECT_EQ(reader.next(body)->identity, kIdentity);
  const auto prepared = reader.next(body);
  EXPECT_EQ(prepared->pushes[1], (StepLogRecord::Push{"worker:0", 2, 4}));
  EXPECT_EQ(prepared->detail, "detail");
  EXPECT_THAT(reader.next(body)->squares, ElementsAre(1.5));
}

TEST(StepLog, GoesOnBehindWhatItRecovered) {
  const TempDir folder;
  Log(folder.path()).begin();
  {
    Log log(folder.path());
    EXPECT_THAT(recovered(log.get()), ElementsAre("1 0 base"));
    log.make_steps(1);
  }
  EXPECT_EQ(recovered(folder.path()).size(), 3U);
}

TEST(StepLog, CutsOffWhatAKillLeftHalfWritten) {
  const TempDir folder;
  {
    Log log(folder.path());
    log.begin();
    log.make_steps(2);
  }
  const std::string whole = read_bytes(file_in(folder.path()));
  {
    Log log(folder.path());
    recovered(log.get());
    StepLog& raw = log.get();
    raw.append({.kind = Kind::kPrepared, .step = 2});
  }
  const std::string more = read_bytes(file_in(folder.path()));
  for (std::size_t size = whole.size() + 1; size < more.size(); ++size) {
    write_bytes(file_in(folder.path()), more.substr(0, size));
    EXPECT_EQ(recovered(folder.path()).size(), 5U) << size;
    EXPECT_EQ(read_bytes(file_in(folder.path())), whole) << size;
  }
}

// As often as a log of a base, two steps and an end has bytes.
TEST(StepLog, CutAnywhereGoesOnWithTheRecordsThatAreWhole) {
  const TempDir folder;
  std::vector<std::size_t> ends;
  {
    Log log(folder.path());
    const auto note = [&] { ends.push_back(read_bytes(file_in(folder.path())).size()); };
    log.begin();
    note();
    for (int i = 0; i < 2; ++i) {
      log.prepare();
      note();
      log.commit();
      note();
    }
  }
  const Path file = file_in(folder.path());
  const std::string whole = read_bytes(file);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    write_bytes(file, whole.substr(0, size));
    const auto records = static_cast<std::size_t>(
        std::ranges::count_if(ends, [&](std::size_t end) { return end <= size; }));
    StepLogReader reader(file);
    std::string_view body;
    std::size_t found = 0;
    while (found <= records && reader.next(body)) ++found;
    EXPECT_EQ(found, records) << size;
    EXPECT_EQ(reader.torn_at().has_value(), size != 0 && !std::ranges::count(ends, size)) << size;
    EXPECT_EQ(recovered(folder.path()).size(), records) << size;
    if (records == 0) continue;
    // The torn record is gone, and the next one is found after the whole ones.
    StepLog log(folder.path());
    EXPECT_EQ(recovered(log).size(), records) << size;
    log.append({.kind = Kind::kPrepared, .step = static_cast<std::int64_t>((records - 1) / 2)});
    EXPECT_EQ(recovered(folder.path()).size(), records + 1) << size;
  }
}

TEST(StepLog, NamesFileAndOffsetOfDamageAnywhereElse) {
  const TempDir folder;
  Log log(folder.path());
  log.begin();
  log.make_steps(2);
  const Path file = file_in(folder.path());
  const std::size_t size = read_bytes(file).size();
  for (std::size_t offset = 0; offset < size; ++offset) {
    flip_byte(file, offset);
    // A length that is read wrongly is damage, not an end.
    const std::string message = message_of([&] { recovered(folder.path()); });
    EXPECT_THAT(message, AllOf(HasSubstr(file.string()), HasSubstr("at byte"))) << offset;
    flip_byte(file, offset);
  }
  EXPECT_EQ(recovered(folder.path()).size(), 5U);
}

TEST(StepLog, HoldsRecordsToTheirOrder) {
  const TempDir folder;
  const auto message_after = [&](const StepLogRecord& record) {
    Log log(folder.path());
    log.begin();
    log.make_steps(1);
    log.get().append(record);
    return message_of([&] { recovered(folder.path()); });
  };
  EXPECT_THAT(message_after({.kind = Kind::kPrepared, .step = 2}),
              HasSubstr("about step 2 (0 skipped), where step 1 (0 skipped) is due"));
  EXPECT_THAT(message_after({.kind = Kind::kCommitted, .step = 1}),
              HasSubstr("committed without gradients"));
  EXPECT_THAT(message_after({.kind = Kind::kBase, .step = 1}), HasSubstr("a second base"));
  EXPECT_THAT(message_after({.kind = static_cast<Kind>(0), .step = 1}), HasSubstr("not known"));
}

TEST(StepLog, IsOfNoUseToAnotherRunTaskOrModelOrAfterTheEnd) {
  const TempDir folder;
  Log log(folder.path());
  log.begin();
  StepLogIdentity others[] = {kIdentity, kIdentity, kIdentity, kIdentity};
  others[0].run = "r2";
  others[1].task = "ps:1";
  others[2].model = "n";
  others[3].replicas = 3;
  for (const auto& other : others) {
    StepLog reader(folder.path());
    EXPECT_THAT(recovered(reader, other), ElementsAre());
    EXPECT_FALSE(reader.is_open());
  }
  log.end();
  EXPECT_THAT(recovered(folder.path()), ElementsAre());
}

TEST(StepLog, BeginsAnewInOneStepWhenItIsLarge) {
  const TempDir folder;
  Log log(folder.path(), {.most_bytes = 1000});
  log.begin();
  EXPECT_FALSE(log.get().is_due());
  while (!log.get().is_due()) log.make_steps(1);
  log.begin(50);
  EXPECT_FALSE(log.get().is_due());
  log.make_steps(1);
  EXPECT_EQ(list_step_logs(folder.path()).size(), 1U);
  EXPECT_THAT(recovered(folder.path()), ElementsAre("1 50 base", "2 50 gradients", "3 50 "));
}

TEST(StepLog, OnAFullDiskKeepsWhatIsThere) {
  const TempDir folder;
  Log log(folder.path());
  log.begin();
  log.make_steps(2);
  {
    const SmallDisk full(static_cast<rlim_t>(read_bytes(file_in(folder.path())).size() + 20));
    EXPECT_THROW(log.prepare(), ResourceExhausted);
    EXPECT_THROW(log.prepare(), FailedPrecondition);
    EXPECT_THROW(Log(folder.path()).begin(9, {.run = std::string(4000, 'r')}), ResourceExhausted);
  }
  EXPECT_EQ(recovered(folder.path()).size(), 5U);
}

TEST(StepLog, TheChiefsFolderNamesTheRunOnce) {
  const TempDir one;
  const TempDir other;
  EXPECT_EQ(step_log_run(one.path()), step_log_run(one.path()));
  EXPECT_NE(step_log_run(one.path()), step_log_run(other.path()));
}

TEST(StepLogRun, ThatIsDamagedIsSaidToBeSo) {
  const testing::TempDir dir;
  const std::string name = step_log_run(dir.path());
  for (const std::string& damaged :
       {std::string(), std::string("\n"), name.substr(1), name + "0"}) {
    testing::write_bytes(dir / "ps_log/run", damaged);
    EXPECT_THAT(
        testing::message_of([&] { step_log_run(dir.path()); }),
        ::testing::AllOf(HasSubstr("ps_log/run is damaged"), HasSubstr("remove the folder")));
  }
  testing::write_bytes(dir / "ps_log/run", name + "\n");
  EXPECT_EQ(step_log_run(dir.path()), name);
}

class StepLogCheck : public ::testing::Test {
 protected:
  // Two tasks under one model_dir.
  Path folder_of(int number) { return dir_ / "ps_log" / fmt::format("ps-{}", number); }
  std::vector<StepLogSummary> check() { return check_step_logs(std::array{dir_.path()}); }
  std::string complaint() {
    return message_of([&] { check(); });
  }

  const TempDir dir_;
};

TEST_F(StepLogCheck, ProvesThatEveryReplicaIsInEveryStepOnce) {
  for (const int number : {0, 1}) {
    Log log(folder_of(number));
    log.begin(3);
    log.make_steps(1);
    log.prepare({{"chief:0", 0, 4}});
    log.make_steps(1);
    log.prepare();
    log.commit(/*is_left_out=*/true, {std::numeric_limits<double>::quiet_NaN()});
    if (number == 0) log.make_steps(1);
  }
  const auto found = check();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].first_step, 3);
  EXPECT_EQ(found[0].last_step, 6);
  EXPECT_EQ(found[1].last_step, 5);
  EXPECT_EQ(found[1].committed, 3);
  EXPECT_EQ(found[1].skipped_batches, 1);
  EXPECT_EQ(found[1].void_attempts, 1);
}

TEST_F(StepLogCheck, FindsAReplicaThatIsMissingOrThereTwice) {
  Log log(folder_of(0));
  log.begin();
  log.make_steps(1);
  log.prepare({{"chief:0", 0, 2}, {"worker:0", 1, 4}});
  log.commit();
  EXPECT_THAT(complaint(), AllOf(HasSubstr("step 2"), HasSubstr("replica 1 is in it twice")));
  log.begin();
  log.prepare({{"chief:0", 0, 2}, {"worker:0", 3, 4}});
  log.commit();
  EXPECT_THAT(complaint(), AllOf(HasSubstr("step 1"), HasSubstr("replica 2 of 4 is not in it")));
}

TEST_F(StepLogCheck, FindsTasksThatDisagree) {
  Log first(folder_of(0));
  first.begin();
  first.make_steps(3);
  Log second(folder_of(1));
  second.begin();
  second.make_steps(1);
  EXPECT_THAT(complaint(), HasSubstr("to step 1"));
  second.prepare();
  second.commit(false, {2.5});
  EXPECT_THAT(complaint(), AllOf(HasSubstr("step 2"), HasSubstr("tells otherwise")));
  second.begin(0, {.run = "r2", .task = "ps:1", .model = "m", .replicas = 4});
  EXPECT_THAT(complaint(), HasSubstr("logs of two runs"));
}

TEST_F(StepLogCheck, SaysOfALogCutAnywhereHowFarItGoes) {
  {
    Log log(folder_of(0));
    log.begin(3);
    log.make_steps(1);
  }
  const Path file = file_in(folder_of(0));
  const std::string whole = read_bytes(file);
  const std::string nothing = message_of([] {});
  bool begun = false;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(file, whole.substr(0, size));
    const std::string said = complaint();
    EXPECT_THAT(said, ::testing::AnyOf(nothing, HasSubstr(file.string() + " has no base")));
    EXPECT_FALSE(begun && said != nothing) << size << ": " << said;
    begun = said == nothing;
    if (!begun) continue;
    EXPECT_EQ(check().front().last_step, 3) << size;
  }
  EXPECT_TRUE(begun);
}

TEST_F(StepLogCheck, NamesAFolderWithoutLogs) {
  EXPECT_THAT(complaint(), AllOf(HasSubstr(dir_.path().string()), HasSubstr("no log")));
}

}  // namespace
}  // namespace muster
