#include "muster/platform/net/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace muster::net {
namespace {

TEST(Buffer, IsAlignedForEverySize) {
  for (const std::size_t size : {1, 63, 4096, 65536, 100'000, 1 << 20}) {
    const Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u) << size;
    EXPECT_EQ(buffer.bytes().size(), size);
  }
}

TEST(Buffer, ALargeOneTakesTheMemoryOfTheLastOne) {
  const std::byte* first = nullptr;
  {
    const Buffer buffer(3'000'000);
    first = buffer.data();
  }
  const Buffer again(2'500'000);
  EXPECT_EQ(again.data(), first);
}

TEST(Buffer, ThePoolKeepsNoMoreThanItsLimit) {
  {
    std::vector<Buffer> many;
    for (int i = 0; i < 12; ++i) many.emplace_back(std::size_t{32} << 20);
  }
  EXPECT_GT(Buffer::pooled_bytes(), 0u);
  EXPECT_LE(Buffer::pooled_bytes(), Buffer::kMaxPooledBytes);
}

TEST(Buffer, MovesWithoutCopying) {
  Buffer from(100);
  from.data()[99] = std::byte{7};
  const std::byte* const data = from.data();
  Buffer to(5);
  to = std::move(from);
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to.size(), 100u);
  const Buffer last(std::move(to));
  EXPECT_EQ(last.data()[99], std::byte{7});
  EXPECT_TRUE(to.empty());  // NOLINT: a moved-from buffer is an empty one.
}

}  // namespace
}  // namespace muster::net
