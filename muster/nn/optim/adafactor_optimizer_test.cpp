#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/optim/update_reference_internal.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using testing::UpdateReference;

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// Algorithms 4 and 5 of the paper as torch.optim.Adafactor has them, in double, for matrices of
// [rows, columns] one after the other; no rows: a vector.
struct AdafactorInDouble {
  std::size_t rows, columns;
  std::vector<double> row_moments{}, column_moments{}, moments{};

  double estimate(std::size_t matrix, std::size_t i, std::size_t j) const {
    double mean = 0;
    for (std::size_t k = 0; k < rows; ++k) mean += row_moments[matrix * rows + k];
    mean /= static_cast<double>(rows);
    return row_moments[matrix * rows + i] * column_moments[matrix * columns + j] / mean;
  }
  void move(const std::vector<double>& g, double weight) {
    const std::size_t matrices = g.size() / (rows * columns);
    std::vector<double> of_rows(matrices * rows), of_columns(matrices * columns);
    for (std::size_t i = 0; i < g.size(); ++i) {
      const std::size_t matrix = i / (rows * columns);
      const std::size_t row = i / columns % rows;
      of_rows[matrix * rows + row] += g[i] * g[i] / static_cast<double>(columns);
      of_columns[matrix * columns + i % columns] += g[i] * g[i] / static_cast<double>(rows);
    }
    row_moments.resize(of_rows.size());
    column_moments.resize(of_columns.size());
    for (std::size_t i = 0; i < of_rows.size(); ++i) {
      row_moments[i] = (1 - weight) * row_moments[i] + weight * of_rows[i];
    }
    for (std::size_t i = 0; i < of_columns.size(); ++i) {
      column_moments[i] = (1 - weight) * column_moments[i] + weight * of_columns[i];
    }
  }
  void operator()(UpdateReference& variable, const std::vector<double>& g, std::int64_t step) {
    const auto t = static_cast<double>(step);
    const double weight = std::pow(t, -0.8);
    std::vector<double> update(g.size());
    moments.resize(g.size());
    if (rows > 0) move(g, weight);
    for (std::size_t i = 0; i < g.size(); ++i) {
      moments[i] = rows > 0 ? estimate(i / (rows * columns), i / columns % rows, i % columns)
                            : (1 - weight) * moments[i] + weight * g[i] * g[i];
      update[i] = g[i] / std::sqrt(moments[i]);
    }
    const double rate = std::max(1e-3, rms(variable.values)) * std::min(0.02, 1 / std::sqrt(t));
    const double clip = std::max(1.0, rms(update));
    for (std::size_t i = 0; i < g.size(); ++i) {
      variable.values[i] = variable.values[i] * (1 - 0.02 * 0.1) - rate / clip * update[i];
    }
  }
};

const Optimizer kAdafactor = adafactor({.learning_rate = 0.02, .weight_decay = 0.1});

TEST(Adafactor, IsThePapersAfterAHundredSteps) {
  testing::expect_as_reference(kAdafactor, {7, 5}, AdafactorInDouble{.rows = 7, .columns = 5});
  testing::expect_as_reference(kAdafactor, {2, 3, 4}, AdafactorInDouble{.rows = 3, .columns = 4});
  testing::expect_as_reference(kAdafactor, {9}, AdafactorInDouble{.rows = 0, .columns = 9});
}

TEST(Adafactor, KeepsMomentsOfRowsAndColumnsAlone) {
  const auto& slots = std::get<CustomOptions>(kAdafactor.options()).slots;
  const std::vector<std::int64_t> kernel{2, 30, 40};
  EXPECT_THAT(slots[0].shape_of(kernel), ElementsAre(2, 30, 1));
  EXPECT_THAT(slots[1].shape_of(kernel), ElementsAre(2, 1, 40));
  const std::vector<std::int64_t> bias{7};
  EXPECT_THAT(slots[0].shape_of(bias), ElementsAre(7));
  EXPECT_THAT(slots[1].shape_of(bias), ElementsAre(1));
}

TEST(Adafactor, IsDescribedFoundByNameAndChecked) {
  EXPECT_EQ(optimizer_by_name("torch.optim.Adafactor", 0.5).description(),
            "adafactor(learning_rate = constant 0.5, beta2_decay = -0.8, epsilon1 = "
            "1.1920928955078125e-07, epsilon2 = 0.001, clip_threshold = 1, weight_decay = 0)");
  EXPECT_THROW(adafactor({.beta2_decay = 0.8}), InvalidArgument);
  EXPECT_THROW(adafactor({.clip_threshold = 0}), InvalidArgument);
}

}  // namespace
}  // namespace muster
