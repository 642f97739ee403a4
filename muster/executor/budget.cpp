#include <time.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/executor/budget_internal.h"

namespace muster::executor {
namespace {

using Clock = std::chrono::steady_clock;

// The same clock, as of its last tick, some milliseconds ago: asked between all operations.
Clock::time_point now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return Clock::time_point(std::chrono::seconds(time.tv_sec) +
                           std::chrono::nanoseconds(time.tv_nsec));
}

// A time that lies too far ahead for the clock is no limit.
Clock::time_point deadline_of(std::chrono::milliseconds time) {
  const auto begin = now();
  const auto most = std::chrono::floor<std::chrono::milliseconds>(Clock::time_point::max() - begin);
  return time >= most ? Clock::time_point::max() : begin + time;
}

bool is_memory_of(const void* memory, const SlotRefs& slots) {
  bool found = false;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    each_memory(slots[i], Variables::kAsTheirValues,
                [&](const void* held, auto&&) { found = found || held == memory; });
    if (found) return true;
  }
  return false;
}

}  // namespace

Budget::Budget(const RunLimits& limits) : limits_(limits), deadline_(deadline_of(limits.time)) {}

void Budget::begin_operations(std::int64_t count) {
  operations_ += count;
  if (operations_ > limits_.operations) {
    throw ResourceExhausted(
        "more than {} operations were run; --max-operations (RunLimits::operations) raises the "
        "limit",
        limits_.operations);
  }
  check_time();
}

void Budget::check_time() const {
  if (now() >= deadline_) {
    throw ResourceExhausted(
        "more than {} ms have passed; --max-seconds (RunLimits::time) raises the limit",
        limits_.time.count());
  }
}

void Budget::check_room(std::int64_t bytes) const {
  if (bytes <= limits_.live_bytes - live_bytes_) return;
  throw ResourceExhausted(
      "{} bytes are needed beside {} that are held, but {} may be held; --max-live-bytes "
      "(RunLimits::live_bytes) raises the limit",
      bytes, live_bytes_, limits_.live_bytes);
}

bool Budget::has_room_for(std::int64_t operations, std::int64_t bytes) const {
  return operations <= limits_.operations - operations_ &&
         bytes <= limits_.live_bytes - live_bytes_ && bytes <= limits_.total_bytes - total_bytes_ &&
         now() < deadline_;
}

void Budget::charge(std::int64_t bytes) {
  check_room(bytes);
  if (bytes > limits_.total_bytes - total_bytes_) {
    throw ResourceExhausted(
        "{} bytes after {} before them are more than the {} that may be made; --max-total-bytes "
        "(RunLimits::total_bytes) raises the limit",
        bytes, total_bytes_, limits_.total_bytes);
  }
  live_bytes_ += bytes;
  total_bytes_ += bytes;
}

void Budget::hold(std::span<const Slot> values, const SlotRefs& given) {
  for (const Slot& value : values) {
    each_memory(value, Variables::kSkip, [&](const void* memory, auto&& bytes_of) {
      const auto [place, is_new] = held_.try_emplace(memory);
      ++place->uses;
      if (!is_new || is_memory_of(memory, given)) return;
      const std::int64_t bytes = bytes_of();
      charge(bytes);
      place->bytes = bytes;
    });
  }
}

void Budget::hold_free(std::span<const Slot> values) {
  for (const Slot& value : values) {
    each_memory(value, Variables::kSkip,
                [&](const void* memory, auto&&) { ++held_.try_emplace(memory).first->uses; });
  }
}

void Budget::release(std::span<const Slot> values) {
  for (const Slot& value : values) {
    each_memory(value, Variables::kSkip, [&](const void* memory, auto&&) {
      HeldMemory::Held* const place = held_.find(memory);
      if (place == nullptr || --place->uses > 0) return;
      live_bytes_ -= place->bytes;
      held_.erase(place);
    });
  }
}

Budget::Call::Call(Budget& budget) : budget_(budget) {
  if (budget_.calls_ >= budget_.limits_.calls) {
    throw ResourceExhausted(
        "functions were called more than {} times; --max-calls (RunLimits::calls) raises the limit",
        budget_.limits_.calls);
  }
  if (budget_.depth_ >= budget_.limits_.call_depth) {
    throw ResourceExhausted("functions call each other more than {} deep (RunLimits::call_depth)",
                            budget_.limits_.call_depth);
  }
  ++budget_.calls_;
  ++budget_.depth_;
}

}  // namespace muster::executor
