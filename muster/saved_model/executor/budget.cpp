#include <time.h>

#include <algorithm>
#include <limits>

#include "muster/base/compute_deadline.h"
#include "muster/base/error.h"
#include "muster/saved_model/executor/budget_internal.h"

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

Budget::Budget(const RunLimits& limits, MemoryPool* pool)
    : limits_(limits),
      pool_(pool),
      deadline_(deadline_of(limits.time)),
      compute_deadline_(ComputeDeadline::current().time()) {}

Budget::~Budget() {
  if (drawn_bytes_ > 0) pool_->give_back(drawn_bytes_);
}

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
  const auto time = now();
  if (time >= compute_deadline_) {
    throw DeadlineExceeded("the deadline of the request has passed while it was computed");
  }
  if (time >= deadline_) {
    throw ResourceExhausted(
        "more than {} ms have passed; --max-seconds (RunLimits::time) raises the limit",
        limits_.time.count());
  }
}

void Budget::check_room(std::int64_t bytes) {
  if (bytes <= limits_.live_bytes - live_bytes_) {
    const std::int64_t more = bytes - step_bytes_;
    if (more <= 0) return;
    draw(live_bytes_ + reserved_bytes_ + more);
    reserved_bytes_ += more;
    step_bytes_ = bytes;
    return;
  }
  throw ResourceExhausted(
      "{} bytes are needed beside {} that are held, but {} may be held; --max-live-bytes "
      "(RunLimits::live_bytes) raises the limit",
      bytes, live_bytes_, limits_.live_bytes);
}

bool Budget::has_room_for(std::int64_t operations, std::int64_t bytes) const {
  return operations <= limits_.operations - operations_ &&
         bytes <= limits_.live_bytes - live_bytes_ && bytes <= limits_.total_bytes - total_bytes_ &&
         now() < std::min(deadline_, compute_deadline_);
}

void Budget::charge(std::int64_t bytes) {
  if (bytes > limits_.live_bytes - live_bytes_) check_room(bytes);
  if (bytes > limits_.total_bytes - total_bytes_) {
    throw ResourceExhausted(
        "{} bytes after {} before them are more than the {} that may be made; --max-total-bytes "
        "(RunLimits::total_bytes) raises the limit",
        bytes, total_bytes_, limits_.total_bytes);
  }
  // Memory that was reserved for it is now held.
  const std::int64_t reserved = std::min(bytes, step_bytes_);
  draw(live_bytes_ + bytes + reserved_bytes_ - reserved);
  step_bytes_ -= reserved;
  reserved_bytes_ -= reserved;
  live_bytes_ += bytes;
  total_bytes_ += bytes;
}

void Budget::draw(std::int64_t needed) {
  if (pool_ == nullptr) return;
  // In larger pieces than most steps need: other threads draw, too.
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  constexpr std::int64_t kMostIdle = 16 * kPiece;
  const std::int64_t more = needed - drawn_bytes_;
  if (more > 0) {
    std::int64_t taken = (more + kPiece - 1) / kPiece * kPiece;
    if (!pool_->take(taken)) {
      taken = more;
      if (!pool_->take(more)) {
        throw ResourceExhausted(
            "{} bytes are needed beside {} that all requests hold, but {} may be held; "
            "--max-server-live-bytes (LoadOptions::memory) raises the limit",
            more, pool_->taken(), pool_->limit());
      }
    }
    drawn_bytes_ += taken;
  } else if (-more > kMostIdle) {
    pool_->give_back(-more);
    drawn_bytes_ = needed;
  }
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
  draw(live_bytes_ + reserved_bytes_);
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
