#include "muster/base/fingerprint.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// The values of TensorFlow's own tests.
TEST(Fingerprint, IsFarmHashs) {
  EXPECT_EQ(fingerprint64("Hello"), 15404698994557526151U);
  EXPECT_EQ(fingerprint64("World"), 18308117990299812472U);
  EXPECT_EQ(fingerprint64("a"), 12917804110809363939U);
  EXPECT_EQ(fingerprint64("b"), 11795596070477164822U);
  EXPECT_EQ(fingerprint64("c"), 11430444447143000872U);
  EXPECT_EQ(fingerprint64("d"), 4470636696479570465U);
}

TEST(Fingerprint, JoinsInOrder) {
  const auto hello = fingerprint64("Hello");
  const auto world = fingerprint64("World");
  EXPECT_EQ(concatenate_fingerprints(hello, world), 16877292868973613377U);
  EXPECT_EQ(concatenate_fingerprints(world, hello), 7158413233176775252U);
}

TEST(Fingerprint, OfANumberIsThatOfItsDecimalText) {
  EXPECT_EQ(fingerprint64(std::int64_t{101}), fingerprint64("101"));
  EXPECT_EQ(fingerprint64(std::int64_t{-7}), fingerprint64("-7"));
}

}  // namespace
}  // namespace muster
