#include "muster/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

TEST(Sha256, HasTheValuesOfTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArePieced) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(i * 7));
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::string_view part = std::string_view(bytes).substr(0, size);
    Sha256 pieces;
    for (std::size_t at = 0; at < size; at += 13) pieces.update(part.substr(at, 13));
    ASSERT_EQ(pieces.hex_digest(), sha256_hex(part)) << "size " << size;
  }
}

TEST(Sha256, ACopyGoesItsOwnWay) {
  Sha256 hash;
  hash.update("ab");
  Sha256 copy = hash;
  copy.update("c");
  Sha256 assigned;
  assigned = copy;
  hash.update("d");
  EXPECT_EQ(copy.hex_digest(), sha256_hex("abc"));
  EXPECT_EQ(assigned.hex_digest(), sha256_hex("abc"));
  EXPECT_EQ(hash.hex_digest(), sha256_hex("abd"));
}

TEST(Sha256, CanGoOnAfterADigest) {
  Sha256 hash;
  hash.update("ab");
  EXPECT_EQ(hash.hex_digest(), sha256_hex("ab"));
  hash.update("c");
  EXPECT_EQ(hash.hex_digest(), sha256_hex("abc"));
}

}  // namespace
}  // namespace muster
