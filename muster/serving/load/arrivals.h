#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/base/random.h"

namespace muster::serving {

/// How the requests of an open loop arrive: at equal distances, or at random as those of many
/// clients that do not know of each other.
enum class ArrivalPattern { kConstant, kPoisson };

/// The times at which requests are due, a function of pattern, rate and seed alone: on how many
/// threads a load runs changes nothing. Copying it copies the place.
class Arrivals {
 public:
  /// `per_second` must be positive.
  Arrivals(ArrivalPattern pattern, double per_second, std::uint64_t seed);

  /// The number of the next request, from 0, and when it is due after the begin.
  std::uint64_t index() const { return index_; }
  std::chrono::nanoseconds time() const { return std::chrono::nanoseconds(due_); }
  void advance();

 private:
  ArrivalPattern pattern_;
  double nanoseconds_between_;
  Random random_;
  std::uint64_t index_ = 0;
  double at_ = 0;
  std::int64_t due_ = 0;
};

/// Which of several models a request asks, by weight: a function of seed and number of the request.
class WeightedChoice {
 public:
  /// Throws InvalidArgument unless there are weights, none negative and their sum positive.
  WeightedChoice(const std::vector<double>& weights, std::uint64_t seed);
  std::size_t operator()(std::uint64_t index) const;

 private:
  std::vector<double> cumulative_{};
  std::uint64_t seed_;
};

}  // namespace muster::serving
