#include "muster/console/run_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "muster/base/error.h"
#include "muster/console/event_files_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> ids_of(const RunStore& store) {
  std::vector<std::string> ids;
  for (const RunSummary& run : store.list()) ids.push_back(run.id);
  return ids;
}

void read_all(RunStore& store) {
  while (store.read_next()) {
  }
}

TEST(RunStore, FindsRunsAndTheirEvaluations) {
  const testing::TempDir folder;
  write_scalars(folder / "census" / kEvents, "loss", {{1, 4.0F}, {2, 3.0F}});
  write_scalars(folder / "census" / "eval_test" / kEvents, "loss", {{2, 5.0F}});
  write_scalars(folder / "study" / "1" / kEvents, "loss", {{1, 1.0F}});
  std::filesystem::create_directories(folder / "census" / "export");
  RunStore store({folder.path()});
  EXPECT_THAT(ids_of(store), ElementsAre("census", "study/1"));
  EXPECT_FALSE(store.list()[0].is_read);
  read_all(store);
  const RunSummary run = store.list()[0];
  EXPECT_TRUE(run.is_read);
  EXPECT_EQ(run.points, 3U);
  EXPECT_EQ(run.last_step, 2);
  EXPECT_THAT(run.tags->training, ElementsAre("loss"));
  EXPECT_THAT(run.tags->evaluations.at("eval_test"), ElementsAre("loss"));
  const auto curves = store.curves({{"census"}}, "loss", 100);
  ASSERT_THAT(curves, SizeIs(2));
  EXPECT_THAT(curves[0].points, ElementsAre(Point{1, 101, 4}, Point{2, 102, 3}));
  EXPECT_EQ(curves[1].evaluation, "eval_test");
  EXPECT_THAT(curves[1].points, ElementsAre(Point{2, 102, 5}));
}

TEST(RunStore, SamplesOfTasksAreCurvesOfTheirRun) {
  const testing::TempDir folder;
  write_scalars(folder / "census" / kEvents, "loss", {{1, 4.0F}});
  write_scalars(folder / "census" / "machine.worker_0" / kEvents, "machine/processors",
                {{1, 2.0F}});
  write_scalars(folder / "machine_learning" / kEvents, "loss", {{1, 4.0F}});
  RunStore store({folder.path()});
  EXPECT_THAT(ids_of(store), ElementsAre("census", "machine_learning"));
  const auto curves = store.curves({{"census"}}, "machine/processors", 100);
  ASSERT_THAT(curves, SizeIs(1));
  EXPECT_EQ(curves[0].evaluation, "machine.worker_0");
}

// As many as are worth an index, each with a point of its own.
void write_many_runs(const Path& folder) {
  for (int i = 0; i < 100; ++i) {
    write_scalars(folder / std::to_string(i) / kEvents, "loss", {{i + 1, 0.5F}});
  }
}

TEST(RunStore, KnowsRunsOfItsIndexBeforeTheirFilesAreRead) {
  const testing::TempDir folder;
  write_many_runs(folder.path());
  write_run_notes(folder / "7", {.name = "seven"});
  {
    RunStore store({folder.path()});
    read_all(store);
    store.save_index();
  }
  write_scalars(folder / "8" / kEvents, "loss", {{1, 0.5F}, {90, 0.25F}});
  write_scalars(folder / "9" / "eval" / kEvents, "accuracy", {{3, 0.5F}});
  std::filesystem::remove_all(folder / "99");
  RunStore store({folder.path()});
  const auto run_of = [&](const std::string& id) { return store.summary(id); };
  EXPECT_EQ(ids_of(store).size(), 99U);
  EXPECT_TRUE(run_of("7").is_read);
  EXPECT_EQ(run_of("7").notes.name, "seven");
  EXPECT_EQ(run_of("7").last_step, 8);
  EXPECT_EQ(run_of("7").tags, run_of("6").tags);
  std::vector<std::string> changed;
  while (const auto read = store.read_next()) {
    if (read->has_changed) changed.push_back(read->id);
  }
  EXPECT_THAT(changed, ElementsAre("8", "9"));
  EXPECT_EQ(run_of("8").last_step, 90);
  EXPECT_EQ(store.curves({{"7"}}, "loss", 10).at(0).points.at(0).step, 8);
  EXPECT_EQ(store.curves({{"9"}}, "accuracy", 10).at(0).evaluation, "eval");
}

