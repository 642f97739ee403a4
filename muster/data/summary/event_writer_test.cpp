#include "muster/data/summary/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/summary/event_reader.h"
#include "muster/testing/small_disk.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

std::vector<Event> read_all_events(const Path& path) {
  std::vector<Event> events;
  EventReader reader(path);
  while (auto event = reader.next()) events.push_back(std::move(*event));
  return events;
}

SummaryValue only_value(const Event& event) { return std::get<Summary>(event.what).at(0); }

/// Keeps the log's lines of its lifetime.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, std::string_view line) { lines.emplace_back(line); });
  }
  ~LogLines() { log::set_sink({}); }

  int count(const std::string& text) const {
    int found = 0;
    for (const auto& line : lines) found += line.find(text) == std::string::npos ? 0 : 1;
    return found;
  }

  std::vector<std::string> lines;
};

TEST(EventWriter, NamesItsFileAsTensorBoardExpects) {
  const TempDir folder;
  EventWriter writer(folder / "runs/a", {.filename_suffix = ".eval"});
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof(host) - 1), 0);
  EXPECT_THAT(writer.path().filename().string(),
              ContainsRegex("^events.out.tfevents.[0-9]{10}." + std::string(host) + ".eval$"));
  EXPECT_EQ(writer.path().parent_path(), folder / "runs/a");
}

TEST(EventWriter, TheFirstEventIsTheVersionAndIsThereAtOnce) {
  const TempDir folder;
  const EventWriter writer(folder.path());
  const auto events = read_all_events(writer.path());
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<FileVersion>(events[0].what).version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.6e9);
}

TEST(EventWriter, TwoWritersOfOneSecondHaveTwoFiles) {
  const TempDir folder;
  EventWriter first(folder.path());
  EventWriter second(folder.path());
  EXPECT_NE(first.path(), second.path());
  first.add_scalar("a", 1, 1);
  second.add_scalar("b", 2, 2);
  first.close();
  second.close();
  EXPECT_EQ(event_files(folder.path()).size(), 2U);
  EXPECT_EQ(read_all_events(folder.path()).size(), 4U);
}

TEST(EventWriter, WritesEveryKind) {
  const TempDir folder;
  EventWriter writer(folder.path());
  writer.add_scalar("loss", 0.5, 10);
  writer.add_histogram("weights", std::vector<float>{1, 2}, 11);
  writer.add_image("input", std::vector<float>{0, 1}, {1, 2, 1}, 12);
  writer.add_image("bytes", std::vector<std::uint8_t>{0, 255}, {1, 2, 1}, 13);
  writer.add_text("note", "hello", 14);
  writer.add_tensor("confusion", {NumberTensor::Type::kInt64, {1, 2}, {3, 4}}, 15);
  writer.add_session({SessionMark::Status::kStart, "", ""}, 16);
  writer.add_graph("graph bytes", 17);
  writer.add_hparams(std::vector<HParam>{{"rate", 0.1}},
                     std::vector<HParamMetric>{{.tag = "loss"}});
  writer.add_hparams_end(true);
  writer.close();

  const auto events = read_all_events(writer.path());
  ASSERT_EQ(events.size(), 12U);
  for (std::size_t i = 1; i <= 8; ++i) EXPECT_EQ(events[i].step, static_cast<int>(9 + i));
  EXPECT_EQ(std::get<float>(only_value(events[1]).data), 0.5F);
  EXPECT_EQ(std::get<HistogramData>(only_value(events[2]).data).sum, 3);
  // The same picture from floats and from bytes.
  EXPECT_EQ(only_value(events[3]).data, only_value(events[4]).data);
  EXPECT_EQ(only_value(events[5]), text_summary("note", "hello"));
  EXPECT_EQ(std::get<NumberTensor>(only_value(events[6]).data).values, (std::vector<double>{3, 4}));
  EXPECT_EQ(std::get<SessionMark>(events[7].what).status, SessionMark::Status::kStart);
  EXPECT_EQ(std::get<GraphBytes>(events[8].what).bytes, "graph bytes");
  EXPECT_EQ(only_value(events[9]).tag, "_hparams_/experiment");
  EXPECT_EQ(only_value(events[10]).tag, "_hparams_/session_start_info");
  EXPECT_EQ(only_value(events[11]).tag, "_hparams_/session_end_info");
}

