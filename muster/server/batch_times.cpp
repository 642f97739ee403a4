#include <algorithm>

#include "muster/server/batch_times_internal.h"

namespace muster::server {
namespace {

using Clock = BatchTimes::Clock;

// How much a new value moves an average: of what one batch takes, and of the pace of many, of which
// the fastest moments would let in too many.
constexpr int kPart = 8;
constexpr int kPartOfPace = 64;

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
  ++running_;
}

void BatchTimes::end(Clock::time_point now, Clock::duration took) {
  // From zero: the first is often slow.
  Clock::duration before = usual_.value_or(Clock::duration());
  if (is_old(usual_at_, now - took)) before = std::min(before, took);
  usual_ = before + (took - before) / kPart;
  usual_at_ = now;
  --running_;
}

Clock::duration BatchTimes::of_one(Clock::time_point now) const {
  if (running_ == 0 && is_old(usual_at_, now)) return {};
  return usual_.value_or(Clock::duration());
}

Clock::duration BatchTimes::until_begun(std::int64_t batches, Clock::time_point now) const {
  const Clock::duration one = of_one(now);
  if (one == Clock::duration::zero()) return {};
  const bool has_pace = paces_ > 0 && !is_old(pace_at_, now);
  const Clock::duration wait = has_pace ? batches * pace_ : batches / slots_ * one;
  return wait + wait / 4;
}

}  // namespace muster::server
