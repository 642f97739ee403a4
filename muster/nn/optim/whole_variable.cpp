#include <algorithm>
#include <cmath>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/optim/flat_kernels_internal.h"
#include "muster/nn/optim/whole_variable_internal.h"

namespace muster::internal {

double norm_of(std::span<const float> values) {
  constexpr std::size_t kBlock = std::size_t{1} << 15;
  std::vector<double> sums((values.size() + kBlock - 1) / kBlock, 0.0);
  kernels::parallel_for(
      0, static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto block = static_cast<std::size_t>(begin); block < static_cast<std::size_t>(end);
             ++block) {
          const std::size_t first = block * kBlock;
          sums[block] = sum_of_squares(std::min(kBlock, values.size() - first), &values[first]);
        }
      });
  double sum = 0;
  for (const double part : sums) sum += part;
  return std::sqrt(sum);
}

void require_option(bool holds, const char* optimizer, const char* option, const char* rule,
                    double value) {
  if (!holds || !std::isfinite(value)) {
    throw InvalidArgument("{}: {} must be {}: {}", optimizer, option, rule, value);
  }
}

}  // namespace muster::internal
