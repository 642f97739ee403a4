#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {

/// What is known of an earlier trial.
struct Observation {
  enum class Outcome { kRunning, kDone, kFailed };

  Point point{};
  Outcome outcome = Outcome::kRunning;
  /// What is to become small, of one that is done: the negated metric where the goal is a large
  /// one.
  double loss = 0;
};

/// Chooses the points of trials. What it says is a function of space, seed and history alone: a
/// study that was killed gets the same suggestions again. One searcher belongs to one thread.
class Searcher {
 public:
  virtual ~Searcher() = default;
  /// The next `count` points, for trials that run at the same time; fewer where a grid has no more.
  /// `history` has all trials so far, in the order of their numbers, running and failed ones too.
  virtual std::vector<Point> suggest(std::size_t count,
                                     std::span<const Observation> history) const = 0;
};

std::unique_ptr<Searcher> make_searcher(Algorithm algorithm, SearchSpace space, std::uint64_t seed);

}  // namespace muster::tuning
