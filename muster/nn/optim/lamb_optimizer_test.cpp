#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "muster/base/error.h"
#include "muster/nn/optim/update_reference_internal.h"

namespace muster {
namespace {

using testing::UpdateReference;

// The paper's algorithm 2 in double, with the identity for phi.
struct LambInDouble {
  void operator()(UpdateReference& variable, const std::vector<double>& g, std::int64_t t) {
    m.resize(g.size());
    v.resize(g.size());
    std::vector<double> r(g.size());
    double size = 0;
    double length = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
      const auto power = static_cast<double>(t);
      const double m_hat = m[i] / (1 - std::pow(0.9, power));
      const double v_hat = v[i] / (1 - std::pow(0.999, power));
      r[i] = m_hat / (std::sqrt(v_hat) + 1e-6) + 0.05 * variable.values[i];
      size += variable.values[i] * variable.values[i];
      length += r[i] * r[i];
    }
    const double trust = std::sqrt(size) / std::sqrt(length);
    for (std::size_t i = 0; i < g.size(); ++i) variable.values[i] -= 0.01 * trust * r[i];
  }
  std::vector<double> m, v;
};

TEST(Lamb, IsThePapersAfterAHundredSteps) {
  testing::expect_as_reference(lamb({.learning_rate = 0.01, .weight_decay = 0.05}), {7, 5},
                               LambInDouble{});
}

TEST(Lamb, AVariableOfZerosMovesByTheRateAlone) {
  testing::WholeVariable variable(lamb({.learning_rate = 0.5, .weight_decay = 0}), {2},
                                  {0.0F, 0.0F});
  variable.step({3.0F, -4.0F}, 0);
  EXPECT_NEAR(variable.values[0], -0.5, 1e-6);
  EXPECT_NEAR(variable.values[1], 0.5, 1e-6);
}

TEST(Lamb, IsDescribedFoundByNameAndChecked) {
  EXPECT_EQ(optimizer_by_name("LAMB").description(),
            "lamb(learning_rate = constant 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-06, "
            "weight_decay = 0.01)");
  EXPECT_THROW(lamb({.beta1 = 1}), InvalidArgument);
  EXPECT_THROW(lamb({.weight_decay = -1}), InvalidArgument);
}

}  // namespace
}  // namespace muster
