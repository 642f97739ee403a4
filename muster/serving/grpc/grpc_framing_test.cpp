#include "muster/serving/grpc/grpc_framing.h"

#include <gtest/gtest.h>

namespace muster::serving {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

TEST(GrpcFraming, ReadsTimesOfEveryUnit) {
  EXPECT_EQ(parse_grpc_timeout("3H"), hours(3));
  EXPECT_EQ(parse_grpc_timeout("3M"), std::chrono::minutes(3));
  EXPECT_EQ(parse_grpc_timeout("1S"), std::chrono::seconds(1));
  EXPECT_EQ(parse_grpc_timeout("100m"), std::chrono::milliseconds(100));
  EXPECT_EQ(parse_grpc_timeout("99999999u"), std::chrono::microseconds(99'999'999));
  EXPECT_EQ(parse_grpc_timeout("0n"), nanoseconds(0));
  // More than nanoseconds hold.
  EXPECT_EQ(parse_grpc_timeout("99999999H"), nanoseconds(hours(24 * 365 * 10)));
}

TEST(GrpcFraming, TakesNothingElseForATime) {
  for (const char* text : {"", "S", "1", "1s", "-1S", "+1S", " 1S", "1S ", "1.5S", "123456789S"}) {
    EXPECT_EQ(parse_grpc_timeout(text), std::nullopt) << text;
  }
}

TEST(GrpcFraming, EncodesWhatAHeaderCannotHold) {
  EXPECT_EQ(percent_encoded("no model \"a\"~"), "no model \"a\"~");
  EXPECT_EQ(percent_encoded("100%\n\xC3\xA9\x7F"), "100%25%0A%C3%A9%7F");
}

TEST(GrpcFraming, ReadsAndWritesWhatIsInFrontOfAMessage) {
  EXPECT_EQ(grpc_prefix(0x01020304), std::string("\0\1\2\3\4", 5));
  const GrpcPrefix prefix = read_grpc_prefix(std::string("\1\xFF\0\0\2", 5));
  EXPECT_TRUE(prefix.is_compressed);
  EXPECT_EQ(prefix.bytes, 0xFF000002U);
  EXPECT_THROW(read_grpc_prefix(std::string("\2\0\0\0\0", 5)), Internal);
}

TEST(GrpcFraming, KnowsItsContentTypes) {
  for (const char* text : {"application/grpc", "application/grpc+proto", "Application/gRPC; x=y"}) {
    EXPECT_TRUE(is_grpc_content_type(text)) << text;
  }
  for (const char* text : {"", "application/json", "application/grpc-web", "application/grp"}) {
    EXPECT_FALSE(is_grpc_content_type(text)) << text;
  }
}

TEST(GrpcFraming, CutsLongMessagesOfStatuses) {
  const auto status =
      status_of(std::make_exception_ptr(InvalidArgument("{}", std::string(5'000, 'x'))));
  EXPECT_EQ(status.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.message, std::string(1024, 'x') + "...TRUNCATED");
}

}  // namespace
}  // namespace muster::serving
