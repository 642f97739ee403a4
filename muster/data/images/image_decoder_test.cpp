#include "muster/data/images/image_decoder.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/images/test_images_internal.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::JpegForm;
using testing::make_image;
using testing::message_of;

Image decoded(const std::string& bytes, const DecodeOptions& options = {}) {
  return ImageDecoder(bytes, "a picture", options).decode();
}

Image part_of(const Image& image, const ImageBox& box) {
  return resize(image, box, static_cast<std::int64_t>(box.height),
                static_cast<std::int64_t>(box.width));
}

double mean_distance(const Image& one, const Image& other) {
  double sum = 0;
  for (std::size_t i = 0; i < one.pixels.size(); ++i) {
    sum += std::abs(int{one.pixels[i]} - int{other.pixels[i]});
  }
  return sum / static_cast<double>(one.pixels.size());
}

ImageBox some_box(const Image& image, Random& random) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<double>(random.below(static_cast<std::uint64_t>(bound)));
  };
  ImageBox box{.top = below(image.height), .left = below(image.width)};
  box.height = 1 + below(image.height - static_cast<std::int64_t>(box.top));
  box.width = 1 + below(image.width - static_cast<std::int64_t>(box.left));
  return box;
}

// A part has the pixels that it has in the whole picture.
void expect_parts(const std::string& bytes, const std::string& what) {
  for (const std::int64_t channels : {1, 3}) {
    const Image whole = decoded(bytes, {.channels = channels});
    Random random(7);
    for (int i = 0; i < 40; ++i) {
      const ImageBox box = some_box(whole, random);
      ImageDecoder decoder(bytes, "a picture", {.channels = channels});
      const Image part = decoder.decode_resized(box, static_cast<std::int64_t>(box.height),
                                                static_cast<std::int64_t>(box.width));
      ASSERT_EQ(part, part_of(whole, box)) << what << ": " << box.height << " x " << box.width
                                           << " at " << box.top << ", " << box.left;
    }
  }
}

TEST(ImageDecoder, ReadsTheHeaderAndThePixelsOfEachFormat) {
  const Image image = make_image(45, 70);
  const std::vector<std::pair<ImageFormat, std::string>> files = {
      {ImageFormat::kJpeg, testing::write_jpeg(image, {.quality = 95})},
      {ImageFormat::kPng, testing::write_png(image)},
      {ImageFormat::kWebp, testing::write_webp(image, true)},
      {ImageFormat::kWebp, testing::write_webp(image, false)}};
  for (const auto& [format, bytes] : files) {
    ImageDecoder decoder(bytes, "a picture");
    EXPECT_EQ(decoder.header().format, format);
    EXPECT_EQ(decoder.header().height, 45);
    EXPECT_EQ(decoder.header().width, 70);
    const Image first = decoder.decode();
    EXPECT_LT(mean_distance(first, image), 12) << name_of(format);
    EXPECT_EQ(decoder.decode(), first) << "a second time";
  }
  EXPECT_EQ(decoded(files[1].second), image);
  EXPECT_EQ(decoded(files[2].second), image);
}

TEST(ImageDecoder, GivesPartsAsTheyAreInTheWholePicture) {
  const Image image = make_image(75, 101);
  const std::vector<JpegForm> forms = {{},
                                       {.horizontal = 1, .vertical = 1},
                                       {.horizontal = 2, .vertical = 1},
                                       {.horizontal = 1, .vertical = 2},
                                       {.horizontal = 4, .vertical = 1},
                                       {.progressive = true},
                                       {.restart_rows = 1}};
  for (const JpegForm& form : forms) {
    expect_parts(testing::write_jpeg(image, form),
                 fmt::format("JPEG {} x {}, progressive {}", form.horizontal, form.vertical,
                             form.progressive));
  }
  expect_parts(testing::write_jpeg(make_image(40, 50, 1)), "grey JPEG");
  expect_parts(testing::write_png(image), "PNG");
  expect_parts(testing::write_webp(image, true), "WebP without losses");
  expect_parts(testing::write_webp(image, false), "WebP");
}

