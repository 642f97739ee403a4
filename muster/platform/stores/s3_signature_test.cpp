#include "muster/platform/stores/s3_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/sha256.h"

namespace muster::stores {
namespace {

using ::testing::HasSubstr;

// The examples of AWS's documentation of Signature Version 4 for S3.
const S3Credentials kExample{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                             ""};
constexpr std::int64_t kMay24 = 1369353600;

std::string value_of(const HttpHeaders& headers, const std::string& name) {
  for (const auto& header : headers) {
    if (header.first == name) return header.second;
  }
  return "";
}

SignedParts parts(std::string method, std::string path) {
  return {.method = std::move(method),
          .host = "examplebucket.s3.amazonaws.com",
          .path = std::move(path),
          .payload_hash = sha256_hex("")};
}

std::string authorization(const SignedParts& given) {
  return value_of(sign_v4(given, kExample, "us-east-1", kMay24), "Authorization");
}

TEST(S3Signature, IsThatOfAwsForARange) {
  SignedParts get = parts("GET", "/test.txt");
  get.headers = {{"Range", "bytes=0-9"}};
  EXPECT_EQ(authorization(get),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(S3Signature, IsThatOfAwsForAnUpload) {
  SignedParts put = parts("PUT", "/test%24file.text");
  put.headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  put.payload_hash = payload_sha256("Welcome to Amazon S3.");
  EXPECT_THAT(authorization(put),
              HasSubstr("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(S3Signature, IsThatOfAwsForParametersWithAndWithoutValues) {
  SignedParts lifecycle = parts("GET", "/");
  lifecycle.query = {{"lifecycle", ""}};
  EXPECT_THAT(authorization(lifecycle),
              HasSubstr("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
  SignedParts list = parts("GET", "/");
  list.query = {{"prefix", "J"}, {"max-keys", "2"}};
  EXPECT_THAT(authorization(list),
              HasSubstr("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(S3Signature, CoversTheTokenOfTemporaryCredentials) {
  S3Credentials temporary = kExample;
  temporary.session_token = "a token";
  const auto headers = sign_v4(parts("GET", "/x"), temporary, "us-east-1", kMay24);
  EXPECT_EQ(value_of(headers, "x-amz-security-token"), "a token");
  EXPECT_THAT(value_of(headers, "Authorization"), HasSubstr("x-amz-date;x-amz-security-token,"));
}

TEST(S3Signature, SortsAndEncodesTheQuery) {
  EXPECT_EQ(canonical_query({{"b", "x/y z"}, {"a", "~+"}, {"a", ""}}), "a=&a=~%2B&b=x%2Fy%20z");
}

}  // namespace
}  // namespace muster::stores
