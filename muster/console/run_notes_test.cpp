#include "muster/console/run_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster::console {
namespace {

std::string refusal_of(const std::string& json) {
  try {
    run_notes_from_json(json);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunNotes, AreKeptBesideTheRunUntilTheyAreEmpty) {
  const testing::TempDir folder;
  EXPECT_EQ(read_run_notes(folder.path()), RunNotes{});
  const RunNotes notes{
      .name = "baseline", .tags = {"paper", "<b>x</b>"}, .text = "two\nlines", .is_pinned = true};
  write_run_notes(folder.path(), notes);
  EXPECT_EQ(read_run_notes(folder.path()), notes);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  write_run_notes(folder.path(), {});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunNotes, NameTheFieldThatIsWrong) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal_of("[]"), HasSubstr("JSON object"));
  EXPECT_THAT(refusal_of(std::string(100'000, '[')), HasSubstr("JSON object"));
  EXPECT_THAT(refusal_of(R"({"name": 1})"), HasSubstr("name is no text"));
  EXPECT_THAT(refusal_of(R"({"name": ")" + std::string(201, 'x') + "\"}"), HasSubstr("name has"));
  EXPECT_THAT(refusal_of(R"({"tags": "a"})"), HasSubstr("tags is no list"));
  EXPECT_THAT(refusal_of(R"({"tags": [""]})"), HasSubstr("a tag is empty"));
  EXPECT_THAT(refusal_of(R"({"isPinned": 1})"), HasSubstr("isPinned"));
  EXPECT_THAT(refusal_of(R"({"colour": "red"})"), HasSubstr("no field colour"));
}

TEST(RunNotes, OfAnotherFolderAreNotRead) {
  const testing::TempDir folder;
  const testing::TempDir other;
  write_run_notes(other.path(), {.name = "secret"});
  std::filesystem::create_symlink(other / kRunNotesFile, folder / kRunNotesFile);
  EXPECT_THROW(read_run_notes(folder.path()), InvalidArgument);
  // Writing replaces the link, and leaves the other file alone.
  write_run_notes(folder.path(), {.name = "own"});
  EXPECT_EQ(read_run_notes(other.path()).name, "secret");
  EXPECT_EQ(read_run_notes(folder.path()).name, "own");
}

}  // namespace
}  // namespace muster::console
