#include "muster/base/path_below.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/testing/message_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(PathBelow, TakesNamesThatFilesMayHave) {
  for (const char* name : {"a", "a/b.c", "...", "..a/b..", ".hidden", "a\\..\\b", "a\nb", "C:"}) {
    EXPECT_EQ(path_below("folder", name), Path("folder/" + std::string(name))) << name;
    EXPECT_EQ(path_below("s3://bucket/a", name).string(), "s3://bucket/a/" + std::string(name));
  }
}

TEST(PathBelow, RefusesNamesThatLeadElsewhere) {
  const auto said = [](std::string_view name) {
    return message_of([&] { path_below("folder", name); });
  };
  for (const char* name : {"..", "../x", "a/..", "a/../../x"}) {
    EXPECT_THAT(said(name), HasSubstr("below folder: it has the part '..'")) << name;
  }
  for (const char* name : {".", "./x", "a/./b"}) {
    EXPECT_THAT(said(name), HasSubstr("it has the part '.'")) << name;
  }
  for (const char* name : {"a//b", "a/"}) EXPECT_THAT(said(name), HasSubstr("empty part")) << name;
  for (const char* name : {"/", "/etc/passwd", "//x"}) {
    EXPECT_THAT(said(name), HasSubstr("it begins with '/'")) << name;
  }
  EXPECT_THAT(said(""), HasSubstr("it is empty"));
  EXPECT_THAT(said({"a\0b", 3}),
              HasSubstr("\"a\\x00b\" can be no file below folder: it has a NUL"));
  EXPECT_THAT(said(std::string(5000, 'x')), HasSubstr("it has 5000 bytes, more than 4096"));
}

}  // namespace
}  // namespace muster
