#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "muster/base/error.h"
#include "muster/serving/core/batch_queue.h"
#include "muster/serving/core/batch_ticket_internal.h"
#include "muster/serving/core/batch_times.h"

namespace muster::serving {

/// The requests that wait in one queue: who enters, who is refused, and which of them are the next
/// batch. One thread at a time.
class WaitingRequests {
 public:
  using Clock = std::chrono::steady_clock;

  /// `slots`: how many batches are computed at one time.
  WaitingRequests(BatchOptions options, bool joinable, std::size_t slots)
      : options_(std::move(options)), joinable_(joinable), times_(slots) {}

  const BatchOptions& options() const { return options_; }
  bool is_empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }
  const std::deque<std::unique_ptr<BatchTicket>>& all() const { return waiting_; }
  BatchTimes& times() { return times_; }

  /// Any thread may call it.
  std::unique_ptr<BatchTicket> ticket_of(Tensors inputs, const Deadline& deadline,
                                         std::uint64_t priority, BatchQueue::Done done) const;

  /// When the waiting requests are to be computed.
  Clock::time_point ready_at() const;
  /// Whether the next batch takes, or may take, long.
  bool is_slow(Clock::time_point now) const;
  /// Whether a thread of the loop that computes the next batch would keep others waiting for it, or
  /// a slot waiting for the thread, which has to read between two batches.
  bool is_beside(Clock::time_point now) const;

  /// One of two is refused: this one, or the newest of a lower priority. Nothing when all may wait.
  std::unique_ptr<BatchTicket> enter(std::unique_ptr<BatchTicket> ticket);
  /// The requests of the next batch. Those before it that cannot be answered in time are refused.
  BatchTickets take(BatchTickets& refusals);
  /// Refuses those whose time is over.
  void take_late(Clock::time_point now, BatchTickets& refusals);

 private:
  bool is_too_late(const BatchTicket& ticket, Clock::time_point now,
                   Clock::duration later = {}) const;
  std::uint64_t level_of(std::uint64_t priority) const;
  std::int64_t batches_before(std::ptrdiff_t place) const;
  ResourceExhausted full() const;
  ResourceExhausted full_for(Clock::duration time) const;
  std::ptrdiff_t place_of(std::uint64_t level) const;
  std::unique_ptr<BatchTicket> take_out(std::unique_ptr<BatchTicket>& place);
  void close_gaps(std::size_t count);

  const BatchOptions options_;
  const bool joinable_;
  // By level, then by arrival.
  std::deque<std::unique_ptr<BatchTicket>> waiting_{};
  std::int64_t waiting_rows_ = 0;
  BatchTimes times_;
};

}  // namespace muster::serving
