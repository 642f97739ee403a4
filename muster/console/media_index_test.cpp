#include "muster/console/media_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error.h"
#include "muster/console/event_files_internal.h"
#include "muster/console/run_store.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

const std::string kPicture("\x89PNG\r\n\x1a\nrest", 12);

Event event_with(std::int64_t step, SummaryValue value) {
  return {.wall_time = 1, .step = step, .what = Summary{std::move(value)}};
}

SummaryValue picture_of(const std::string& bytes) {
  return {.tag = "digit", .data = ImageData{.shape = {}, .encoded = bytes}};
}

void write(const Path& file, const std::vector<Event>& events) {
  std::filesystem::create_directories(file.parent_path());
  RecordWriter writer(file, {.durable = false});
  for (const Event& event : events) writer.append(encode_event(event));
  writer.close();
}

TEST(MediaIndex, RunsShowWhatTheirFilesHaveBesidesScalars) {
  const testing::TempDir folder;
  // GraphDef: one node "a" of op "Const", one "b" of op "Relu" with input "a".
  const std::string graph(
      "\x0a\x0a\x0a\x01"
      "a\x12\x05"
      "Const\x0a\x0c\x0a\x01"
      "b\x12\x04Relu\x1a\x01"
      "a",
      26);
  write(folder / "run" / kEvents,
        {{.what = GraphBytes{graph}},
         event_with(1, {.tag = "loss", .data = 1.0F}),
         event_with(2, picture_of(kPicture)),
         event_with(3, text_summary("note", "<b>well</b>")),
         event_with(4, {.tag = "weights",
                        .data = HistogramData{.num = 2, .limits = {0, 1}, .counts = {1, 1}}})});
  RunStore store({folder.path()});
  const auto media = store.media({{"run"}});
  ASSERT_THAT(media, SizeIs(4));
  EXPECT_TRUE(store.list()[0].has_media);
  const auto item = [&](MediaKind kind, const std::string& tag, std::int64_t step) {
    return store.media_item("run", "", {kind, tag}, step);
  };
  EXPECT_EQ(item(MediaKind::kImage, "digit", 2).content_type, "image/png");
  EXPECT_EQ(item(MediaKind::kImage, "digit", 2).bytes, kPicture);
  EXPECT_EQ(nlohmann::json::parse(item(MediaKind::kText, "note", 3).bytes)["texts"][0],
            "<b>well</b>");
  EXPECT_EQ(nlohmann::json::parse(item(MediaKind::kHistogram, "weights", 4).bytes)["counts"],
            nlohmann::json({1.0, 1.0}));
  const auto nodes = nlohmann::json::parse(item(MediaKind::kGraph, "graph", 0).bytes)["nodes"];
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[1]["inputs"], nlohmann::json({"a"}));
  EXPECT_THROW(item(MediaKind::kImage, "digit", 3), NotFound);
  EXPECT_THROW(item(MediaKind::kText, "digit", 2), NotFound);
}

TEST(MediaIndex, OnlyPicturesThatBrowsersDrawSafelyAreGiven) {
  const Event event = event_with(1, picture_of("<svg onload=alert(1)>"));
  EXPECT_THROW(media_item(event, MediaKind::kImage, "digit"), InvalidArgument);
}

SummaryValue pr_curve_of(std::vector<std::int64_t> shape, std::vector<double> values) {
  return {.tag = "auc",
          .data = NumberTensor{.shape = std::move(shape), .values = std::move(values)},
          .plugin = "pr_curves"};
}

TEST(MediaIndex, GivesPrecisionAndRecallOfACurve) {
  const Event event =
      event_with(7, pr_curve_of({6, 2}, {4, 1, 3, 0, 1, 4, 0, 3, 0.5, 1, 1, std::nan("")}));
  MediaIndex index;
  index.note(event, {});
  ASSERT_THAT(index.places(), SizeIs(1));
  EXPECT_EQ(index.places().begin()->first.first, MediaKind::kPrCurve);
  EXPECT_EQ(nlohmann::json::parse(media_item(event, MediaKind::kPrCurve, "auc").bytes),
            nlohmann::json({{"precision", {0.5, 1.0}}, {"recall", {1.0, nullptr}}}));
  for (const auto& shape : {std::vector<std::int64_t>{6, 3}, {4, 3}, {12}, {6, 1 << 20}}) {
    EXPECT_THROW(media_item(event_with(7, pr_curve_of(shape, std::vector<double>(12))),
                            MediaKind::kPrCurve, "auc"),
                 InvalidArgument);
  }
}

TEST(MediaIndex, MemoryDoesNotGrowWithTheFile) {
  MediaIndex index;
  for (int step = 0; step < 10'000; ++step) index.note(event_with(step, picture_of(kPicture)), {});
  ASSERT_THAT(index.places(), SizeIs(1));
  const auto& places = index.places().begin()->second;
  EXPECT_LE(places.size(), 100U);
  EXPECT_EQ(places.front().step, 0);
  EXPECT_EQ(places.back().step, 9'999);
  for (int tag = 0; tag < 10'000; ++tag) {
    index.note(event_with(1, {.tag = std::to_string(tag), .data = HistogramData{}}), {});
  }
  EXPECT_LE(index.places().size(), 500U);
}

TEST(MediaIndex, GivesUpWhatAResumedRunDoesAgain) {
  MediaIndex index;
  for (const int step : {1, 2, 3, 4, 2}) index.note(event_with(step, picture_of(kPicture)), {});
  std::vector<std::int64_t> steps;
  for (const MediaPlace& place : index.places().begin()->second) steps.push_back(place.step);
  EXPECT_THAT(steps, ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster::console
