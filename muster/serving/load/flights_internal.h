#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "muster/serving/load/request_schedule_internal.h"

namespace muster::serving {

/// A request that is sent and not answered.
struct Flight {
  DueRequest request{};
  std::size_t target = 0;
  std::size_t connection = 0;
};

/// Requests in flight by tag. A tag is never used again, so an answer that comes too late finds
/// nothing.
class Flights {
 public:
  std::uint64_t add(const Flight& flight) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    Slot& slot = slots_[place];
    slot.flight = flight;
    slot.is_open = true;
    const std::uint64_t tag = std::uint64_t{++slot.generation} << 32 | place;
    order_.push_back(tag);
    ++size_;
    return tag;
  }
  /// Takes the flight out; nothing when it is over.
  std::optional<Flight> take(std::uint64_t tag) {
    Slot& slot = slots_[tag & kPlace];
    if (!slot.is_open || slot.generation != tag >> 32) return std::nullopt;
    slot.is_open = false;
    free_.push_back(static_cast<std::uint32_t>(tag & kPlace));
    --size_;
    return slot.flight;
  }
  /// The tag of the one that was sent first; nothing when there is none.
  std::optional<std::uint64_t> oldest() {
    while (!order_.empty()) {
      const Slot& slot = slots_[order_.front() & kPlace];
      if (slot.is_open && slot.generation == order_.front() >> 32) return order_.front();
      order_.pop_front();
    }
    return std::nullopt;
  }
  const Flight& operator[](std::uint64_t tag) const { return slots_[tag & kPlace].flight; }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint64_t kPlace = 0xFFFFFFFF;
  struct Slot {
    Flight flight{};
    std::uint32_t generation = 0;
    bool is_open = false;
  };

  std::vector<Slot> slots_{};
  std::vector<std::uint32_t> free_{};
  std::deque<std::uint64_t> order_{};
  std::size_t size_ = 0;
};

}  // namespace muster::serving
