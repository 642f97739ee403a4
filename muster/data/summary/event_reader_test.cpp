#include "muster/data/summary/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/records/record_writer.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

Event version_event() { return {.what = FileVersion{std::string(kEventFileVersion)}}; }

void write_events(const Path& path, const std::vector<Event>& events) {
  RecordWriter writer(path, {.durable = false});
  for (const auto& event : events) writer.append(encode_event(event));
  writer.close();
}

Event scalar(std::int64_t step) {
  return {.step = step, .what = Summary{{.tag = "a", .data = 1.0F}}};
}

std::vector<std::int64_t> steps_of(EventReader& reader) {
  std::vector<std::int64_t> steps;
  while (const auto event = reader.next()) {
    if (!std::holds_alternative<FileVersion>(event->what)) steps.push_back(event->step);
  }
  return steps;
}

std::string error_of(EventReader& reader) {
  try {
    while (reader.next()) {
    }
  } catch (const DataLoss& error) {
    return error.what();
  }
  return "no error";
}

TEST(EventReader, ReadsAFoldersFilesInTheOrderOfTheirTimes) {
  const TempDir folder;
  write_events(folder / "events.out.tfevents.10000000000.host", {version_event(), scalar(3)});
  write_events(folder / "events.out.tfevents.1700000001.a", {version_event(), scalar(2)});
  write_events(folder / "events.out.tfevents.1700000000.z", {version_event(), scalar(1)});
  testing::write_bytes(folder / "checkpoint", "no event file");
  std::filesystem::create_directory(folder / "events.out.tfevents.1.folder");
  EventReader reader(folder.path());
  EXPECT_THAT(steps_of(reader), ElementsAre(1, 2, 3));
  EXPECT_EQ(reader.path(), folder / "events.out.tfevents.10000000000.host");
}

TEST(EventReader, ALiveFileEndsAtItsLastWholeRecord) {
  const TempDir folder;
  const Path live = folder / "events.out.tfevents.1700000000.h";
  write_events(live, {version_event(), scalar(1), scalar(2)});
  const std::string whole = testing::read_bytes(live);
  write_events(folder / "events.out.tfevents.1700000001.h", {version_event(), scalar(9)});
  const std::size_t last = whole.size() - (16 + encode_event(scalar(2)).size());
  for (std::size_t size = last + 1; size < whole.size(); ++size) {
    testing::write_bytes(live, whole.substr(0, size));
    EventReader reader(folder.path());
    EXPECT_THAT(steps_of(reader), ElementsAre(1, 9)) << size;
    EXPECT_EQ(reader.torn_tails(), 1U);
  }
}

TEST(EventReader, AnEmptyFileHasNoEvents) {
  const TempDir folder;
  testing::write_bytes(folder / "events.out.tfevents.1700000000.h", "");
  EventReader reader(folder.path());
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_EQ(reader.torn_tails(), 0U);
}

TEST(EventReader, DamageIsToldWithFileAndOffset) {
  const TempDir folder;
  const Path path = folder / "events.out.tfevents.1700000000.h";
  write_events(path, {version_event(), scalar(1), scalar(2)});
  const std::size_t first = 16 + encode_event(version_event()).size();
  testing::flip_byte(path, first + 14);
  EventReader reader(path);
  EXPECT_THAT(error_of(reader),
              AllOf(HasSubstr(path.string()), HasSubstr("byte " + std::to_string(first))));
}

TEST(EventReader, RecordsThatAreNoEventsAreToldApart) {
  const TempDir folder;
  const Path other = folder / "train.tfrecords";
  RecordWriter writer(other, {.durable = false});
  writer.append("\x0a\x02\x0a");
  writer.close();
  EventReader reader(other);
  EXPECT_THAT(error_of(reader), HasSubstr(other.string() + " record 0 at byte 0"));

  const Path headless = folder / "headless";
  write_events(headless, {scalar(1)});
  EventReader second(headless);
  EXPECT_THAT(error_of(second), HasSubstr("no event file"));
}

TEST(EventReader, MissingFilesAndFoldersWithoutEventsAreNotFound) {
  const TempDir folder;
  EXPECT_THROW(EventReader(folder / "nothing"), NotFound);
  EXPECT_THROW(EventReader(folder.path()), NotFound);
}

}  // namespace
}  // namespace muster
