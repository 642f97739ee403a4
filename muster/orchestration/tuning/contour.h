#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/orchestration/tuning/study.h"

namespace muster::tuning {

/// The metric over two parameters, as a Gaussian process over all trials expects it; the other
/// parameters are those of the best trial.
struct Contour {
  /// The values of a parameter along its axis, evenly apart on its scale.
  struct Axis {
    std::string parameter{};
    std::vector<std::string> values{};
  };
  /// A trial, and where it lies on both axes, from 0 to 1.
  struct Place {
    std::int64_t trial = 0;
    double x = 0;
    double y = 0;
    double value = 0;
  };
  Axis x{};
  Axis y{};
  /// Row by row: all x of the first y, and so on.
  std::vector<double> means{};
  std::vector<double> deviations{};
  std::vector<Place> trials{};
};

inline constexpr std::size_t kContourPlaces = 24;

/// Nothing where fewer than kLeastTrialsForImportances have a metric, or all have the same. Throws
/// NotFound for a parameter that the study does not have, InvalidArgument for one that is given
/// twice.
std::optional<Contour> contour(const Study& study, const std::string& x, const std::string& y);

}  // namespace muster::tuning
