#include "muster/serving/load/arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster::serving {
namespace {

constexpr std::uint64_t kGapsKey = 0x61727269;
constexpr std::uint64_t kChoiceKey = 0x63686f69;
// A double up to this one is a number of nanoseconds.
constexpr double kLatest = 9e18;

}  // namespace

Arrivals::Arrivals(ArrivalPattern pattern, double per_second, std::uint64_t seed)
    : pattern_(pattern), nanoseconds_between_(1e9 / per_second), random_(seed, kGapsKey, 0) {
  if (!(per_second > 0)) throw InvalidArgument("the rate must be positive: {}", per_second);
  if (pattern_ == ArrivalPattern::kPoisson) advance();
  index_ = 0;
}

void Arrivals::advance() {
  ++index_;
  if (pattern_ == ArrivalPattern::kConstant) {
    at_ = static_cast<double>(index_) * nanoseconds_between_;
  } else {
    at_ += -std::log1p(-random_.uniform()) * nanoseconds_between_;
  }
  due_ = at_ < kLatest ? static_cast<std::int64_t>(at_) : std::numeric_limits<std::int64_t>::max();
}

WeightedChoice::WeightedChoice(const std::vector<double>& weights, std::uint64_t seed)
    : seed_(derive_key(seed, kChoiceKey)) {
  double sum = 0;
  cumulative_.reserve(weights.size());
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      throw InvalidArgument("the weight of a model must not be negative: {}", weight);
    }
    cumulative_.push_back(sum += weight);
  }
  if (!(sum > 0)) throw InvalidArgument("the weights of the models must not all be zero");
}

std::size_t WeightedChoice::operator()(std::uint64_t index) const {
  if (cumulative_.size() == 1) return 0;
  const auto bits = philox(seed_, index, 0);
  const double share =
      static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) * 0x1.0p-53;
  const auto found = std::ranges::upper_bound(cumulative_, share * cumulative_.back());
  return std::min(static_cast<std::size_t>(found - cumulative_.begin()), cumulative_.size() - 1);
}

}  // namespace muster::serving
