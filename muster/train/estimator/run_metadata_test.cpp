#include "muster/train/estimator/run_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/run_records.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

TEST(RunMetadata, AnExportsNoteComesBackToTheBit) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ExportNote note{
      .global_step = 400,
      .metrics = {{"accuracy", 0.1 + 0.2}, {"loss", infinity}, {"auc", -infinity}},
      .folder = "1700000000"};
  EXPECT_EQ(parse_export_note(to_json(note), "it"), note);
  const auto nan = parse_export_note(to_json({.metrics = {{"loss", std::nan("")}}}), "it");
  EXPECT_TRUE(std::isnan(nan.metrics.at("loss")));
}

TEST(RunMetadata, EachExporterHasItsOwnAndTheRestOfTheFileStays) {
  const TempDir folder;
  testing::write_bytes(folder / "muster.json", R"({"version": 1, "run_id": "abc"})");
  EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt);
  const ExportNote first{.global_step = 1, .metrics = {{"loss", 2}}, .folder = "10"};
  const ExportNote second{.global_step = 5, .metrics = {{"loss", 1}}, .folder = "20"};
  write_export_note(folder.path(), "best", first);
  write_export_note(folder.path(), "latest", first);
  write_export_note(folder.path(), "best", second);
  EXPECT_EQ(read_export_note(folder.path(), "best"), second);
  EXPECT_EQ(read_export_note(folder.path(), "latest"), first);
  const auto file = nlohmann::json::parse(testing::read_bytes(folder / "muster.json"));
  EXPECT_EQ(file.at("run_id"), "abc");
}

TEST(RunMetadata, AFolderWithoutTheFileHasNone) {
  const TempDir folder;
  EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt);
}

TEST(RunMetadata, DamageIsSetAsideAndEndsNothing) {
  const ExportNote note{.global_step = 3, .metrics = {{"loss", 1}}, .folder = "10"};
  for (const char* text : {"", "{", "[]", "7", R"({"version": "x"})",
                           R"({"version": 1, "exporters": [1], "run": 3})"}) {
    const TempDir folder;
    testing::write_bytes(folder / "muster.json", text);
    EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt) << text;
    EXPECT_EQ(read_run_note(folder.path()), std::nullopt) << text;
    write_export_note(folder.path(), "best", note);
    EXPECT_EQ(read_export_note(folder.path(), "best"), note) << text;
    EXPECT_EQ(testing::read_bytes(folder / "muster.json.damaged"), text);
  }
}

TEST(RunMetadata, ADamagedNoteIsNone) {
  const TempDir folder;
  for (const char* text :
       {R"({"version": 1, "exporters": {"best": 3}})",
        R"({"version": 1, "exporters": {"best": {"global_step": 1, "metrics": {"loss": "x"}}}})"}) {
    testing::write_bytes(folder / "muster.json", text);
    EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt) << text;
  }
}

TEST(RunMetadata, WhatALaterVersionWroteIsLeftAlone) {
  const TempDir folder;
  const Path file = folder / "muster.json";
  testing::write_bytes(file, R"({"version": 2})");
  for (const std::function<void()>& use :
       {std::function<void()>([&] { read_export_note(folder.path(), "best"); }),
        std::function<void()>([&] { write_export_note(folder.path(), "best", {}); })}) {
    EXPECT_THAT(testing::message_of(use), HasSubstr(file.string()));
  }
  EXPECT_EQ(testing::read_bytes(file), R"({"version": 2})");
}

TEST(RunMetadata, TheEndOfARunComesBackAndExportsStay) {
  const TempDir folder;
  const Path model_dir = folder / "not there yet";
  EXPECT_EQ(read_run_note(model_dir), std::nullopt);
  const RunNote begun{.began_ns = 1'700'000'000'000'000'001};
  write_run_note(model_dir, begun);
  EXPECT_EQ(read_run_note(model_dir), begun);
  const ExportNote best{.global_step = 1, .metrics = {{"loss", 2}}, .folder = "10"};
  write_export_note(model_dir, "best", best);
  const RunNote ended{.began_ns = begun.began_ns, .ended = true, .global_step = 40};
  write_run_note(model_dir, ended);
  EXPECT_EQ(read_run_note(model_dir), ended);
  EXPECT_EQ(read_export_note(model_dir, "best"), best);
}

TEST(RunRecords, SayWhatARunWasMadeOfAndWhatCameOut) {
  const TempDir folder;
  RunRecord record{.began_ns = 5,
                   .program = "/bin/census",
                   .arguments = {"--job-dir", "\xff"},
                   .git = GitState{.repository = "/src", .commit = "abc", .branch = "main"},
                   .seed = 7,
                   .versions = {{"libtorch", "1.13"}},
                   .files = {{.path = "/data/a.csv", .size_bytes = 12, .modified_ns = 3}}};
  note_run_metrics(folder.path(), {{"loss", 1}});  // Nothing to note them of.
  add_run_record(folder.path(), record);
  record.began_ns = 6;
  add_run_record(folder.path(), record);
  end_run_record(folder.path(), 6, 40);
  note_run_metrics(folder.path(), {{"loss", 0.5}, {"auc", std::nan("")}});
  const auto runs = nlohmann::json::parse(testing::read_bytes(folder / "muster.json")).at("runs");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FALSE(runs[0].at("ended").get<bool>());
  EXPECT_FALSE(runs[0].contains("metrics"));
  EXPECT_TRUE(runs[1].at("ended").get<bool>());
  EXPECT_EQ(runs[1].at("global_step"), 40);
  EXPECT_EQ(runs[1].at("metrics"), (nlohmann::json{{"loss", 0.5}, {"auc", "nan"}}));
  EXPECT_EQ(runs[1].at("git").at("commit"), "abc");
  EXPECT_EQ(runs[1].at("files")[0].at("size_bytes"), 12);
}

TEST(RunRecords, TheOldestOfMoreThanAHundredGoes) {
  const TempDir folder;
  for (std::int64_t i = 1; i <= 103; ++i) add_run_record(folder.path(), {.began_ns = i});
  const auto runs = nlohmann::json::parse(testing::read_bytes(folder / "muster.json")).at("runs");
  ASSERT_EQ(runs.size(), 100u);
  EXPECT_EQ(runs[0].at("began_ns"), 4);
}

TEST(RunMetadata, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const TempDir folder;
  const Path left = folder / ".muster.json.tmp-1-0";
  testing::write_bytes(left, "{");
  write_run_note(folder.path(), {.began_ns = 1});
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_EQ(read_run_note(folder.path()), RunNote{.began_ns = 1});
}

TEST(RunMetadata, WhoeverWritesAtTheSameTimeLosesNothing) {
  const TempDir folder;
  constexpr int kTimes = 50;
  const auto write = [&](const std::string& exporter) {
    for (int i = 1; i <= kTimes; ++i) {
      write_export_note(folder.path(), exporter, {.global_step = i});
    }
  };
  {
    const std::jthread other([&] { write("other"); });
    for (int i = 1; i <= kTimes; ++i) {
      write_run_note(folder.path(), {.began_ns = i});
      ASSERT_EQ(read_run_note(folder.path()), RunNote{.began_ns = i});
    }
  }
  EXPECT_EQ(read_export_note(folder.path(), "other")->global_step, kTimes);
}

}  // namespace
}  // namespace muster
