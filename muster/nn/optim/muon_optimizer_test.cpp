#include <gmock/gmock.h>

#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/optim/update_reference_internal.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using testing::UpdateReference;
using Doubles = std::vector<double>;

// c = a b for a [m, k], b [k, n].
Doubles multiply(const Doubles& a, const Doubles& b, std::size_t m, std::size_t k, std::size_t n) {
  Doubles c(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

Doubles transposed(const Doubles& a, std::size_t rows, std::size_t columns) {
  Doubles b(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) b[j * rows + i] = a[i * columns + j];
  }
  return b;
}

// The iterations as they are written, for any shape.
Doubles orthogonalized(Doubles x, std::size_t rows, std::size_t columns) {
  double square = 0;
  for (const double element : x) square += element * element;
  for (double& element : x) element /= std::sqrt(square);
  for (int i = 0; i < 5; ++i) {
    const Doubles a = multiply(x, transposed(x, rows, columns), rows, columns, rows);
    const Doubles aa = multiply(a, a, rows, rows, rows);
    Doubles b(a.size());
    for (std::size_t e = 0; e < a.size(); ++e) b[e] = -4.7750 * a[e] + 2.0315 * aa[e];
    const Doubles bx = multiply(b, x, rows, rows, columns);
    for (std::size_t e = 0; e < x.size(); ++e) x[e] = 3.4445 * x[e] + bx[e];
  }
  return x;
}

struct MuonInDouble {
  std::size_t rows, columns;
  Doubles momentum{};

  void operator()(UpdateReference& variable, const Doubles& g, std::int64_t /*t*/) {
    momentum.resize(g.size());
    Doubles update(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      momentum[i] = 0.95 * momentum[i] + 0.05 * g[i];
      update[i] = 0.05 * g[i] + 0.95 * momentum[i];
    }
    update = orthogonalized(update, rows, columns);
    const double ratio = static_cast<double>(rows) / static_cast<double>(columns);
    const double rate = 0.003 * std::sqrt(std::max(1.0, ratio));
    for (std::size_t i = 0; i < g.size(); ++i) {
      variable.values[i] = variable.values[i] * (1 - 0.003 * 0.1) - rate * update[i];
    }
  }
};

TEST(Muon, IsTheFormulaAfterAHundredSteps) {
  const Optimizer optimizer = muon({.learning_rate = 0.003});
  testing::expect_as_reference(optimizer, {4, 9}, MuonInDouble{4, 9});
  // More rows than columns, and a convolution's kernel.
  testing::expect_as_reference(optimizer, {9, 4}, MuonInDouble{9, 4});
  testing::expect_as_reference(optimizer, {3, 2, 2, 2}, MuonInDouble{3, 8});
}

TEST(Muon, BringsSingularValuesNearOne) {
  testing::WholeVariable variable(
      muon({.learning_rate = 1.0, .momentum = 0, .weight_decay = 0, .match_adamw = false}), {2, 2},
      {0, 0, 0, 0});
  variable.step({50, 0, 0, -3}, 0);
  EXPECT_NEAR(variable.values[0], -1, 0.35);
  EXPECT_NEAR(variable.values[3], 1, 0.35);
  EXPECT_EQ(variable.values[1], 0);
}

TEST(Muon, RefusesVectorsAndSaysWhatToDo) {
  const auto& options = std::get<CustomOptions>(muon().options());
  EXPECT_TRUE(options.whole_variables);
  EXPECT_EQ(options.obstacle(std::vector<std::int64_t>{3, 3}), "");
  EXPECT_THAT(options.obstacle(std::vector<std::int64_t>{3}), HasSubstr("adamw()"));
}

TEST(Muon, IsDescribedFoundByNameAndChecked) {
  EXPECT_EQ(optimizer_by_name("torch.optim.Muon").description(),
            "muon(learning_rate = constant 0.001, momentum = 0.95, nesterov = 1, weight_decay = "
            "0.1, iterations = 5, epsilon = 1e-07, match_adamw = 0)");
  EXPECT_THROW(muon({.momentum = 1}), InvalidArgument);
  EXPECT_THROW(muon({.iterations = 0}), InvalidArgument);
}

}  // namespace
}  // namespace muster
