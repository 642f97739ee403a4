#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "muster/platform/net/gcm_internal.h"

namespace muster::net {
namespace {

using Make = std::unique_ptr<Gcm> (*)(GcmKey key, Gcm::Direction direction);
using Bytes = std::vector<std::byte>;

constexpr std::array<unsigned char, 5> kRecordHeader{0x17, 0x03, 0x03, 0x40, 0x11};
constexpr Gcm::Nonce kOneNonce{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
constexpr std::array<unsigned char, Gcm::kKeyBytes> kOneKey{7, 7, 7, 1, 2, 3};

struct Sealed {
  Bytes bytes;
  Gcm::Tag tag{};
  bool operator==(const Sealed&) const = default;
};

Bytes some_bytes(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

Bytes passed(Gcm& gcm, const Bytes& from, std::size_t piece) {
  Bytes to(from.size());
  gcm.begin(kOneNonce, kRecordHeader);
  for (std::size_t at = 0; at < from.size(); at += piece) {
    gcm.add(from.data() + at, std::min(piece, from.size() - at), to.data() + at);
  }
  return to;
}

Sealed seal(Make make, const Bytes& from, std::size_t piece) {
  const auto gcm = make(kOneKey, Gcm::Direction::kSeal);
  // One after another with one key, as records are.
  passed(*gcm, some_bytes(33), 33);
  gcm->seal();
  Sealed out{passed(*gcm, from, piece)};
  out.tag = gcm->seal();
  return out;
}

// Nothing when the tag is wrong.
std::optional<Bytes> open(Make make, const Sealed& sealed, std::size_t piece) {
  const auto gcm = make(kOneKey, Gcm::Direction::kOpen);
  Bytes to = passed(*gcm, sealed.bytes, piece);
  return gcm->check(sealed.tag) ? std::optional(to) : std::nullopt;
}

class GcmEngines : public ::testing::TestWithParam<Make> {
 protected:
  void SetUp() override {
    if (!GetParam()(kOneKey, Gcm::Direction::kSeal)) {
      GTEST_SKIP() << "this processor has no VAES, or libipsec-mb is not installed";
    }
  }
};

TEST_P(GcmEngines, SealWithTheBytesOfOpenSsl) {
  for (const std::size_t size : {0, 1, 15, 16, 17, 255, 4096, 16'384, 16'385, 100'003}) {
    const Bytes text = some_bytes(size);
    const Sealed expected = seal(make_openssl_gcm, text, 1 << 20);
    for (const std::size_t piece : {1 << 20, 1000, 16, 7}) {
      EXPECT_EQ(seal(GetParam(), text, piece), expected) << size << " bytes by " << piece;
      EXPECT_EQ(open(GetParam(), expected, piece), text) << size << " bytes by " << piece;
    }
  }
}

// Test case 2 of the specification of GCM: a block of zeros, a key of zeros.
TEST_P(GcmEngines, SealAsTheSpecificationSays) {
  const auto gcm = GetParam()(std::array<unsigned char, Gcm::kKeyBytes>{}, Gcm::Direction::kSeal);
  Bytes block(16);
  gcm->begin({}, {});
  gcm->add(block.data(), block.size(), block.data());
  EXPECT_EQ(block.front(), std::byte{0x03});
  EXPECT_EQ(block.back(), std::byte{0x78});
  const Gcm::Tag tag = gcm->seal();
  EXPECT_EQ(tag.front(), 0xab);
  EXPECT_EQ(tag.back(), 0xdf);
}

TEST_P(GcmEngines, OpenNothingThatWasChanged) {
  const Sealed sealed = seal(GetParam(), some_bytes(1000), 1000);
  EXPECT_TRUE(open(GetParam(), sealed, 1000).has_value());
  for (const std::size_t at : {0, 500, 999}) {
    Sealed changed = sealed;
    changed.bytes[at] ^= std::byte{1};
    EXPECT_EQ(open(GetParam(), changed, 1000), std::nullopt) << at;
  }
  for (const std::size_t at : {0, 15}) {
    Sealed changed = sealed;
    changed.tag[at] ^= 1;
    EXPECT_EQ(open(GetParam(), changed, 1000), std::nullopt) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, GcmEngines, ::testing::Values(make_openssl_gcm, make_fast_gcm));

}  // namespace
}  // namespace muster::net
