#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/orchestration/tuning/searcher.h"

namespace muster::tuning {

/// The point with this number of a scrambled Halton sequence: any number of them covers the cube
/// more evenly than random ones. Digits are permuted by the seed, in every place of every base
/// differently.
Point halton_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed);

/// Independent uniform coordinates.
Point random_point(std::size_t dimensions, std::uint64_t number, std::uint64_t seed);

/// `count` calls of `next(history)`, each of which sees the points before it as running trials.
template <typename Next>
std::vector<Point> one_by_one(std::size_t count, std::span<const Observation> history, Next next) {
  std::vector<Observation> known(history.begin(), history.end());
  std::vector<Point> points;
  for (std::size_t i = 0; i < count; ++i) {
    points.push_back(next(std::span<const Observation>(known)));
    known.push_back({.point = points.back()});
  }
  return points;
}

}  // namespace muster::tuning
