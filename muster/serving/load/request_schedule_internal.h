#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "muster/serving/load/arrivals.h"
#include "muster/serving/load/load_run.h"

namespace muster::serving {

/// A request that is due. Times are nanoseconds since the begin of the load.
struct DueRequest {
  std::int64_t due = 0;
  std::uint64_t index = 0;
};

/// When a thread's requests are due: every `threads`-th of an open loop's arrivals, or one more as
/// soon as fewer than its share are outstanding.
class RequestSchedule {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  /// One take() gives no more, so that a rate that is too high for the thread does not keep it from
  /// its connections.
  static constexpr std::size_t kMostTaken = 65'536;

  RequestSchedule(const LoadPlan& plan, std::size_t thread)
      : threads_(plan.threads),
        thread_(thread),
        end_((plan.warm_up + plan.duration).count()),
        most_requests_(plan.most_requests),
        concurrency_(plan.concurrency / plan.threads +
                     (thread < plan.concurrency % plan.threads ? 1 : 0)) {
    if (plan.rate) arrivals_.emplace(plan.arrivals, *plan.rate, plan.seed);
    pass_over_others();
  }

  std::size_t concurrency() const { return concurrency_; }
  /// Whether a request follows, now or later.
  bool has_more(std::int64_t now) const {
    if (most_requests_ && index() >= *most_requests_) return false;
    return arrivals_ ? arrivals_->time().count() < end_ : now < end_ && concurrency_ > 0;
  }
  /// When the next one is due if nothing else happens.
  std::int64_t next(std::int64_t now) const {
    return arrivals_ && has_more(now) ? arrivals_->time().count() : kNever;
  }
  /// Takes those that are due by now, at most kMostTaken, where `outstanding` are due or in flight
  /// already.
  void take(std::int64_t now, std::size_t outstanding, std::deque<DueRequest>& due) {
    const std::size_t most = due.size() + kMostTaken;
    while (due.size() < most && has_more(now) &&
           (arrivals_ ? arrivals_->time().count() <= now : outstanding < concurrency_)) {
      due.push_back({.due = arrivals_ ? arrivals_->time().count() : now, .index = index()});
      ++outstanding;
      ++begun_;
      if (arrivals_) arrivals_->advance();
      pass_over_others();
    }
  }

 private:
  std::uint64_t index() const {
    return arrivals_ ? arrivals_->index() : begun_ * threads_ + thread_;
  }
  void pass_over_others() {
    while (arrivals_ && arrivals_->index() % threads_ != thread_) arrivals_->advance();
  }

  std::size_t threads_;
  std::size_t thread_;
  std::int64_t end_;
  std::optional<std::uint64_t> most_requests_;
  std::size_t concurrency_;
  std::optional<Arrivals> arrivals_{};
  std::uint64_t begun_ = 0;
};

}  // namespace muster::serving
