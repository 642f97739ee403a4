#include <algorithm>

#include "muster/serving/core/batch_times.h"

namespace muster::serving {
namespace {

using Clock = BatchTimes::Clock;

// How much a new value moves an average: of what one batch takes, and of the pace of many, of which
// the fastest moments would let in too many.
constexpr int kPart = 8;
constexpr int kPartOfPace = 64;
// Inverse of the share of a thread's time that surprises may take.
constexpr int kPartOfSurprises = 100;
// Others than the batch itself may be what takes less than that: a busy machine.
constexpr std::chrono::milliseconds kLeastSurprise{20};

}  // namespace

bool BatchTimes::is_old(Clock::time_point measured, Clock::time_point now) const {
  const Clock::duration many = kPart * usual_.value_or(Clock::duration());
  return now - measured > std::clamp<Clock::duration>(many, kLeastBelieved, kMostBelieved);
}

void BatchTimes::begin(Clock::time_point now, bool others_wait) {
  // Where it is too long, other things than requests were waited for.
  if (last_begin_ && !is_old(*last_begin_, now)) {
    if (is_old(pace_at_, now)) paces_ = 0;
    paces_ = std::min(paces_ + 1, kPartOfPace);
    pace_ += (now - *last_begin_ - pace_) / paces_;
    pace_at_ = now;
  }
  last_begin_.reset();
  if (others_wait) last_begin_ = now;
  running_.push_back(now);
}

void BatchTimes::end(Clock::time_point now, Clock::duration took) {
  // The first is no surprise.
  const bool is_longest = took >= longest_ || now - longest_at_ > kPartOfSurprises * longest_;
  if (usual_ && is_longest) {
    longest_ = took;
    longest_at_ = now;
  }
  // From zero: the first is often slow.
  Clock::duration before = usual_.value_or(Clock::duration());
  if (is_old(usual_at_, now - took)) before = std::min(before, took);
  usual_ = before + (took - before) / kPart;
  usual_at_ = now;
  // The last that had begun by then.
  auto its = std::ranges::upper_bound(running_, now - took);
  if (its != running_.begin()) --its;
  running_.erase(its);
}

bool BatchTimes::may_take(Clock::duration time, Clock::time_point now) const {
  if (!usual_ || *usual_ > time) return true;
  if (!running_.empty() && now - running_.front() > time) return true;
  return longest_ > std::max<Clock::duration>(time, kLeastSurprise) &&
         now - longest_at_ <= kPartOfSurprises * longest_;
}

Clock::duration BatchTimes::of_one(Clock::time_point now) const {
  if (running_.empty() && is_old(usual_at_, now)) return {};
  return usual_.value_or(Clock::duration());
}

Clock::duration BatchTimes::until_begun(std::int64_t batches, Clock::time_point now) const {
  const Clock::duration one = of_one(now);
  if (one == Clock::duration::zero()) return {};
  const bool has_pace = paces_ > 0 && !is_old(pace_at_, now);
  const Clock::duration wait = has_pace ? batches * pace_ : batches / slots_ * one;
  return wait + wait / 4;
}

}  // namespace muster::serving
