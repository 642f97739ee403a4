#include "muster/console/event_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/console/event_files_internal.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> polled(EventTail& tail) {
  std::vector<std::string> records;
  tail.poll([&](std::string_view record, std::uint64_t) { records.emplace_back(record); });
  return records;
}

class EventTailTest : public ::testing::Test {
 protected:
  testing::TempDir folder_;
  const Path file_ = folder_ / "events.out.tfevents.1.here";
  const std::string bytes_ = [this] {
    write_scalars(file_, "loss", {{1, 1.0F}, {2, 2.0F}, {3, 3.0F}});
    return testing::read_bytes(file_);
  }();
};

TEST_F(EventTailTest, HandsOnWhatCameSinceTheLastLook) {
  // Cut anywhere, what is whole comes first and the rest when it is there: nothing twice, nothing
  // lost.
  for (std::size_t cut = 0; cut <= bytes_.size(); ++cut) {
    testing::write_bytes(file_, bytes_.substr(0, cut));
    EventTail tail(file_);
    auto records = polled(tail);
    testing::write_bytes(file_, bytes_);
    for (auto& record : polled(tail)) records.push_back(std::move(record));
    ASSERT_THAT(records, SizeIs(4)) << "cut at " << cut;
    ASSERT_THAT(polled(tail), IsEmpty());
    ASSERT_EQ(tail.offset(), bytes_.size());
    ASSERT_THAT(tail.problem(), IsEmpty());
  }
}

TEST_F(EventTailTest, AFlippedByteAnywhereIsAProblemAndNothingWorse) {
  for (std::size_t offset = 0; offset < bytes_.size(); ++offset) {
    testing::write_bytes(file_, bytes_);
    testing::flip_byte(file_, offset);
    EventTail tail(file_);
    ASSERT_THAT(polled(tail).size(), ::testing::Lt(4U)) << "byte " << offset;
    ASSERT_THAT(tail.problem(), HasSubstr("at byte")) << "byte " << offset;
  }
}

TEST_F(EventTailTest, AFileThatIsCutShortIsAProblem) {
  EventTail tail(file_);
  EXPECT_THAT(polled(tail), SizeIs(4));
  std::filesystem::resize_file(file_, 10);
  EXPECT_THAT(polled(tail), IsEmpty());
  EXPECT_THAT(tail.problem(), HasSubstr("cut short"));
}

TEST_F(EventTailTest, FollowsNoLinksAndWaitsForNoPipe) {
  const testing::TempDir other;
  std::filesystem::create_symlink(file_, other / "link");
  EventTail link(other / "link");
  EXPECT_THAT(polled(link), IsEmpty());
  EXPECT_THAT(link.problem(), HasSubstr("opening"));
  ASSERT_EQ(::mkfifo((other / "pipe").c_str(), 0600), 0);
  EventTail pipe(other / "pipe");
  EXPECT_THAT(polled(pipe), IsEmpty());
  EXPECT_THAT(pipe.problem(), HasSubstr("no file"));
}

TEST_F(EventTailTest, ReadsAStretchAgain) {
  EventTail tail(file_);
  std::vector<std::uint64_t> offsets;
  tail.poll([&](std::string_view, std::uint64_t offset) { offsets.push_back(offset); });
  ASSERT_THAT(offsets, SizeIs(4));
  const auto all = [&] {
    EventTail fresh(file_);
    return polled(fresh);
  }();
  std::vector<std::string> again;
  tail.read_again(offsets[1], offsets[3],
                  [&](std::string_view record, std::uint64_t) { again.emplace_back(record); });
  EXPECT_THAT(again, ::testing::ElementsAre(all[1], all[2]));
  EXPECT_EQ(tail.offset(), bytes_.size());
}

TEST_F(EventTailTest, ARecordThatIsNotWantedIsAProblemAndOthersFollow) {
  EventTail tail(file_);
  int seen = 0;
  tail.poll([&](std::string_view, std::uint64_t) {
    if (++seen == 2) throw DataLoss("this is no event");
  });
  EXPECT_EQ(seen, 4);
  EXPECT_THAT(tail.problem(), HasSubstr("this is no event"));
}

TEST_F(EventTailTest, ARecordLargerThanAPieceComesWhole) {
  const std::string large(9 << 20, 'x');
  RecordWriter writer(file_, {.durable = false});
  writer.append(large);
  writer.append("behind");
  writer.close();
  EventTail tail(file_);
  const auto records = polled(tail);
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0], large);
  EXPECT_EQ(records[1], "behind");
}

}  // namespace
}  // namespace muster::console
