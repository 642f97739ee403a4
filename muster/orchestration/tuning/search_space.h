#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/orchestration/tuning/hyperparameter_spec.h"

namespace muster::tuning {

/// A place in the unit cube: a coordinate in 0..1 per parameter, NaN for a child whose parent has
/// another value.
using Point = std::vector<double>;

/// A trial's values, as its flags have them.
using Values = std::map<std::string, std::string>;

/// The map between the values of parameters and the unit cube. A DOUBLE is laid out by its scale;
/// an INTEGER too, with half a unit more at both ends, so that all values have their full share; a
/// DISCRETE is where its scale puts it; the categories have places of equal size.
class SearchSpace {
 public:
  explicit SearchSpace(std::vector<ParameterSpec> parameters);

  std::size_t size() const { return parameters_.size(); }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }

  bool is_continuous(std::size_t parameter) const;
  bool is_categorical(std::size_t parameter) const;
  /// How many values a parameter has that is not continuous.
  std::uint64_t choices(std::size_t parameter) const;
  double coordinate_of_choice(std::size_t parameter, std::uint64_t choice) const;
  std::uint64_t nearest_choice(std::size_t parameter, double coordinate) const;

  /// The nearest point that a trial can have.
  Point snap(Point point) const;
  /// Maps independent uniform numbers to a point in which all values of a parameter are as likely.
  Point from_uniform(Point uniform) const;

  /// The coordinate at which a number is `factor` times as large, within its range. Of values that
  /// are counted, another one at least; of DISCRETE and CATEGORICAL the next above a factor of 1,
  /// the one before below it. At an end it stays.
  double scaled(std::size_t parameter, double coordinate, double factor) const;

  Values values_of(const Point& point) const;
  /// Throws InvalidArgument for a value that is missing or outside.
  Point point_of(const Values& values) const;

 private:
  double value_at(std::size_t parameter, double coordinate) const;
  double coordinate_of(std::size_t parameter, double value) const;
  std::string text_at(std::size_t parameter, double coordinate) const;
  double coordinate_of_text(std::size_t parameter, const std::string& text) const;
  bool is_active(std::size_t parameter, const Point& point) const;

  std::vector<ParameterSpec> parameters_;
};

}  // namespace muster::tuning
