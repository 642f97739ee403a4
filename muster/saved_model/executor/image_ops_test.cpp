#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/one_node_internal.h"
#include "muster/testing/image_samples.h"
#include "muster/testing/message_of.h"

// The pixels of JPEG files are OpenCV 4.6's, PNG files were written byte by byte.
namespace muster::executor {
namespace {

using graph::DataType;
using muster::testing::kBaselineJpeg;
using muster::testing::kInterlacedPng;
using muster::testing::kPalettePng;
using muster::testing::kProgressiveJpeg;
using muster::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// 8 rows of 16 pixels, all 77, one channel.
constexpr std::string_view kGrayJpeg =
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAIBAQEBAQIBAQECAgICAgQDAgICAgUEBAMEBgUGBgYFBgYGBwkIBgcJBwYGCA"
    "sICQoKCgoKBggLDAsKDAkKCgr/wAALCAAIABABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAAAAj/xAAUEAEAAAAAAAAAAAAA"
    "AAAAAAAA/9oACAEBAAA/AIzH/9k=";
// 1 and 15 of 15.
constexpr std::string_view kGray4Png =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABBAAAAAAUuc1XAAAACklEQVR42mOQBwAAIQAg6j48egAAAABJRU5ErkJggg==";
// One pixel: 0x1234, 0x5678, 0xFFFF.
constexpr std::string_view kRgb16Png =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABEAIAAADA54+dAAAAD0lEQVR42mMQMgmr+P8fAAc0AxOJqdFEAAAAAElFTkSu"
    "QmCC";
// 10, 20, 30, ... 160.
constexpr std::string_view kRgbaPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAGklEQVR42mPgEpHTMLJxC2CISsmraOqZtgAAIVoFUU6E"
    "2PwAAAAASUVORK5CYII=";
// 900,000 by 900,000 pixels, as it says.
constexpr std::string_view kHugePng =
    "iVBORw0KGgoAAAANSUhEUgANu6AADbugCAIAAABf3wbYAAAACElEQVR42gMAAAAAAW/dyZEAAAAASUVORK5CYII=";

at::Tensor decoded(const std::string& op, const std::string& file, graph::Attrs attrs = {},
                   const RunLimits& limits = {}) {
  return std::get<at::Tensor>(
      run_one_node(op, {StringTensor({file}, {})}, std::move(attrs), 1, limits)[0]);
}

at::Tensor pixels(const std::vector<std::int64_t>& values, const std::vector<std::int64_t>& shape) {
  return at::tensor(values, at::kLong).to(at::kByte).reshape(shape);
}

void expect_pixels(const at::Tensor& found, const at::Tensor& wanted) {
  ASSERT_EQ(found.scalar_type(), wanted.scalar_type());
  EXPECT_TRUE(found.equal(wanted)) << found << " and not " << wanted;
}

TEST(DecodeJpeg, GivesThePixelsThatOpenCvGives) {
  const at::Tensor color = pixels(
      {220, 14,  14,  220, 37,  21,  205, 66,  23,  182, 95,  18,  159, 126, 13,  145, 158, 18,
       132, 180, 19,  213, 11,  35,  213, 33,  42,  199, 64,  44,  174, 91,  37,  150, 123, 34,
       137, 155, 37,  124, 176, 40,  200, 6,   77,  200, 28,  86,  185, 58,  85,  161, 86,  80,
       137, 118, 76,  123, 150, 79,  111, 171, 83,  184, 2,   113, 184, 24,  120, 170, 55,  122,
       146, 82,  116, 122, 114, 111, 107, 146, 115, 96,  168, 118, 169, 2,   144, 169, 24,  151,
       155, 55,  153, 131, 82,  147, 107, 114, 142, 94,  145, 146, 80,  167, 148},
      {5, 7, 3});
  expect_pixels(decoded("DecodeJpeg", base64_decode(kBaselineJpeg)), color);
  expect_pixels(decoded("DecodeJpeg", base64_decode(kProgressiveJpeg), {{"channels", 3}}), color);
  expect_pixels(
      decoded("DecodeJpeg", base64_decode(kBaselineJpeg), {{"channels", 1}}).slice(0, 0, 1),
      pixels({76, 90, 103, 112, 123, 138, 147}, {1, 7, 1}));
  expect_pixels(decoded("DecodeJpeg", base64_decode(kBaselineJpeg), {{"ratio", 2}}),
                pixels({226, 20, 20,  195, 79, 20,  147, 142, 12,  120, 186, 16,
                        200, 10, 106, 168, 68, 104, 119, 133, 97,  93,  175, 99,
                        169, 9,  167, 138, 68, 166, 90,  132, 157, 63,  175, 161},
                       {3, 4, 3}));
  expect_pixels(decoded("DecodeImage", base64_decode(kGrayJpeg)),
                at::full({8, 16, 1}, 77, at::kByte));
  expect_pixels(decoded("DecodePng", base64_decode(kGrayJpeg), {{"channels", 3}}),
                at::full({8, 16, 3}, 77, at::kByte));
}

TEST(DecodeJpeg, TakesAFileThatEndsEarlyOnlyWhereItIsToldTo) {
  const std::string whole = base64_decode(kGrayJpeg);
  const std::string torn = whole.substr(0, whole.size() - 4);
  EXPECT_THAT(message_of([&] { decoded("DecodeJpeg", torn); }),
              AllOf(HasSubstr("node y (DecodeJpeg)"), HasSubstr("the JPEG cannot be decoded")));
  expect_pixels(decoded("DecodeJpeg", torn, {{"try_recover_truncated", true}}),
                decoded("DecodeJpeg", torn, {{"acceptable_fraction", 0.0F}}));
  EXPECT_THAT(message_of([&] {
                decoded("DecodeJpeg", torn, {{"acceptable_fraction", 0.5F}});
              }),
              HasSubstr("ends after 0 of 8 rows"));
}

TEST(DecodePng, GivesTheChannelsThatAreWanted) {
  const std::string file = base64_decode(kRgbaPng);
  const at::Tensor all = at::arange(10, 170, 10).to(at::kByte).reshape({2, 2, 4});
  expect_pixels(decoded("DecodePng", file), all);
  expect_pixels(decoded("DecodePng", file, {{"channels", 3}}), all.slice(2, 0, 3));
  // 0.299 r + 0.587 g + 0.114 b
  expect_pixels(decoded("DecodePng", file, {{"channels", 1}}),
                pixels({18, 58, 98, 138}, {2, 2, 1}));
  expect_pixels(decoded("DecodeImage", base64_decode(kInterlacedPng)),
                pixels({0, 1, 2, 10, 11, 12, 20, 21, 22}, {3, 3, 1}));
  expect_pixels(decoded("DecodePng", base64_decode(kGray4Png)), pixels({17, 255}, {1, 2, 1}));
  expect_pixels(decoded("DecodePng", base64_decode(kGray4Png), {{"channels", 4}}),
                pixels({17, 17, 17, 255, 255, 255, 255, 255}, {1, 2, 4}));
}

TEST(DecodePng, TakesAPaletteAsItsColors) {
  const at::Tensor colors =
      pixels({255, 0, 0, 255, 0, 255, 0, 128, 0, 0, 255, 0, 10, 20, 30, 255}, {4, 4});
  const at::Tensor wanted = at::stack({colors, colors.flip(0)});
  expect_pixels(decoded("DecodePng", base64_decode(kPalettePng)), wanted);
  expect_pixels(decoded("DecodePng", base64_decode(kPalettePng), {{"channels", 3}}),
                wanted.slice(2, 0, 3));
}

TEST(DecodePng, ScalesToOneForFloats) {
  const at::Tensor found =
      decoded("DecodeImage", base64_decode(kRgb16Png), {{"dtype", DataType::kFloat}});
  EXPECT_TRUE(at::allclose(
      found.reshape(-1), at::tensor(std::vector<float>{0x1234 / 65535.0F, 0x5678 / 65535.0F, 1.0F}),
      1e-6));
  expect_pixels(decoded("DecodePng", base64_decode(kRgb16Png)),
                pixels({0x12, 0x56, 0xFF}, {1, 1, 3}));
  EXPECT_TRUE(
      at::allclose(decoded("DecodeImage", base64_decode(kGrayJpeg), {{"dtype", DataType::kFloat}}),
                   at::full({8, 16, 1}, 77 / 255.0F)));
  EXPECT_THROW(decoded("DecodePng", base64_decode(kRgb16Png), {{"dtype", DataType::kUint16}}),
               Unimplemented);
}

TEST(DecodeImage, RefusesWhatThereIsNoRoomFor) {
  EXPECT_THROW(decoded("DecodeImage", base64_decode(kHugePng)), ResourceExhausted);
  // Sizes in a JPEG's header: two bytes each, after the marker of the frame.
  std::string jpeg = base64_decode(kProgressiveJpeg);
  const auto frame = jpeg.find("\xFF\xC2");
  jpeg.replace(frame + 5, 4, std::string{'\xFF', 0, '\xFF', 0});
  EXPECT_THROW(decoded("DecodeImage", jpeg), ResourceExhausted);
  jpeg.replace(frame + 5, 4, std::string{0x10, 0, 0x10, 0});
  EXPECT_THAT(message_of([&] { decoded("DecodeImage", jpeg, {}, {.live_bytes = 60 << 20}); }),
              HasSubstr("--max-live-bytes"));
}

TEST(DecodeImage, SaysWhatIsWrong) {
  EXPECT_THAT(message_of([] { decoded("DecodeImage", "GIF89a"); }), HasSubstr("GIF"));
  EXPECT_THAT(message_of([] { decoded("DecodeImage", "text"); }), HasSubstr("neither a JPEG"));
  EXPECT_THAT(message_of([] {
                decoded("DecodeJpeg", base64_decode(kBaselineJpeg), {{"channels", 4}});
              }),
              HasSubstr("channels"));
  EXPECT_THAT(message_of([] {
                decoded("DecodeJpeg", base64_decode(kBaselineJpeg), {{"ratio", 3}});
              }),
              HasSubstr("ratio"));
  std::string damaged = base64_decode(kRgbaPng);
  damaged[50] = static_cast<char>(damaged[50] ^ 1);
  EXPECT_THAT(message_of([&] { decoded("DecodePng", damaged); }), HasSubstr("the PNG cannot"));
}

// Every byte of every file, changed in four ways: an answer or an error of ours, within the limits.
TEST(DecodeImage, SurvivesDamagedFiles) {
  const RunLimits limits{.live_bytes = 1 << 20};
  int refused = 0;
  for (const auto file : {kBaselineJpeg, kProgressiveJpeg, kGrayJpeg, kPalettePng, kRgb16Png,
                          kRgbaPng, kInterlacedPng}) {
    const std::string whole = base64_decode(file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      for (const int change : {0x01, 0x80, 0xFF, -1}) {
        std::string mutant = whole;
        if (change < 0) mutant.resize(i);
        if (change > 0) mutant[i] = static_cast<char>(mutant[i] ^ change);
        try {
          decoded("DecodeImage", mutant, {{"try_recover_truncated", true}}, limits);
        } catch (const Error&) {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace muster::executor
