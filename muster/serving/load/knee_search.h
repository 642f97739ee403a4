#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::serving {

/// A rate that was tried, and what came of it.
struct RateOutcome {
  double rate = 0;
  double p99_seconds = 0;
  /// Share of the requests that failed, from 0 to 1.
  double error_share = 0;
  /// Requests that were due in the measured time, and those that had an answer or an error by its
  /// end.
  double requests = 0;
  double answered = 0;
};

struct KneeBounds {
  double most_p99_seconds = 0.1;
  double most_error_share = 0.001;
  /// A server that answers less than this share of what it is asked in the measured time does not
  /// keep up: the requests that wait grow without end. A few always wait.
  double least_answered_share = 0.9;
  double most_waiting = 10;
};

/// Which bound an outcome passes, in words; nothing where it keeps all.
std::optional<std::string> passed_bound(const RateOutcome& outcome, const KneeBounds& bounds);

struct KneeOptions {
  double first_rate = 100;
  /// No higher rate is tried.
  double most_rate = 1e6;
  /// The rate is multiplied by this until a bound is passed.
  double growth = 2;
  /// Afterwards the range in which the knee lies is halved until its ends are this near to each
  /// other.
  double precision = 0.05;
  KneeBounds bounds{};
};

/// Finds the highest rate at which a server keeps the bounds: the knee of its latency over rate. A
/// rate that passes a bound is tried again, and is too much when it does so twice: a moment in
/// which the machine did something else is no knee. The caller tries each next_rate() and adds what
/// came of it.
class KneeSearch {
 public:
  /// Throws InvalidArgument for options that cannot be.
  explicit KneeSearch(const KneeOptions& options);

  /// The rate to try; nothing when the search is over.
  std::optional<double> next_rate() const { return next_; }
  void add(const RateOutcome& outcome);

  /// The highest rate that has kept the bounds, and the lowest that has not. No knee: not even the
  /// lowest rate that was tried has; no failure: the highest that may be tried has.
  const std::optional<double>& knee() const { return good_; }
  const std::optional<double>& lowest_failure() const { return bad_; }

 private:
  void decide();

  KneeOptions options_;
  std::optional<double> next_;
  std::optional<double> good_{};
  std::optional<double> bad_{};
  /// The rate that has passed a bound once.
  std::optional<double> doubted_{};
  int rates_below_first_ = 0;
};

}  // namespace muster::serving
