#include "muster/orchestration/tuning/contour.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/orchestration/tuning/gaussian_process_internal.h"
#include "muster/orchestration/tuning/importance.h"
#include "muster/orchestration/tuning/search_space.h"

namespace muster::tuning {
namespace {

// A fit takes time with the cube of these: those that came last tell the most of where it is good.
constexpr std::size_t kMostModelled = 150;

struct Measured {
  std::int64_t trial = 0;
  Point point{};
  double value = 0;
};

// A child without a value is in the middle.
Point whole_point(Point point) {
  for (double& coordinate : point) {
    if (std::isnan(coordinate)) coordinate = 0.5;
  }
  return point;
}

std::vector<Measured> measured_trials(const Study& study, const SearchSpace& space) {
  std::vector<Measured> measured;
  for (const Trial& trial : study.trials) {
    if (!trial.final_metric || !std::isfinite(trial.final_metric->value)) continue;
    measured.push_back({.trial = trial.id,
                        .point = whole_point(space.point_of(trial.values)),
                        .value = trial.final_metric->value});
  }
  if (measured.size() > kMostModelled) {
    measured.erase(measured.begin(), measured.end() - kMostModelled);
  }
  return measured;
}

std::size_t place_of(const SearchSpace& space, const std::string& name) {
  const auto found = std::ranges::find(space.parameters(), name, &ParameterSpec::name);
  if (found == space.parameters().end()) throw NotFound("the study has no parameter {}", name);
  return static_cast<std::size_t>(found - space.parameters().begin());
}

double coordinate_at(std::size_t place) {
  return static_cast<double>(place) / static_cast<double>(kContourPlaces - 1);
}

Contour::Axis axis_of(const SearchSpace& space, std::size_t parameter, const Point& best) {
  Contour::Axis axis{.parameter = space.parameters()[parameter].name};
  for (std::size_t i = 0; i < kContourPlaces; ++i) {
    Point point = best;
    point[parameter] = coordinate_at(i);
    const Values values = space.values_of(space.snap(point));
    const auto found = values.find(axis.parameter);
    axis.values.push_back(found == values.end() ? std::string() : found->second);
  }
  return axis;
}

/// Values of trials with mean 0 and variance 1, as the model wants them.
struct Standard {
  double mean = 0;
  double deviation = 0;

  explicit Standard(const std::vector<Measured>& measured) {
    const auto count = static_cast<double>(measured.size());
    for (const Measured& one : measured) mean += one.value / count;
    for (const Measured& one : measured) {
      deviation += (one.value - mean) * (one.value - mean) / count;
    }
    deviation = std::sqrt(deviation);
  }
};

GaussianProcess model_of(const SearchSpace& space, const std::vector<Measured>& measured,
                         const Standard& standard) {
  GaussianProcess::Data data;
  for (std::size_t i = 0; i < space.size(); ++i) {
    data.is_categorical.push_back(space.is_categorical(i));
  }
  for (const Measured& one : measured) {
    data.points.insert(data.points.end(), one.point.begin(), one.point.end());
    data.values.push_back((one.value - standard.mean) / standard.deviation);
  }
  return GaussianProcess(std::move(data));
}

}  // namespace

std::optional<Contour> contour(const Study& study, const std::string& x, const std::string& y) {
  const SearchSpace space(study.spec.params);
  const std::size_t column = place_of(space, x);
  const std::size_t row = place_of(space, y);
  if (column == row) throw InvalidArgument("a contour is of two parameters, not of {} alone", x);
  const std::vector<Measured> measured = measured_trials(study, space);
  const Trial* const best_trial = study.best();
  if (measured.size() < kLeastTrialsForImportances || best_trial == nullptr) return std::nullopt;
  const Standard standard(measured);
  if (!(standard.deviation > 0)) return std::nullopt;
  const Point best = whole_point(space.point_of(best_trial->values));
  const GaussianProcess model = model_of(space, measured, standard);
  std::vector<double> points;
  for (std::size_t i = 0; i < kContourPlaces * kContourPlaces; ++i) {
    Point point = best;
    point[column] = coordinate_at(i % kContourPlaces);
    point[row] = coordinate_at(i / kContourPlaces);
    point = whole_point(space.snap(std::move(point)));
    points.insert(points.end(), point.begin(), point.end());
  }
  Contour found{.x = axis_of(space, column, best), .y = axis_of(space, row, best)};
  model.predict(points, found.means, found.deviations);
  for (double& mean : found.means) mean = standard.mean + mean * standard.deviation;
  for (double& deviation : found.deviations) deviation *= standard.deviation;
  for (const Measured& one : measured) {
    found.trials.push_back(
        {.trial = one.trial, .x = one.point[column], .y = one.point[row], .value = one.value});
  }
  return found;
}

}  // namespace muster::tuning
