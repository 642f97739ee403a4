#include "muster/estimator/model_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

TEST(ModelNotes, AnExportsNoteComesBackToTheBit) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ExportNote note{
      .global_step = 400,
      .metrics = {{"accuracy", 0.1 + 0.2}, {"loss", infinity}, {"auc", -infinity}},
      .folder = "1700000000"};
  EXPECT_EQ(parse_export_note(to_json(note), "it"), note);
  const auto nan = parse_export_note(to_json({.metrics = {{"loss", std::nan("")}}}), "it");
  EXPECT_TRUE(std::isnan(nan.metrics.at("loss")));
}

TEST(ModelNotes, EachExporterHasItsOwnAndTheRestOfTheFileStays) {
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

TEST(ModelNotes, AFolderWithoutTheFileHasNone) {
  const TempDir folder;
  EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt);
}

TEST(ModelNotes, DamageIsSetAsideAndEndsNothing) {
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

TEST(ModelNotes, ADamagedNoteIsNone) {
  const TempDir folder;
  for (const char* text :
       {R"({"version": 1, "exporters": {"best": 3}})",
        R"({"version": 1, "exporters": {"best": {"global_step": 1, "metrics": {"loss": "x"}}}})"}) {
    testing::write_bytes(folder / "muster.json", text);
    EXPECT_EQ(read_export_note(folder.path(), "best"), std::nullopt) << text;
  }
}

TEST(ModelNotes, WhatALaterVersionWroteIsLeftAlone) {
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

TEST(ModelNotes, TheEndOfARunComesBackAndExportsStay) {
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

TEST(ModelNotes, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const TempDir folder;
  const Path left = folder / ".muster.json.tmp-1-0";
  testing::write_bytes(left, "{");
  write_run_note(folder.path(), {.began_ns = 1});
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_EQ(read_run_note(folder.path()), RunNote{.began_ns = 1});
}

TEST(ModelNotes, WhoeverWritesAtTheSameTimeLosesNothing) {
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
