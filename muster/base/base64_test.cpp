#include "muster/base/base64.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster {
namespace {

// The vectors of RFC 4648.
TEST(Base64, ReproducesThePublishedVectors) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64_encode(bytes), text);
    EXPECT_EQ(base64_decode(text), bytes);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
}

TEST(Base64, RefusesOtherText) {
  EXPECT_THROW(base64_decode("Zm9v!A=="), InvalidArgument);
  EXPECT_THROW(base64_decode("A"), InvalidArgument);
  EXPECT_EQ(base64_decode("Zm8"), "fo");
  EXPECT_EQ(base64_decode("Zg"), "f");
}

// Input that OpenSSL takes and the standard does not.
TEST(Base64, RefusesBlanksAndPaddingInside) {
  for (const char* text :
       {" Zm9", "    Zm9v", "Zm9v    ", "Zm9v\n", "Zm 9", "Zg==Zg==", "Zg=v", "===="}) {
    EXPECT_THROW(base64_decode(text), InvalidArgument) << text;
  }
  try {
    base64_decode("Zm9vZ!9v");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "not a character of base64 at place 5");
  }
}

}  // namespace
}  // namespace muster