TEST(ImageDecoder, MakesGreyOfColoursAndColoursOfGrey) {
  const Image grey = make_image(20, 30, 1);
  for (const std::string& bytes : {testing::write_png(grey), testing::write_jpeg(grey)}) {
    const Image one = decoded(bytes, {.channels = 1});
    const Image three = decoded(bytes, {.channels = 3});
    ASSERT_EQ(three.channels, 3);
    for (std::size_t i = 0; i < three.pixels.size(); ++i) {
      ASSERT_EQ(three.pixels[i], one.pixels[i / 3]);
    }
  }
  const Image red{.height = 1, .width = 1, .pixels = {255, 0, 0}};
  EXPECT_EQ(decoded(testing::write_webp(red, true), {.channels = 1}).pixels.front(), 76);
  EXPECT_NEAR(decoded(testing::write_png(red), {.channels = 1}).pixels.front(), 76, 0);
  EXPECT_NEAR(decoded(testing::write_jpeg(red), {.channels = 1}).pixels.front(), 76, 3);
}

TEST(ImageDecoder, MakesColoursOfFourInks) {
  const Image image = make_image(24, 32);
  const std::string bytes = testing::write_jpeg(image, {.quality = 98, .inks = true});
  EXPECT_LT(mean_distance(decoded(bytes), image), 6);
  expect_parts(bytes, "JPEG of inks");
}

TEST(ImageDecoder, TakesPngsWithPalettesOpacityAndInterlacing) {
  // Red, green, blue and (10, 20, 30), of which some are transparent.
  const std::string palette = base64_decode(
      "iVBORw0KGgoAAAANSUhEUgAAAAQAAAACAgMAAAACxpXwAAAADFBMVEX/AAAA/wAAAP8KFB4iiCkEAAAAA3RSTlP/gAB/"
      "bWh4AAAADElEQVR42mOQZngCAAE5AQB7mUI3AAAAAElFTkSuQmCC");
  const Image colours = decoded(palette);
  ASSERT_EQ(colours.pixels.size(), 24U);
  EXPECT_THAT(std::vector<std::uint8_t>(colours.pixels.begin(), colours.pixels.begin() + 12),
              ::testing::ElementsAre(255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30));
  const std::string interlaced = base64_decode(
      "iVBORw0KGgoAAAANSUhEUgAAAAMAAAADCAAAAAEERNr1AAAAF0lEQVR42mNgYGBiEBFjYGQQZeDi5gEAAmUAZNw4nKoA"
      "AAAASUVORK5CYII=");
  EXPECT_EQ(decoded(interlaced, {.channels = 1}).pixels.size(), 9U);
  expect_parts(interlaced, "interlaced PNG");
}

TEST(ImageDecoder, DecodesALargePartOfAJpegAtASmallerSize) {
  const Image image = make_image(400, 600);
  const std::string bytes = testing::write_jpeg(image, {.quality = 95});
  const ImageBox box{.top = 11, .left = 37, .height = 350, .width = 500};
  for (const std::int64_t size : {160, 80, 40, 20}) {
    ImageDecoder exact(bytes, "a picture", {.shrink_on_load = false});
    ImageDecoder quick(bytes, "a picture");
    const Image one = exact.decode_resized(box, size, size);
    const Image other = quick.decode_resized(box, size, size);
    EXPECT_NE(one, other) << size;
    EXPECT_LT(mean_distance(one, other), 4) << size;
  }
}

