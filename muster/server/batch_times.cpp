#include <algorithm>

#include "muster/server/batch_times_internal.h"

namespace muster::server {
namespace {

using Clock = BatchTimes::Clock;

// How much a new value moves an average.
constexpr int kPart = 8;

}  // namespace

bool BatchTimes::is_old(Clock::time_point measured, Clock::time_point now) const {
  const Clock::duration many = kPart * usual_.value_or(Clock::duration());
  return now - measured > std::clamp<Clock::duration>(many, kLeastBelieved, kMostBelieved);
}

void BatchTimes::begin(Clock::time_point now, bool others_wait) {
  if (last_begin_) {
    const Clock::duration since = now - *last_begin_;
    pace_ = pace_ ? *pace_ + (since - *pace_) / kPart : since;
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
  const bool has_pace = pace_ && !is_old(pace_at_, now);
  const Clock::duration wait = has_pace ? batches * *pace_ : batches / slots_ * one;
  return wait + wait / 4;
}

}  // namespace muster::server
