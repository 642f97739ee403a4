#include "muster/platform/stores/large_buffer.h"

#include <gtest/gtest.h>

namespace muster::stores {
namespace {

constexpr std::size_t kBytes = std::size_t{8} << 20;

TEST(SpareBuffers, AreTheMemoryOfTheNextBuffer) {
  const auto spare = SpareBuffers::shared();
  std::string read(kBytes, 'x');
  const char* const memory = read.data();
  auto shared = shared_buffer(std::move(read));
  std::string other;
  reserve_large(other, kBytes);
  EXPECT_NE(other.data(), memory) << "it is still in use";
  shared.reset();
  std::string next;
  reserve_large(next, kBytes);
  EXPECT_EQ(next.data(), memory);
  EXPECT_TRUE(next.empty());
}

TEST(SpareBuffers, AreFew) {
  SpareBuffers spare;
  for (int i = 0; i < 100; ++i) {
    std::string buffer;
    buffer.reserve(kBytes);
    spare.give(std::move(buffer));
  }
  int taken = 0;
  for (std::string buffer; spare.take(buffer, kBytes); buffer = {}) ++taken;
  EXPECT_GT(taken, 0);
  EXPECT_LE(taken, 8);
}

TEST(SpareBuffers, AreGoneWithTheLastWhoReads) {
  std::weak_ptr<SpareBuffers> seen = SpareBuffers::shared();
  EXPECT_TRUE(seen.expired());
  auto buffer = shared_buffer(std::string(kBytes, 'x'));
  seen = SpareBuffers::shared();
  EXPECT_FALSE(seen.expired());
  buffer.reset();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace muster::stores
