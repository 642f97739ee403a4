#include "muster/base/file_system.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using testing::read_bytes;
using testing::TempDir;
using testing::write_bytes;

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LocalFileSystem, ReadsWhatItWrote) {
  const TempDir folder;
  auto& files = file_system_for(folder / "a");
  {
    const auto file = files.create(folder / "a");
    file->write("hello ");
    file->write("world");
    file->sync();
    file->close();
  }
  files.append(folder / "a")->write("!");
  const auto file = files.open(folder / "a");
  EXPECT_EQ(file->size(), 12U);
  std::string text(64, '\0');
  EXPECT_EQ(file->read(text), 12U);
  EXPECT_EQ(text.substr(0, 12), "hello world!");
  file->seek(6);
  EXPECT_EQ(file->read({text.data(), 5}), 5U);
  EXPECT_EQ(text.substr(0, 5), "world");
}

TEST(LocalFileSystem, MapsFilesAlsoEmptyOnes) {
  const TempDir folder;
  write_bytes(folder / "full", "bytes");
  write_bytes(folder / "empty", "");
  auto& files = file_system_for("x");
  EXPECT_EQ(files.map(folder / "full")->bytes(), "bytes");
  EXPECT_EQ(files.map(folder / "empty", Access::kRandom)->bytes(), "");
}

TEST(LocalFileSystem, MappingAFifoDoesNotWait) {
  const TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_THROW(file_system_for("x").map(folder / "fifo"), InvalidArgument);
}

TEST(LocalFileSystem, TakesTheFileScheme) {
  const TempDir folder;
  write_bytes(folder / "a", "x");
  EXPECT_EQ(read_file("file://" + (folder / "a").string()), "x");
}

TEST(LocalFileSystem, NamesThePathInEveryError) {
  const TempDir folder;
  const auto missing = folder / "missing";
  auto& files = file_system_for(missing);
  EXPECT_THROW(files.open(missing), NotFound);
  EXPECT_THROW(files.map(missing), NotFound);
  EXPECT_THROW(files.list(missing), NotFound);
  EXPECT_THROW(files.create(missing / "below"), NotFound);
  EXPECT_THROW(files.open(folder.path()), InvalidArgument);
  EXPECT_NE(error_of([&] { files.open(missing); }).find(missing.string()), std::string::npos);
  files.remove(missing);
}

TEST(LocalFileSystem, TellsSizeTimeAndKind) {
  const TempDir folder;
  write_bytes(folder / "a", "12345");
  auto& files = file_system_for("x");
  const auto status = files.status(folder / "a");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->size_bytes, 5U);
  EXPECT_GT(status->modified_ns, std::int64_t{1'600'000'000} * 1'000'000'000);
  EXPECT_FALSE(status->is_directory);
  EXPECT_TRUE(files.status(folder.path())->is_directory);
  EXPECT_FALSE(files.status(folder / "b"));
  EXPECT_FALSE(files.status(folder / "a" / "below a file"));
}

TEST(LocalFileSystem, ListsSortedAndRemovesFolders) {
  const TempDir folder;
  auto& files = file_system_for("x");
  files.create_directories(folder / "d" / "e");
  write_bytes(folder / "d" / "z", "");
  write_bytes(folder / "d" / "a", "");
  EXPECT_EQ(files.list(folder / "d"), (std::vector<std::string>{"a", "e", "z"}));
  files.remove_all(folder / "d");
  EXPECT_FALSE(file_exists(folder / "d"));
}

TEST(LocalFileSystem, FullDiskIsResourceExhausted) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const auto file = file_system_for("/dev/full").append("/dev/full");
  EXPECT_THROW(file->write("x"), ResourceExhausted);
}

TEST(FileSystem, UnknownSchemeNamesTheKnownOnes) {
  EXPECT_THROW(file_system_for("gs://bucket/x"), InvalidArgument);
  const std::string text = error_of([] { read_file("gs://bucket/x"); });
  EXPECT_NE(text.find("gs://"), std::string::npos) << text;
  EXPECT_NE(text.find("file://"), std::string::npos) << text;
}

TEST(FileSystem, ARegisteredSchemeIsServed) {
  register_file_system("mem",
                       std::shared_ptr<FileSystem>(&file_system_for("x"), [](FileSystem*) {}));
  EXPECT_EQ(&file_system_for("mem://a"), &file_system_for("x"));
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const TempDir folder;
  write_bytes(folder / "a", "12345");
  EXPECT_EQ(read_file(folder / "a", 5), "12345");
  EXPECT_THROW(read_file(folder / "a", 4), ResourceExhausted);
}

TEST(ReadFile, ReadsFilesThatHideTheirSize) {
  EXPECT_FALSE(read_file("/proc/self/status").empty());
}

TEST(AtomicFile, AppearsWholeOrNotAtAll) {
  const TempDir folder;
  write_bytes(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("half of the ne");
    EXPECT_EQ(read_bytes(folder / "a"), "old");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_bytes(folder / "a"), "new");
  EXPECT_EQ(file_system_for("x").list(folder.path()), (std::vector<std::string>{"a"}));
}

TEST(AtomicFile, RefusesAFifoAndLeavesIt) {
  const TempDir folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", folder / "link");
  for (const Path& path :
       {folder / "fifo", folder / "link", Path("file://" + (folder / "fifo").string())}) {
    EXPECT_NE(
        error_of([&] { write_file_atomically(path, "x"); }).find(path.string() + " is a device"),
        std::string::npos)
        << path;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "fifo"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(file_system_for("x").list(folder.path()), (std::vector<std::string>{"fifo", "link"}));
}

TEST(AtomicFile, ReplacesALinkToAFile) {
  const TempDir folder;
  write_bytes(folder / "a", "old");
  std::filesystem::create_symlink("a", folder / "link");
  write_file_atomically(folder / "link", "new");
  EXPECT_EQ(read_bytes(folder / "link"), "new");
  EXPECT_EQ(read_bytes(folder / "a"), "old");
}

TEST(PublishDirectory, MovesAFolderAndRefusesATakenName) {
  const TempDir folder;
  auto& files = file_system_for("x");
  files.create_directories(folder / "tmp");
  write_bytes(folder / "tmp" / "a", "x");
  publish_directory(folder / "tmp", folder / "final");
  EXPECT_EQ(read_bytes(folder / "final" / "a"), "x");
  files.create_directories(folder / "tmp");
  EXPECT_THROW(publish_directory(folder / "tmp", folder / "final"), AlreadyExists);
}

}  // namespace
}  // namespace muster
