#include <algorithm>
#include <iterator>
#include <utility>

#include "muster/serving/core/batch_rows_internal.h"
#include "muster/serving/core/waiting_requests_internal.h"

namespace muster::serving {
namespace {

// A batch that usually takes longer does not belong into a thread that reads: by itself, or where
// there are more after it.
constexpr std::chrono::microseconds kLong{1000};
constexpr std::chrono::microseconds kLongWhenBehind{100};

DeadlineExceeded late() {
  return DeadlineExceeded("Run() timeout exceeded while waiting in batching queue");
}

template <typename Failure>
std::unique_ptr<BatchTicket> refused(std::unique_ptr<BatchTicket> ticket, const Failure& failure) {
  ticket->failure = std::make_exception_ptr(failure);
  return ticket;
}

}  // namespace

std::unique_ptr<BatchTicket> WaitingRequests::ticket_of(Tensors inputs, const Deadline& deadline,
                                                        std::uint64_t priority,
                                                        BatchQueue::Done done) const {
  auto ticket = std::make_unique<BatchTicket>(
      BatchTicket{std::move(inputs), deadline, level_of(priority), std::move(done)});
  ticket->rows = rows_of(ticket->inputs);
  ticket->joinable = joinable_ && !ticket->inputs.empty() && ticket->rows > 0 &&
                     std::ranges::all_of(ticket->inputs, [&](const auto& row) {
                       return rows_in(row.second) == ticket->rows;
                     });
  ticket->since = Clock::now();
  return ticket;
}

WaitingRequests::Clock::time_point WaitingRequests::ready_at() const {
  if (waiting_rows_ >= options_.max_batch_size || options_.delay == Clock::duration::zero()) {
    return Clock::time_point::min();
  }
  const auto since = [](const auto& ticket) { return ticket->since; };
  return (*std::ranges::min_element(waiting_, {}, since))->since + options_.delay;
}

// Whether the time is over before the request is computed, if it begins now or so much later.
bool WaitingRequests::is_too_late(const BatchTicket& ticket, Clock::time_point now,
                                  Clock::duration later) const {
  if (ticket.deadline.is_never()) return false;
  return ticket.deadline.time() < now + later + times_.of_one(now);
}

std::uint64_t WaitingRequests::level_of(std::uint64_t priority) const {
  return priority == 0 || priority > options_.priority_levels ? options_.default_priority_level
                                                              : priority;
}

// Batches that are computed before that of a request at this place.
std::int64_t WaitingRequests::batches_before(std::ptrdiff_t place) const {
  if (!joinable_) return place;
  std::int64_t rows = waiting_rows_;
  for (auto i = static_cast<std::size_t>(place); i < waiting_.size(); ++i)
    rows -= waiting_[i]->rows;
  return rows / options_.max_batch_size;
}

ResourceExhausted WaitingRequests::full() const {
  return ResourceExhausted(
      "The batch scheduling queue to which this task was submitted is full; currently {} "
      "requests wait and {} may. Try again later.",
      waiting_.size(), options_.max_waiting);
}

ResourceExhausted WaitingRequests::full_for(Clock::duration time) const {
  return ResourceExhausted(
      "The batch scheduling queue to which this task was submitted is full; currently {} "
      "requests wait, which takes {:.0f} ms, and the deadline of this one is before that. Try "
      "again later.",
      waiting_.size(), std::chrono::duration<double, std::milli>(time).count());
}

// After all of its level.
std::ptrdiff_t WaitingRequests::place_of(std::uint64_t level) const {
  // Mostly the last: the others are not looked at, which other threads have made.
  if (waiting_.empty() || waiting_.back()->level <= level) return std::ssize(waiting_);
  const auto level_of_ticket = [](const auto& ticket) { return ticket->level; };
  return std::ranges::upper_bound(waiting_, level, {}, level_of_ticket) - waiting_.begin();
}

std::unique_ptr<BatchTicket> WaitingRequests::enter(std::unique_ptr<BatchTicket> ticket) {
  const std::ptrdiff_t place = place_of(ticket->level);
  if (options_.refuse_large && ticket->rows > options_.max_batch_size) {
    const InvalidArgument failure("Task size {} is larger than maximum input batch size {}",
                                  ticket->rows, options_.max_batch_size);
    return refused(std::move(ticket), failure);
  }
  if (is_too_late(*ticket, ticket->since)) return refused(std::move(ticket), late());
  const auto wait = times_.until_begun(batches_before(place), ticket->since);
  if (is_too_late(*ticket, ticket->since, wait)) {
    return refused(std::move(ticket), full_for(wait));
  }
  std::unique_ptr<BatchTicket> dropped;
  if (waiting_.size() >= options_.max_waiting) {
    if (place == std::ssize(waiting_)) return refused(std::move(ticket), full());
    dropped = refused(std::move(waiting_.back()), full());
    waiting_rows_ -= dropped->rows;
    waiting_.pop_back();
  }
  waiting_rows_ += ticket->rows;
  waiting_.insert(waiting_.begin() + place, std::move(ticket));
  return dropped;
}

std::unique_ptr<BatchTicket> WaitingRequests::take_out(std::unique_ptr<BatchTicket>& place) {
  waiting_rows_ -= place->rows;
  return std::move(place);
}

// Closes the gaps that take_out() has left among the first so many. Those after them are not
// touched: under overload there are many, and other threads have made them.
void WaitingRequests::close_gaps(std::size_t count) {
  const auto begin = waiting_.begin();
  const auto is_gap = [](const auto& place) { return place == nullptr; };
  const auto kept =
      std::remove_if(std::make_reverse_iterator(begin + static_cast<std::ptrdiff_t>(count)),
                     std::make_reverse_iterator(begin), is_gap);
  waiting_.erase(begin, kept.base());
  if (waiting_.empty()) times_.nothing_waits();
}

BatchTickets WaitingRequests::take(BatchTickets& refusals) {
  BatchTickets batch;
  std::int64_t rows = 0;
  const auto now = Clock::now();
  std::size_t seen = 0;
  for (; seen < waiting_.size(); ++seen) {
    std::unique_ptr<BatchTicket>& ticket = waiting_[seen];
    if (is_too_late(*ticket, now)) {
      refusals.push_back(refused(take_out(ticket), late()));
      continue;
    }
    if (!batch.empty()) {
      const BatchTicket& first = *batch.front();
      if (!first.joinable || rows + ticket->rows > options_.max_batch_size) break;
      if (!ticket->joinable || !can_be_joined(first.inputs, ticket->inputs)) continue;
    }
    ticket->answer.queued = now - ticket->since;
    rows += ticket->rows;
    batch.push_back(take_out(ticket));
  }
  close_gaps(seen);
  if (!batch.empty()) times_.begin(now, /*others_wait=*/!waiting_.empty());
  return batch;
}

void WaitingRequests::take_late(Clock::time_point now, BatchTickets& refusals) {
  for (std::unique_ptr<BatchTicket>& ticket : waiting_) {
    if (ticket->deadline.time() > now) continue;
    refusals.push_back(refused(take_out(ticket), late()));
  }
  close_gaps(waiting_.size());
}

bool WaitingRequests::is_slow(Clock::time_point now) const { return times_.may_take(kLong, now); }

bool WaitingRequests::is_beside(Clock::time_point now) const {
  const bool is_behind = batches_before(std::ssize(waiting_)) > 0;
  return times_.may_take(is_behind ? Clock::duration(kLongWhenBehind) : kLong, now);
}

}  // namespace muster::serving
