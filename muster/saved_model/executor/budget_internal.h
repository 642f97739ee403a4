#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "muster/saved_model/executor/held_memory_internal.h"
#include "muster/saved_model/executor/memory_pool.h"
#include "muster/saved_model/executor/run_limits.h"
#include "muster/saved_model/executor/slot_internal.h"

namespace muster::executor {

/// Remainder of the limits of one request or load, and of the pool that several share. Belongs to
/// one thread. Functions throw ResourceExhausted when a limit is met, and name its flag.
class Budget {
 public:
  /// Memory that is held, and memory that a step says it needs, is taken from the pool, if there is
  /// one, until the budget is destroyed.
  explicit Budget(const RunLimits& limits, MemoryPool* pool = nullptr);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Counts operations that are about to run.
  void begin_operation() { begin_operations(1); }
  void begin_operations(std::int64_t count);
  /// For operations that take long. Throws DeadlineExceeded when the deadline of what this thread
  /// computes (ComputeDeadline) has passed.
  void check_time() const;
  /// Throws when these bytes cannot be held beside what is held now. They are taken from the pool
  /// until the step ends, or what it makes is held.
  void check_room(std::int64_t bytes);

  /// Whether this many more operations and bytes are within the limits, and time is left.
  bool has_room_for(std::int64_t operations, std::int64_t bytes) const;

  /// Values that are now held. Memory that is not held yet is charged, unless it is that of
  /// `given`: inputs, constants and variables do not count. Each call needs its release().
  void hold(std::span<const Slot> values, const SlotRefs& given);
  /// Values whose memory does not count.
  void hold_free(std::span<const Slot> values);
  void release(std::span<const Slot> values);

  /// Time that does not count, such as that of reading files.
  void add_time(std::chrono::steady_clock::duration more) { deadline_ += more; }

  std::int64_t live_bytes() const { return live_bytes_; }

  /// A step of a plan, for as long as it takes: the most that it says to need is reserved.
  class Step {
   public:
    explicit Step(Budget& budget) : budget_(budget), outer_(budget.step_bytes_) {
      budget.step_bytes_ = 0;
    }
    ~Step() {
      budget_.reserved_bytes_ -= budget_.step_bytes_;
      budget_.step_bytes_ = outer_;
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Budget& budget_;
    const std::int64_t outer_;
  };

  /// A call of a function, for as long as it takes.
  class Call {
   public:
    explicit Call(Budget& budget);
    ~Call() { --budget_.depth_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Budget& budget_;
  };

 private:
  void charge(std::int64_t bytes);
  // Takes from the pool what is needed beyond what was taken, or gives back what is not.
  void draw(std::int64_t needed);

  RunLimits limits_;
  MemoryPool* pool_;
  std::chrono::steady_clock::time_point deadline_;
  // Deadline of the thread that computes.
  std::chrono::steady_clock::time_point compute_deadline_;
  std::int64_t live_bytes_ = 0;
  std::int64_t total_bytes_ = 0;
  // By steps that are under way; of the innermost one.
  std::int64_t reserved_bytes_ = 0;
  std::int64_t step_bytes_ = 0;
  // From the pool.
  std::int64_t drawn_bytes_ = 0;
  std::int64_t operations_ = 0;
  std::int64_t calls_ = 0;
  std::int64_t depth_ = 0;
  // By the memory that tensors and strings share.
  HeldMemory held_;
};

}  // namespace muster::executor
