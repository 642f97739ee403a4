#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "muster/nn/kernels/gemm.h"
#include "muster/nn/optim/named_optimizer_internal.h"
#include "muster/nn/optim/whole_variable_internal.h"

namespace muster {
namespace {

struct MuonConstants {
  float momentum, one_minus_momentum;
  double weight_decay, epsilon;
  std::int64_t iterations;
  bool nesterov, match_adamw;
};

/// A matrix with its rows one after the other.
struct DenseMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> elements{};

  kernels::MatrixView view() const { return kernels::row_major(elements.data(), columns); }
};

DenseMatrix transpose(const DenseMatrix& matrix) {
  DenseMatrix result{matrix.columns, matrix.rows, std::vector<float>(matrix.elements.size())};
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      result.elements[static_cast<std::size_t>(j * matrix.rows + i)] =
          matrix.elements[static_cast<std::size_t>(i * matrix.columns + j)];
    }
  }
  return result;
}

// left = a left + b right.
void combine(float a, std::vector<float>& left, float b, const std::vector<float>& right) {
  internal::for_elements(left.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) left[i] = a * left[i] + b * right[i];
  });
}

// One step of x = 3.4445 x - 4.7750 (x x') x + 2.0315 (x x')^2 x, which brings singular values in
// (0, 1] near 1, for a matrix that has no more rows than columns.
void iterate(DenseMatrix& x, DenseMatrix& gram, DenseMatrix& product) {
  constexpr float kA = 3.4445F;
  constexpr float kB = -4.7750F;
  constexpr float kC = 2.0315F;
  const std::int64_t rows = x.rows;
  kernels::gemm(rows, rows, x.columns, x.view(), x.view().transposed(), gram.elements.data(), rows,
                kernels::Into::kReplace);
  product.elements.resize(gram.elements.size());
  kernels::gemm(rows, rows, rows, gram.view(), gram.view(), product.elements.data(), rows,
                kernels::Into::kReplace);
  combine(kB, gram.elements, kC, product.elements);
  product.elements.resize(x.elements.size());
  kernels::gemm(rows, x.columns, rows, gram.view(), x.view(), product.elements.data(), x.columns,
                kernels::Into::kReplace);
  combine(kA, x.elements, 1.0F, product.elements);
}

void orthogonalize(const MuonConstants& k, DenseMatrix& matrix) {
  const bool is_tall = matrix.rows > matrix.columns;
  if (is_tall) matrix = transpose(matrix);
  const auto scale =
      static_cast<float>(1.0 / std::max(internal::norm_of(matrix.elements), k.epsilon));
  for (float& element : matrix.elements) element *= scale;
  DenseMatrix gram{matrix.rows, matrix.rows,
                   std::vector<float>(static_cast<std::size_t>(matrix.rows * matrix.rows))};
  DenseMatrix product{matrix.rows, matrix.columns};
  for (std::int64_t i = 0; i < k.iterations; ++i) iterate(matrix, gram, product);
  if (is_tall) matrix = transpose(matrix);
}

double factor_of(const MuonConstants& k, const DenseMatrix& matrix) {
  const auto rows = static_cast<double>(matrix.rows);
  const auto columns = static_cast<double>(matrix.columns);
  return k.match_adamw ? 0.2 * std::sqrt(std::max(rows, columns))
                       : std::sqrt(std::max(1.0, rows / columns));
}

void update_by_muon(const MuonConstants& k, const ElementUpdate& u) {
  if (u.values.empty()) return;
  DenseMatrix update{u.shape[0], static_cast<std::int64_t>(u.values.size()) / u.shape[0],
                     std::vector<float>(u.values.size())};
  internal::for_elements(u.values.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const float g = u.gradients[i];
      float& m = u.slots[0][i];
      m += (g - m) * k.one_minus_momentum;
      update.elements[i] = k.nesterov ? g + (m - g) * k.momentum : m;
    }
  });
  orthogonalize(k, update);
  const auto rate = static_cast<float>(u.learning_rate * factor_of(k, update));
  const auto decay = static_cast<float>(u.learning_rate * k.weight_decay);
  internal::for_elements(u.values.size(), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      u.values[i] -= decay * u.values[i] + rate * update.elements[i];
    }
  });
}

std::string why_not_a_matrix(std::span<const std::int64_t> shape) {
  if (shape.size() >= 2) return "";
  return "is no matrix; give it another optimizer by its name or a pattern, such as {\"*/bias\", "
         "adamw()}";
}

}  // namespace

Optimizer muon(MuonOptions options) {
  const auto require = [](bool holds, const char* option, const char* rule, double value) {
    internal::require_option(holds, "muon", option, rule, value);
  };
  require(options.momentum >= 0 && options.momentum < 1, "momentum", "in [0, 1)", options.momentum);
  require(options.weight_decay >= 0, "weight_decay", "not negative", options.weight_decay);
  require(options.iterations > 0 && options.iterations < 100, "iterations", "in [1, 100)",
          static_cast<double>(options.iterations));
  require(options.epsilon > 0, "epsilon", "positive", options.epsilon);
  const MuonConstants constants{.momentum = static_cast<float>(options.momentum),
                                .one_minus_momentum = static_cast<float>(1.0 - options.momentum),
                                .weight_decay = options.weight_decay,
                                .epsilon = options.epsilon,
                                .iterations = options.iterations,
                                .nesterov = options.nesterov,
                                .match_adamw = options.match_adamw};
  return custom_optimizer(
      {.name = "muon",
       .learning_rate = std::move(options.learning_rate),
       .constants = {{"momentum", options.momentum},
                     {"nesterov", static_cast<double>(options.nesterov)},
                     {"weight_decay", options.weight_decay},
                     {"iterations", static_cast<double>(options.iterations)},
                     {"epsilon", options.epsilon},
                     {"match_adamw", static_cast<double>(options.match_adamw)}},
       .slots = {{"Muon", 0}},
       .update = [constants](const ElementUpdate& u) { update_by_muon(constants, u); },
       .whole_variables = true,
       .obstacle = why_not_a_matrix});
}

namespace internal {

NamedOptimizer muon_named_optimizer() {
  return {.name = "muon",
          .make = [](LearningRate rate) { return muon({.learning_rate = std::move(rate)}); },
          .default_rate = 0.001};
}

}  // namespace internal
}  // namespace muster
