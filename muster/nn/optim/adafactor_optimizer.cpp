#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "muster/nn/optim/named_optimizer_internal.h"
#include "muster/nn/optim/whole_variable_internal.h"

namespace muster {
namespace {

struct AdafactorConstants {
  double beta2_decay, epsilon1, epsilon2, clip_threshold, weight_decay;
};

using VariableShape = std::span<const std::int64_t>;

// Second moments of rows: the last dimension is 1. A vector has a moment an element.
std::vector<std::int64_t> shape_of_rows(VariableShape variable) {
  std::vector<std::int64_t> shape(variable.begin(), variable.end());
  if (shape.size() >= 2) shape.back() = 1;
  return shape;
}

// Those of columns. That of a vector is one number, which is not used: checkpoints have no tensors
// without elements.
std::vector<std::int64_t> shape_of_columns(VariableShape variable) {
  std::vector<std::int64_t> shape(variable.begin(), variable.end());
  if (shape.size() < 2) return std::vector<std::int64_t>(shape.size(), 1);
  shape[shape.size() - 2] = 1;
  return shape;
}

/// A matrix of the gradient with its moments, whose estimate of each element's is written.
struct FactoredMatrix {
  std::size_t rows, columns;
  const float* gradients;
  float* row_moments;
  float* column_moments;
  float* estimate;
};

void move_factors(const FactoredMatrix& matrix, double weight) {
  const auto [rows, columns, gradients, row_moments, column_moments, estimate] = matrix;
  const std::size_t grain_of_a_row = std::max<std::size_t>(1, columns);
  const auto move = [weight](float& moment, double mean) {
    moment += static_cast<float>(weight) * (static_cast<float>(mean) - moment);
  };
  internal::for_elements(rows * grain_of_a_row, [&, g = gradients, c = columns, r = row_moments](
                                                    std::size_t begin, std::size_t end) {
    // The rows that begin in this part.
    for (std::size_t row = (begin + grain_of_a_row - 1) / grain_of_a_row;
         row * grain_of_a_row < end; ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < c; ++j) {
        const double value = g[row * c + j];
        sum += value * value;
      }
      move(r[row], sum / static_cast<double>(c));
    }
  });
  std::vector<double> sums(columns, 0.0);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const double value = gradients[i * columns + j];
      sums[j] += value * value;
    }
  }
  for (std::size_t j = 0; j < columns; ++j) {
    move(column_moments[j], sums[j] / static_cast<double>(rows));
  }
}

// The outer product of both moments, over the mean of those of rows.
void estimate_moments(const FactoredMatrix& matrix, double epsilon1) {
  double mean = 0;
  for (std::size_t i = 0; i < matrix.rows; ++i) mean += matrix.row_moments[i];
  mean = std::max(mean / static_cast<double>(matrix.rows), epsilon1);
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    const auto of_row = static_cast<float>(matrix.row_moments[i] / mean);
    for (std::size_t j = 0; j < matrix.columns; ++j) {
      matrix.estimate[i * matrix.columns + j] = of_row * matrix.column_moments[j];
    }
  }
}

// The estimates of the elements' second moments, after this step's gradient.
std::vector<float> second_moments(const AdafactorConstants& k, const ElementUpdate& u,
                                  double weight) {
  std::vector<float> estimate(u.values.size());
  if (u.shape.size() < 2) {
    for (std::size_t i = 0; i < u.values.size(); ++i) {
      const float g = u.gradients[i];
      float& moment = u.slots[0][i];
      moment += static_cast<float>(weight) * (g * g - moment);
      estimate[i] = moment;
    }
    return estimate;
  }
  const auto rows = static_cast<std::size_t>(u.shape[u.shape.size() - 2]);
  const auto columns = static_cast<std::size_t>(u.shape.back());
  for (std::size_t first = 0, matrix = 0; first < u.values.size();
       first += rows * columns, ++matrix) {
    const FactoredMatrix one{.rows = rows,
                             .columns = columns,
                             .gradients = &u.gradients[first],
                             .row_moments = &u.slots[0][matrix * rows],
                             .column_moments = &u.slots[1][matrix * columns],
                             .estimate = &estimate[first]};
    move_factors(one, weight);
    estimate_moments(one, k.epsilon1);
  }
  return estimate;
}

void update_by_adafactor(const AdafactorConstants& k, const ElementUpdate& u) {
  if (u.values.empty()) return;
  const auto t = static_cast<double>(u.step + 1);
  const double root_of_count = std::sqrt(static_cast<double>(u.values.size()));
  const double size = internal::norm_of(u.values) / root_of_count;
  const double rate = std::max(k.epsilon2, size) * std::min(u.learning_rate, 1.0 / std::sqrt(t));
  std::vector<float> update = second_moments(k, u, std::pow(t, k.beta2_decay));
  const auto least = static_cast<float>(k.epsilon1 * k.epsilon1);
  internal::for_elements(update.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      // A moment that is no number is not less, and reaches the weight.
      const float moment = update[i] < least ? least : update[i];
      update[i] = u.gradients[i] / std::sqrt(moment);
    }
  });
  const double length = internal::norm_of(update) / root_of_count;
  const auto factor = static_cast<float>(rate / std::max(1.0, length / k.clip_threshold));
  const auto decay = static_cast<float>(u.learning_rate * k.weight_decay);
  internal::for_elements(update.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      u.values[i] -= decay * u.values[i] + factor * update[i];
    }
  });
}

}  // namespace

Optimizer adafactor(AdafactorOptions options) {
  const auto require = [](bool holds, const char* option, const char* rule, double value) {
    internal::require_option(holds, "adafactor", option, rule, value);
  };
  require(options.beta2_decay < 0, "beta2_decay", "negative", options.beta2_decay);
  require(options.epsilon1 > 0, "epsilon1", "positive", options.epsilon1);
  require(options.epsilon2 >= 0, "epsilon2", "not negative", options.epsilon2);
  require(options.clip_threshold > 0, "clip_threshold", "positive", options.clip_threshold);
  require(options.weight_decay >= 0, "weight_decay", "not negative", options.weight_decay);
  const AdafactorConstants constants{.beta2_decay = options.beta2_decay,
                                     .epsilon1 = options.epsilon1,
                                     .epsilon2 = options.epsilon2,
                                     .clip_threshold = options.clip_threshold,
                                     .weight_decay = options.weight_decay};
  return custom_optimizer(
      {.name = "adafactor",
       .learning_rate = std::move(options.learning_rate),
       .constants = {{"beta2_decay", options.beta2_decay},
                     {"epsilon1", options.epsilon1},
                     {"epsilon2", options.epsilon2},
                     {"clip_threshold", options.clip_threshold},
                     {"weight_decay", options.weight_decay}},
       .slots = {{"Adafactor", 0, shape_of_rows}, {"Adafactor_1", 0, shape_of_columns}},
       .update = [constants](const ElementUpdate& u) { update_by_adafactor(constants, u); },
       .whole_variables = true});
}

namespace internal {

NamedOptimizer adafactor_named_optimizer() {
  return {.name = "adafactor",
          .make = [](LearningRate rate) { return adafactor({.learning_rate = std::move(rate)}); },
          .default_rate = 0.01};
}

}  // namespace internal
}  // namespace muster
