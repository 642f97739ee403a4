#include "muster/base/file_inside.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::write_bytes;

class FileInside : public ::testing::Test {
 protected:
  FileInside() : folder_(dir_ / "model") {
    std::filesystem::create_directories(folder_ / "assets");
    write_bytes(folder_ / "assets" / "words.txt", "words");
    write_bytes(dir_ / "secret.txt", "secret");
  }
  std::string said(const Path& name) {
    return message_of([&] { read_file_inside(folder_, name); });
  }

  const TempDir dir_;
  const Path folder_;
};

TEST_F(FileInside, ReadsRegularFilesAlsoByLinksThatStayInside) {
  EXPECT_EQ(read_file_inside(folder_, "assets/words.txt"), "words");
  EXPECT_EQ(read_file_inside("file://" + folder_.string(), "assets/words.txt"), "words");
  std::filesystem::create_symlink("assets/words.txt", folder_ / "inner");
  EXPECT_EQ(read_file_inside(folder_, "inner"), "words");
  std::filesystem::create_directory_symlink(folder_, dir_ / "latest");
  EXPECT_EQ(read_file_inside(dir_ / "latest", "inner"), "words");
}

TEST_F(FileInside, RefusesLinksThatLeadOut) {
  std::filesystem::create_symlink("../secret.txt", folder_ / "file");
  std::filesystem::create_directory_symlink("..", folder_ / "up");
  std::filesystem::create_directories(dir_ / "model2");
  write_bytes(dir_ / "model2" / "x", "x");
  std::filesystem::create_symlink("../model2/x", folder_ / "sibling");
  EXPECT_THAT(said("file"), AllOf(HasSubstr((folder_ / "file").string()), HasSubstr("outside of")));
  EXPECT_THAT(said("up/secret.txt"), HasSubstr("outside of"));
  EXPECT_THAT(said("../secret.txt"), HasSubstr("outside of"));
  EXPECT_THAT(said("sibling"), HasSubstr("outside of"));
  EXPECT_THROW(check_file_inside(folder_, "sibling"), InvalidArgument);
  EXPECT_NO_THROW(check_file_inside(folder_, "assets/words.txt"));
}

// A path that is absolute would take the place of the store's, and be read from this host.
TEST_F(FileInside, RefusesNamesThatLeadOutOfAFolderInAStore) {
  for (const Path& name : {dir_ / "secret.txt", Path("../secret.txt")}) {
    EXPECT_THROW(read_file_inside("s3://bucket/model", name), InvalidArgument) << name;
    EXPECT_THROW(check_file_inside("s3://bucket/model", name), InvalidArgument) << name;
  }
}

TEST_F(FileInside, RefusesWhatIsNoRegularFileWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder_ / "zero");
  EXPECT_THAT(said("fifo"), AllOf(HasSubstr("not a regular file"), HasSubstr("FIFO")));
  EXPECT_THAT(said("zero"), HasSubstr("device"));
  EXPECT_THAT(said("assets"), HasSubstr("folder"));
}

TEST_F(FileInside, KeepsToTheLimitAndNamesAMissingFile) {
  EXPECT_THROW(read_file_inside(folder_, "assets/words.txt", 4), ResourceExhausted);
  EXPECT_EQ(read_file_inside(folder_, "assets/words.txt", 5), "words");
  EXPECT_THROW(read_file_inside(folder_, "nothing"), NotFound);
}

}  // namespace
}  // namespace muster
