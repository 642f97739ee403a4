#include "muster/saved_model/executor/held_memory_internal.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::executor {
namespace {

const void* address(std::uint64_t number) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(16 * (number + 1)));
}

TEST(HeldMemory, KeepsWhatAMapKeeps) {
  std::uint64_t state = 1;
  const auto draw = [&](std::uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % below;
  };
  // Few addresses hit the same places again and again; many make it grow.
  for (const std::uint64_t addresses : {8, 60, 2000}) {
    HeldMemory held;
    std::map<const void*, std::int64_t> wanted;
    for (int i = 0; i < 20'000; ++i) {
      const void* const memory = address(draw(addresses));
      if (draw(2) == 0) {
        const auto [entry, is_new] = held.try_emplace(memory);
        EXPECT_EQ(is_new, !wanted.contains(memory));
        entry->uses += 1;
        wanted[memory] += 1;
      } else if (const auto* entry = held.find(memory)) {
        ASSERT_TRUE(wanted.contains(memory));
        EXPECT_EQ(entry->uses, wanted[memory]);
        held.erase(entry);
        wanted.erase(memory);
      } else {
        ASSERT_FALSE(wanted.contains(memory));
      }
      ASSERT_EQ(held.size(), wanted.size());
    }
    for (std::uint64_t i = 0; i < addresses; ++i) {
      const auto* const entry = held.find(address(i));
      ASSERT_EQ(entry != nullptr, wanted.contains(address(i)));
      if (entry != nullptr) EXPECT_EQ(entry->uses, wanted[address(i)]);
    }
  }
}

TEST(HeldMemory, ForgetsWhatWasErased) {
  HeldMemory held;
  held.try_emplace(address(1)).first->bytes = 7;
  held.erase(held.find(address(1)));
  EXPECT_EQ(held.find(address(1)), nullptr);
  EXPECT_EQ(held.try_emplace(address(1)).first->bytes, 0);
}

}  // namespace
}  // namespace muster::executor
