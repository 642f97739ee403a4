// Pictures of a folder through the parallel map: the same bits at any number of threads, and after
// a resume at any picture.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/images/random_crop.h"
#include "muster/data/images/test_images_internal.h"
#include "muster/data/records/example_builder.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ImagePipeline : public ::testing::Test {
 protected:
  ImagePipeline() {
    for (std::int64_t i = 0; i < kFiles; ++i) {
      const Image image = testing::make_image(30 + i, 44 - i, 3, static_cast<std::uint64_t>(i));
      const Path path = folder_ / fmt::format("{}.picture", i);
      const std::string bytes = i % 3 == 0   ? testing::write_png(image)
                                : i % 3 == 1 ? testing::write_webp(image, false)
                                             : testing::write_jpeg(image);
      testing::write_bytes(path, bytes);
      files_.push_back({path, i});
    }
  }

  Dataset<LabelledImage> pictures(std::size_t threads) const {
    const RandomResizedCrop crop{.height = 16, .width = 16};
    return image_files({.files = files_})
        .global_shuffle(5)
        .repeat(2)
        .map([crop](const ImageFile& file,
                    Random& random) { return load_image(file, crop, random); },
             {.parallelism = threads, .seed = 9});
  }

  static constexpr std::int64_t kFiles = 13;
  testing::TempDir folder_;
  std::vector<ImageFile> files_;
};

std::vector<Image> images_of(Iterator<LabelledImage>& pass) {
  std::vector<Image> images;
  while (auto next = pass.next()) images.push_back(std::move(next->image));
  return images;
}

TEST_F(ImagePipeline, GivesTheSameBitsAtAnyNumberOfThreads) {
  const auto expected = images_of(*pictures(1).iterate());
  ASSERT_EQ(expected.size(), 2 * static_cast<std::size_t>(kFiles));
  for (const std::size_t threads : {2, 3, 8}) {
    EXPECT_EQ(images_of(*pictures(threads).iterate()), expected) << threads;
  }
  // Another epoch augments in another way.
  int again = 0;
  for (std::size_t i = kFiles; i < expected.size(); ++i) {
    again += std::count(expected.begin(), expected.begin() + kFiles, expected[i]) > 0 ? 1 : 0;
  }
  EXPECT_EQ(again, 0);
}

TEST_F(ImagePipeline, ContinuesAtAnyPicture) {
  const auto expected = images_of(*pictures(1).iterate());
  for (std::size_t taken = 0; taken <= expected.size(); taken += 5) {
    const auto first = pictures(3).iterate();
    for (std::size_t i = 0; i < taken; ++i) first->next();
    const auto resumed = pictures(2).iterate(first->save());
    const auto rest = images_of(*resumed);
    EXPECT_EQ(rest, std::vector<Image>(expected.begin() + static_cast<std::ptrdiff_t>(taken),
                                       expected.end()))
        << taken;
  }
}

TEST_F(ImagePipeline, NamesADamagedFileAndGoesOnWithTheNext) {
  const Path torn = files_[2].path;
  testing::write_bytes(torn, testing::read_bytes(torn).substr(0, 400));
  const auto pass = image_files({.files = files_})
                        .map([](const ImageFile& file) {
                          return load_image(file, CenterCrop{.height = 8, .width = 8, .resize = 8});
                        })
                        .iterate();
  pass->next();
  pass->next();
  EXPECT_THAT(
      testing::message_of([&] { pass->next(); }),
      AllOf(HasSubstr("2.picture: the JPEG is damaged near offset"), HasSubstr("of 400 bytes")));
  EXPECT_EQ(pass->next()->label, 3);
}

Record record_of(const std::string& bytes) { return {.bytes = bytes, .owner = nullptr}; }

TEST_F(ImagePipeline, GivesOfRecordsWhatItGivesOfFiles) {
  std::vector<std::string> examples;
  examples.reserve(files_.size());
  for (const ImageFile& file : files_) {
    std::string example;
    ExampleBuilder()
        .add_bytes("image", testing::read_bytes(file.path))
        .add_int("label", file.label)
        .add_bytes("file", file.path.string())
        .serialize_to(example);
    examples.push_back(std::move(example));
  }
  const RandomResizedCrop crop{.height = 16, .width = 16};
  for (std::size_t i = 0; i < files_.size(); ++i) {
    Random random(i);
    Random same(i);
    const LabelledImage one = load_image(record_of(examples[i]), crop, random);
    const LabelledImage other = load_image(files_[i], crop, same);
    EXPECT_EQ(one.image, other.image);
    EXPECT_EQ(one.label, other.label);
  }
  const CenterCrop center{.height = 8, .width = 8, .resize = 8};
  EXPECT_EQ(load_image(record_of(examples[4]), center).image, load_image(files_[4], center).image);
  std::string other;
  ExampleBuilder().add_int("label", 3).serialize_to(other);
  EXPECT_THROW(load_image(record_of(other), center), DataLoss);
  std::string torn;
  ExampleBuilder()
      .add_bytes("image", testing::read_bytes(files_[2].path).substr(0, 300))
      .add_int("label", 0)
      .add_bytes("file", "torn.jpg")
      .serialize_to(torn);
  EXPECT_THAT(testing::message_of([&] { load_image(record_of(torn), center); }),
              HasSubstr("torn.jpg: the JPEG is damaged near offset"));
}

}  // namespace
}  // namespace muster
