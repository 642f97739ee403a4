#include "tests/simulation/warm_up.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <torch/types.h>

namespace muster::simulation {

void warm_up() {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const at::Tensor a = at::ones({8, 8});
  [[maybe_unused]] const at::Tensor product = a.matmul(a).relu().sum();
}

}  // namespace muster::simulation
