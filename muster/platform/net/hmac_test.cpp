#include "muster/platform/net/hmac_internal.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

namespace muster::net {
namespace {

std::string hex(const Sha256::Digest& digest) {
  std::string text;
  for (const auto byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

// The test cases 1, 2, 3 and 6 of RFC 4231.
TEST(HmacSha256, GivesTheValuesOfRfc4231) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, TakesAKeyOfNoBytes) {
  EXPECT_EQ(hex(hmac_sha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(HmacSha256, ComparesEveryByte) {
  const auto digest = hmac_sha256("key", "message");
  EXPECT_TRUE(same_digest(digest, digest));
  for (std::size_t i = 0; i < digest.size(); ++i) {
    auto other = digest;
    other[i] = static_cast<std::uint8_t>(other[i] ^ 1);
    EXPECT_FALSE(same_digest(digest, other)) << i;
  }
}

}  // namespace
}  // namespace muster::net
