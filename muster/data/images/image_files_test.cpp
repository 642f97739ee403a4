#include "muster/data/images/image_files.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/data/dataset/dataset.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::TempDir;
using testing::write_bytes;

void touch(const Path& path) {
  std::filesystem::create_directories(path.parent_path());
  write_bytes(path, "x");
}

std::vector<std::string> shown(const ImageFiles& images, const Path& folder) {
  std::vector<std::string> all;
  all.reserve(images.files.size());
  for (const ImageFile& file : images.files) {
    all.push_back(fmt::format("{} {}", file.path.lexically_relative(folder).string(), file.label));
  }
  return all;
}

TEST(ImageFolder, NumbersClassesByNameAndSortsFiles) {
  const TempDir dir;
  touch(dir / "tulip/b.JPG");
  touch(dir / "tulip/a/z.png");
  touch(dir / "daisy/2.webp");
  touch(dir / "daisy/1.jpeg");
  touch(dir / "daisy/notes.txt");
  touch(dir / "README");
  const ImageFiles images = image_folder(dir.path());
  EXPECT_THAT(images.classes, ElementsAre("daisy", "tulip"));
  EXPECT_THAT(shown(images, dir.path()),
              ElementsAre("daisy/1.jpeg 0", "daisy/2.webp 0", "tulip/a/z.png 1", "tulip/b.JPG 1"));
}

TEST(ImageFolder, TakesTheClassesOfTheTrainingData) {
  const TempDir dir;
  touch(dir / "tulip/b.jpg");
  EXPECT_THAT(shown(image_folder(dir.path(), {"daisy", "tulip"}), dir.path()),
              ElementsAre("tulip/b.jpg 1"));
  EXPECT_THAT(message_of([&] { image_folder(dir.path(), {"daisy"}); }),
              HasSubstr("the class 'tulip' is not among the 1 known ones"));
}

TEST(ImageFolder, RefusesFoldersWithoutClassesOrPictures) {
  const TempDir dir;
  EXPECT_THROW(image_folder(dir.path()), NotFound);
  touch(dir / "lost.jpg");
  EXPECT_THAT(message_of([&] { image_folder(dir.path()); }), HasSubstr("no folders of classes"));
  touch(dir / "empty/notes.txt");
  EXPECT_THAT(message_of([&] { image_folder(dir.path()); }),
              HasSubstr("empty has no .jpg, .jpeg, .png or .webp files"));
}

TEST(ImageList, ReadsFilesAndClassesByTheirColumns) {
  const TempDir dir;
  write_bytes(dir / "list.csv", "id,file,label\n1,b.jpg,tulip\n2,\"a, 1.jpg\",daisy\n");
  const ImageFiles images = image_list(dir / "list.csv");
  EXPECT_THAT(images.classes, ElementsAre("daisy", "tulip"));
  EXPECT_THAT(shown(images, dir.path()), ElementsAre("b.jpg 1", "a, 1.jpg 0"));
  const ImageFiles others = image_list(
      dir / "list.csv",
      {.file_column = "label", .label_column = "id", .folder = "x", .classes = {"2", "1"}});
  EXPECT_THAT(shown(others, "x"), ElementsAre("tulip 1", "daisy 0"));
}

TEST(ImageList, TakesNumbersAsTheyAre) {
  const TempDir dir;
  write_bytes(dir / "list.csv", "file,label\na,10\nb,2\n");
  const ImageFiles images = image_list(dir / "list.csv");
  EXPECT_EQ(images.classes.size(), 11U);
  EXPECT_THAT(shown(images, dir.path()), ElementsAre("a 10", "b 2"));
}

TEST(ImageList, NamesFileLineAndFieldOfWhatIsWrong) {
  const TempDir dir;
  const Path list = dir / "list.csv";
  const auto message = [&](const std::string& text, const ImageListOptions& options = {}) {
    write_bytes(list, text);
    return message_of([&] { image_list(list, options); });
  };
  EXPECT_THAT(message("path,label\na,b\n"),
              HasSubstr("list.csv line 1: there is no column 'file'"));
  EXPECT_THAT(message("file,label\na,b\nc\n"),
              HasSubstr("list.csv line 3: 1 fields, but the header has 2"));
  EXPECT_THAT(message("file,label\na,\n"), HasSubstr("list.csv line 2: field 'label' is empty"));
  EXPECT_THAT(message("file,label\na,x\n", {.classes = {"y"}}),
              HasSubstr("list.csv line 2: the class 'x' is not among"));
  EXPECT_THAT(message("file,label\n"), HasSubstr("no rows"));
  EXPECT_THAT(message(""), HasSubstr("empty"));
}

TEST(ImageFilesDataset, HasRandomAccess) {
  std::vector<ImageFile> files;
  files.reserve(20);
  for (std::int64_t i = 0; i < 20; ++i) files.push_back({std::to_string(i), i});
  const auto shuffled = image_files({.files = files}).global_shuffle(3);
  std::vector<std::int64_t> labels;
  for (const auto pass = shuffled.iterate(); const auto file = pass->next();) {
    EXPECT_EQ(file->path, std::to_string(file->label));
    labels.push_back(file->label);
  }
  EXPECT_FALSE(std::is_sorted(labels.begin(), labels.end()));
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(labels.size(), 20U);
  EXPECT_EQ(labels.back(), 19);
}

}  // namespace
}  // namespace muster
