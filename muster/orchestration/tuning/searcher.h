#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {

/// An earlier trial, as a searcher sees it.
struct Observation {
  enum class Outcome { kRunning, kDone, kFailed };

  Point point{};
  Outcome outcome = Outcome::kRunning;
  /// The objective of a trial that is done, to be minimised: the metric, negated where the goal is
  /// to maximise it.
  double loss = 0;
};

/// Chooses the points of trials. Its suggestions are a function of space, seed and history alone: a
/// study that was killed gets the same suggestions again. One searcher belongs to one thread.
class Searcher {
 public:
  virtual ~Searcher() = default;
  /// The next `count` points, for trials that run at the same time; fewer where a grid has no more.
  /// `history` has all trials so far, in the order of their numbers, running and failed ones too.
  virtual std::vector<Point> suggest(std::size_t count,
                                     std::span<const Observation> history) const = 0;
};

}  // namespace muster::tuning