TEST(ImageDecoder, RefusesSizesAboveTheLimitBeforeItTakesMemory) {
  std::string jpeg = testing::write_jpeg(make_image(8, 8));
  const std::size_t frame = jpeg.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  EXPECT_THAT(message_of([&] { ImageDecoder(jpeg, "bomb.jpg"); }),
              AllOf(HasSubstr("bomb.jpg: the JPEG says that it has 65500 x 65500 pixels"),
                    HasSubstr("max_pixels")));

  std::string png = testing::write_png(make_image(8, 8));
  png.replace(16, 8, std::string("\x7F\xFF\xFF\xFF\x7F\xFF\xFF\xFF", 8));
  auto sum =
      static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17));
  for (std::size_t i = 4; i-- > 0; sum >>= 8) png[29 + i] = static_cast<char>(sum & 0xFF);
  EXPECT_THROW(ImageDecoder(png, "bomb.png"), ResourceExhausted);

  std::string webp = testing::write_webp(make_image(8, 8), false);
  webp.replace(26, 4, "\xFF\x3F\xFF\x3F");
  EXPECT_THROW(ImageDecoder(webp, "bomb.webp"), ResourceExhausted);

  const std::string fair = testing::write_png(make_image(10, 10));
  EXPECT_NO_THROW(ImageDecoder(fair, "fair.png", {.max_pixels = 100}));
  EXPECT_THROW(ImageDecoder(fair, "fair.png", {.max_pixels = 99}), ResourceExhausted);
}

TEST(ImageDecoder, RefusesFilesThatEndEarlyWithTheOffset) {
  const Image image = make_image(40, 60);
  for (const std::string& bytes :
       {testing::write_jpeg(image), testing::write_jpeg(image, {.progressive = true}),
        testing::write_png(image), testing::write_webp(image, true),
        testing::write_webp(image, false)}) {
    for (std::size_t size = 0; size + 12 < bytes.size(); size += 1 + bytes.size() / 60) {
      const std::string torn = bytes.substr(0, size);
      EXPECT_THAT(message_of([&] { decoded(torn); }),
                  AllOf(HasSubstr("a picture: "), HasSubstr("offset")))
          << size << " of " << bytes.size();
    }
  }
  const std::string jpeg = testing::write_jpeg(image);
  EXPECT_THAT(
      message_of([&] { decoded(jpeg.substr(0, 700)); }),
      HasSubstr("a picture: the JPEG is damaged near offset 700 of 700 bytes: Premature end"));
}

TEST(ImageDecoder, RefusesDamageInsideOfAJpeg) {
  std::string bytes = testing::write_jpeg(make_image(40, 60), {.restart_rows = 1});
  const std::size_t marker = bytes.find("\xFF\xD1");
  ASSERT_NE(marker, std::string::npos);
  // libjpeg would warn and go on.
  bytes[marker + 1] = '\xD5';
  EXPECT_THROW(decoded(bytes), DataLoss);
}

TEST(ImageDecoder, NeverFailsInAnotherWay) {
  const Image image = make_image(24, 33);
  Random random(3);
  for (const std::string& bytes :
       {testing::write_jpeg(image), testing::write_jpeg(image, {.progressive = true}),
        testing::write_png(image), testing::write_webp(image, true),
        testing::write_webp(image, false)}) {
    for (int i = 0; i < 300; ++i) {
      std::string damaged = bytes;
      const std::uint64_t place = random.below(bytes.size());
      damaged[place] = static_cast<char>(random.below(256));
      try {
        ImageDecoder decoder(damaged, "a picture", {.max_pixels = 1 << 16});
        decoder.decode();
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("a picture"));
      }
    }
  }
}

TEST(ImageDecoder, SaysWhenAFileIsNoPicture) {
  EXPECT_THAT(message_of([] { ImageDecoder("GIF89a....", "x.jpg"); }),
              HasSubstr("x.jpg: neither JPEG, PNG nor WebP at offset 0: it begins with 47 49"));
  EXPECT_THAT(message_of([] { ImageDecoder("", "x.jpg"); }), HasSubstr("it is empty"));
  EXPECT_THROW(decoded(testing::write_png(make_image(2, 2)), {.channels = 4}), InvalidArgument);
}

}  // namespace
}  // namespace muster
