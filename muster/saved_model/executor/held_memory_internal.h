#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster::executor {

/// Pieces of memory by their address, how often each is held and what was charged for it. A table
/// with open addressing: every step of a plan enters what it made and removes it again, and a map
/// would allocate for each. Pointers into it are valid until the next change.
class HeldMemory {
 public:
  struct Held {
    /// Null where the place is free.
    const void* memory = nullptr;
    std::int64_t uses = 0;
    std::int64_t bytes = 0;
  };

  std::size_t size() const { return size_; }

  /// Null when it is not there.
  Held* find(const void* memory) {
    Held& place = places()[place_of(memory)];
    return place.memory == nullptr ? nullptr : &place;
  }

  /// The entry of an address, and whether it is new.
  std::pair<Held*, bool> try_emplace(const void* memory) {
    if (2 * (size_ + 1) > capacity()) grow();
    Held& place = places()[place_of(memory)];
    if (place.memory != nullptr) return {&place, false};
    place.memory = memory;
    ++size_;
    return {&place, true};
  }

  void erase(const Held* entry) {
    Held* const all = places();
    auto gap = static_cast<std::size_t>(entry - all);
    // Those after it that a search would no longer find move up.
    for (std::size_t i = next(gap); all[i].memory != nullptr; i = next(i)) {
      const std::size_t wish = first_place(all[i].memory);
      const bool stays = gap < i ? gap < wish && wish <= i : gap < wish || wish <= i;
      if (stays) continue;
      all[gap] = all[i];
      gap = i;
    }
    all[gap] = {};
    --size_;
  }

 private:
  static constexpr std::size_t kFew = 64;

  std::size_t capacity() const { return many_.empty() ? kFew : many_.size(); }
  Held* places() { return many_.empty() ? few_.data() : many_.data(); }
  std::size_t next(std::size_t place) const { return (place + 1) & (capacity() - 1); }

  std::size_t first_place(const void* memory) const {
    // Addresses are multiples of 16 mostly; the product spreads them over its upper half.
    const auto number = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory));
    return static_cast<std::size_t>((number >> 4) * 0x9E3779B97F4A7C15ULL >> 32) & (capacity() - 1);
  }

  // Where it is, or would be.
  std::size_t place_of(const void* memory) {
    const Held* const all = places();
    std::size_t i = first_place(memory);
    while (all[i].memory != nullptr && all[i].memory != memory) i = next(i);
    return i;
  }

  void grow() {
    std::vector<Held> old(places(), places() + capacity());
    many_.assign(2 * old.size(), {});
    for (const Held& entry : old) {
      if (entry.memory != nullptr) many_[place_of(entry.memory)] = entry;
    }
  }

  std::array<Held, kFew> few_{};
  std::vector<Held> many_{};
  std::size_t size_ = 0;
};

}  // namespace muster::executor
