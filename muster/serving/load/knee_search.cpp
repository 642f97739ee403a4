#include "muster/serving/load/knee_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

// If the first rate is too much, lower ones are tried, but not for ever.
constexpr int kMostRatesBelowFirst = 8;

}  // namespace

std::optional<std::string> passed_bound(const RateOutcome& outcome, const KneeBounds& bounds) {
  if (outcome.error_share > bounds.most_error_share) {
    return fmt::format("{:.3g} % of the requests failed, and {:.3g} % may",
                       100 * outcome.error_share, 100 * bounds.most_error_share);
  }
  if (outcome.p99_seconds > bounds.most_p99_seconds) {
    return fmt::format("p99 was {:.4g} ms, and may be {:.4g} ms", 1e3 * outcome.p99_seconds,
                       1e3 * bounds.most_p99_seconds);
  }
  if (outcome.answered + bounds.most_waiting < bounds.least_answered_share * outcome.requests) {
    return fmt::format("{:.0f} of {:.0f} requests were answered in the measured time",
                       outcome.answered, outcome.requests);
  }
  return std::nullopt;
}

KneeSearch::KneeSearch(const KneeOptions& options) : options_(options) {
  if (!(options.first_rate > 0)) {
    throw InvalidArgument("the first rate must be positive: {}", options.first_rate);
  }
  if (!(options.most_rate >= options.first_rate)) {
    throw InvalidArgument("the highest rate, {}, must not be below the first, {}",
                          options.most_rate, options.first_rate);
  }
  if (!(options.growth > 1)) {
    throw InvalidArgument("the growth of the rate must be above 1: {}", options.growth);
  }
  if (!(options.precision > 0)) {
    throw InvalidArgument("the precision must be positive: {}", options.precision);
  }
  next_ = options.first_rate;
}

void KneeSearch::add(const RateOutcome& outcome) {
  if (passed_bound(outcome, options_.bounds)) {
    if (doubted_ != outcome.rate) {
      doubted_ = outcome.rate;
      next_ = outcome.rate;
      return;
    }
    bad_ = bad_ ? std::min(*bad_, outcome.rate) : outcome.rate;
  } else {
    good_ = good_ ? std::max(*good_, outcome.rate) : outcome.rate;
  }
  decide();
}

void KneeSearch::decide() {
  next_.reset();
  if (!bad_) {
    if (*good_ < options_.most_rate) next_ = std::min(*good_ * options_.growth, options_.most_rate);
  } else if (!good_) {
    if (rates_below_first_++ < kMostRatesBelowFirst) next_ = *bad_ / options_.growth;
  } else if (*bad_ > *good_ * (1 + options_.precision)) {
    next_ = std::sqrt(*good_ * *bad_);
    // Whole rates are easier to read, and nearer to each other than the precision.
    if (*next_ * options_.precision >= 4) next_ = std::round(*next_);
  }
}

}  // namespace muster::serving