TEST(EventWriter, FlushShowsWhatWasAddedBefore) {
  const TempDir folder;
  EventWriter writer(folder.path());
  writer.add_scalar("a", 1, 1);
  writer.flush();
  EXPECT_EQ(read_all_events(writer.path()).size(), 2U);
  writer.add_scalar("a", 2, 2);
  writer.flush();
  EXPECT_EQ(read_all_events(writer.path()).size(), 3U);
}

TEST(EventWriter, FlushesByItselfAfterItsPeriod) {
  const TempDir folder;
  EventWriter writer(folder.path(), {.flush_period = std::chrono::milliseconds(1)});
  writer.add_scalar("a", 1, 1);
  while (read_all_events(writer.path()).size() < 2) std::this_thread::yield();
}

TEST(EventWriter, DestructionLosesNothing) {
  const TempDir folder;
  {
    EventWriter writer(folder.path());
    for (int i = 0; i < 5000; ++i) writer.add_scalar("a", i, i);
  }
  EXPECT_EQ(read_all_events(folder.path()).size(), 5001U);
}

TEST(EventWriter, ThreadsShareItAndKeepTheirOrder) {
  constexpr int kThreads = 8;
  constexpr int kEvents = 400;
  const TempDir folder;
  {
    EventWriter writer(folder.path(), {.max_queue = 4});
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&writer, t] {
        for (int i = 0; i < kEvents; ++i) {
          writer.add_scalar("thread" + std::to_string(t), i, i);
          if (i % 100 == 0) writer.flush();
        }
      });
    }
  }
  std::map<std::string, std::int64_t> next;
  for (const Event& event : read_all_events(folder.path())) {
    if (!std::holds_alternative<Summary>(event.what)) continue;
    EXPECT_EQ(event.step, next[only_value(event).tag]++);
  }
  ASSERT_EQ(next.size(), static_cast<std::size_t>(kThreads));
  for (const auto& [tag, count] : next) EXPECT_EQ(count, kEvents) << tag;
}

TEST(EventWriter, EventsAfterCloseAreDroppedWithOneWarning) {
  const TempDir folder;
  const LogLines log;
  EventWriter writer(folder.path());
  writer.close();
  writer.add_scalar("a", 1, 1);
  writer.add_scalar("a", 1, 2);
  writer.flush();
  EXPECT_EQ(writer.dropped(), 2U);
  EXPECT_EQ(log.count("after its file was closed"), 1);
}

TEST(EventWriter, HistogramsSkipWhatIsNoNumberAndSaySo) {
  const TempDir folder;
  const LogLines log;
  EventWriter writer(folder.path());
  writer.add_histogram("w", std::vector<double>{1, std::nan(""), 2}, 3);
  writer.close();
  EXPECT_EQ(std::get<HistogramData>(only_value(read_all_events(folder.path()).at(1)).data).num, 2);
  EXPECT_EQ(log.count("tag=w step=3 skipped=1 of=3"), 1);
}

TEST(EventWriter, AFullDiskIsToldOnceAndTrainingGoesOn) {
  const TempDir folder;
  const LogLines log;
  EventWriter writer(folder.path());
  {
    const testing::SmallDisk disk(1000);
    for (int i = 0; i < 100; ++i) {
      writer.add_scalar("a", i, i);
      writer.flush();
    }
  }
  writer.add_scalar("a", 1, 1000);
  writer.close();
  EXPECT_EQ(log.count("summaries are no longer written, training goes on"), 1);
  EXPECT_EQ(log.count(writer.path().string()), 1);
  // Events written before stay readable, and every other event is accounted for.
  const auto events = read_all_events(writer.path());
  EXPECT_GT(events.size(), 10U);
  EXPECT_EQ(events.size() - 1 + writer.dropped(), 101U);
}

TEST(EventWriter, BadOptionsAndFoldersAreRefused) {
  const TempDir folder;
  EXPECT_THROW(EventWriter(folder.path(), {.flush_period = std::chrono::milliseconds(0)}),
               InvalidArgument);
  EXPECT_THROW(EventWriter(folder.path(), {.max_queue = 0}), InvalidArgument);
  EXPECT_THROW(EventWriter(folder.path(), {.filename_suffix = "/../x"}), InvalidArgument);
  testing::write_bytes(folder / "file", "x");
  EXPECT_THROW(EventWriter(folder / "file"), Error);
}

}  // namespace
}  // namespace muster