TEST(RunStore, ReadsRunsAnewThatADamagedIndexDoesNotTellOf) {
  const testing::TempDir folder;
  write_many_runs(folder.path());
  {
    RunStore store({folder.path()});
    read_all(store);
    store.save_index();
  }
  const auto file = folder / kRunIndexFile;
  const std::string whole = testing::read_bytes(file);
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), std::string("{}\n"), std::string(100'000, '['),
        std::string("{\"version\":2,\"tagSets\":[]}\n"), std::string()}) {
    testing::write_bytes(file, bytes);
    RunStore store({folder.path()});
    read_all(store);
    for (const RunSummary& run : store.list()) {
      EXPECT_EQ(run.last_step, std::stoi(run.id) + 1);
      EXPECT_EQ(run.points, 1U);
    }
  }
}

// A run of more points than are kept, in two files; the second was resumed from step 60,000.
void write_long_run(const Path& folder) {
  std::vector<std::pair<std::int64_t, float>> values;
  values.reserve(100'000);
  for (std::int64_t step = 0; step < 100'000; ++step) {
    values.emplace_back(step, static_cast<float>(step % 1000));
  }
  write_scalars(folder / "events.out.tfevents.1.here", "loss", values);
  values.clear();
  for (std::int64_t step = 60'000; step < 90'000; ++step) {
    values.emplace_back(step, -static_cast<float>(step % 1000));
  }
  write_scalars(folder / "events.out.tfevents.2.here", "loss", values);
}

TEST(RunStore, AStretchThatIsSeenIsReadAgainInFull) {
  const testing::TempDir folder;
  write_long_run(folder / "run");
  RunStore store({folder.path()});
  const auto stretch = [&](double from, double to, bool is_of_time) {
    return store.curves({{.id = "run", .range = CurveRange{is_of_time, from, to}}}, "loss", 5000)
        .at(0)
        .points;
  };
  const auto whole = store.curves({{"run"}}, "loss", 0).at(0);
  EXPECT_FALSE(whole.is_whole);
  const auto steps = stretch(30'000, 31'000, false);
  // With a neighbour that was kept on either side.
  ASSERT_THAT(steps, SizeIs(1003));
  for (std::size_t i = 1; i + 1 < steps.size(); ++i) {
    ASSERT_EQ(steps[i].step, 29'999 + static_cast<std::int64_t>(i));
    ASSERT_EQ(steps[i].value, static_cast<double>(steps[i].step % 1000));
  }
  // Times are the steps and 100 seconds.
  const auto times = stretch(30'100, 31'100, true);
  EXPECT_GE(times.size(), 1001U);
  EXPECT_LE(times.size(), 1020U);
  // Steps that the resumed run repeated.
  const auto resumed = stretch(70'000, 70'500, false);
  ASSERT_THAT(resumed, SizeIs(503));
  EXPECT_EQ(resumed[2].value, -1);
  // Steps that it gave up and has not reached again.
  EXPECT_THAT(stretch(95'000, 95'500, false), SizeIs(1));
  EXPECT_THAT(stretch(1e300, 2e300, false), SizeIs(1));
}

TEST(RunStore, SeveralFoldersAreToldApartByTheirNames) {
  const testing::TempDir folder;
  write_scalars(folder / "a" / "runs" / "x" / kEvents, "loss", {{1, 1.0F}});
  write_scalars(folder / "b" / "runs" / "x" / kEvents, "loss", {{1, 1.0F}});
  const RunStore store({folder / "a" / "runs", folder / "b" / "runs"});
  EXPECT_THAT(ids_of(store), ElementsAre("runs/x", "runs~2/x"));
}

TEST(RunStore, SeesWhatIsNewGrowsAndGoes) {
  const testing::TempDir folder;
  RunStore store({folder.path()});
  EXPECT_THAT(ids_of(store), IsEmpty());
  write_scalars(folder / "run" / kEvents, "loss", {{1, 1.0F}});
  EXPECT_TRUE(store.look_at(std::filesystem::canonical(folder.path())));
  EXPECT_TRUE(store.read_next()->has_changed);
  EXPECT_FALSE(store.read_next());

  EXPECT_FALSE(store.look_at(std::filesystem::canonical(folder / "run")));
  EXPECT_FALSE(store.read_next()->has_changed);
  write_scalars(folder / "run" / kEvents, "loss", {{1, 1.0F}, {2, 2.0F}});
  store.look_at(std::filesystem::canonical(folder / "run"));
  // A request reads it meanwhile, and still the change is reported.
  EXPECT_THAT(store.curves({{"run"}}, "loss", 10)[0].points, SizeIs(2));
  EXPECT_TRUE(store.read_next()->has_changed);

  const Path gone = std::filesystem::canonical(folder / "run");
  std::filesystem::remove_all(gone);
  EXPECT_TRUE(store.look_at(gone));
  EXPECT_THAT(ids_of(store), IsEmpty());
}

TEST(RunStore, WhatLiesOutsideIsNotReached) {
  const testing::TempDir folder;
  const testing::TempDir other;
  write_scalars(other / "secret" / kEvents, "loss", {{1, 1.0F}});
  std::filesystem::create_directory_symlink(other / "secret", folder / "link");
  std::filesystem::create_directories(folder / "run");
  std::filesystem::create_symlink(other / "secret" / kEvents, folder / "run" / kEvents);
  RunStore store({folder.path()});
  read_all(store);
  EXPECT_THAT(ids_of(store), IsEmpty());
  EXPECT_THAT(store.curves({{"../secret"}, {(other / "secret").string()}, {"link"}}, "loss", 10),
              IsEmpty());
  EXPECT_FALSE(store.look_at(other / "secret"));
  EXPECT_THAT(ids_of(store), IsEmpty());
}

TEST(RunStore, DamagedFilesAreTold) {
  const testing::TempDir folder;
  write_scalars(folder / "run" / kEvents, "loss", {{1, 1.0F}, {2, 2.0F}});
  testing::flip_byte(folder / "run" / kEvents, 60);
  testing::write_bytes(folder / "run" / "muster.json", "{\"runs\": [");
  RunStore store({folder.path()});
  read_all(store);
  EXPECT_THAT(store.list()[0].problem, HasSubstr(kEvents));
}

TEST(RunStore, DamagedNotesAreToldWithTheirFile) {
  const testing::TempDir folder;
  write_scalars(folder / "run" / kEvents, "loss", {{1, 1.0F}});
  testing::write_bytes(folder / "run" / "run_notes.json", R"({"name": 1})");
  RunStore store({folder.path()});
  read_all(store);
  EXPECT_THAT(store.list()[0].problem, HasSubstr("run_notes.json: name is no text"));
}

TEST(RunStore, MemoryDoesNotGrowWithTheTagsOfAHostileFile) {
  const testing::TempDir folder;
  RecordWriter writer(folder / kEvents, {.durable = false});
  for (int i = 0; i < 5000; ++i) {
    writer.append(encode_event({.what = Summary{{.tag = fmt::format("tag{}", i), .data = 1.0F}}}));
  }
  writer.append(encode_event({.what = Summary{{.tag = std::string(100'000, 'x'), .data = 1.0F}}}));
  writer.close();
  RunStore store({folder.path()});
  read_all(store);
  EXPECT_LE(store.list()[0].tags->training.size(), 2000U);
  EXPECT_THAT(store.list()[0].problem, HasSubstr("tags"));
}

TEST(RunStore, RefusesFoldersThatAreNone) {
  const testing::TempDir folder;
  testing::write_bytes(folder / "file", "x");
  EXPECT_THROW(RunStore({folder / "none"}), NotFound);
  EXPECT_THROW(RunStore({folder / "file"}), InvalidArgument);
  EXPECT_THROW(RunStore({"s3://bucket/runs"}), InvalidArgument);
}

}  // namespace
}  // namespace muster::console
