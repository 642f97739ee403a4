// The fused update over flat memory against libtorch's own loop over tensors, on ResNet-44's
// variables.
#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <torch/nn/module.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/nn/optim/updater.h"

namespace {

/// 131 tensors with 658,651 scalars: 43 convolutions, two vectors of batch norm after each, a dense
/// layer.
struct ResNet44 : torch::nn::Module {
  ResNet44() {
    add_convolution(3, 16);
    std::int64_t in = 16;
    for (const std::int64_t out : {16, 32, 64}) {
      for (int convolution = 0; convolution < 14; ++convolution) {
        add_convolution(in, out);
        in = out;
      }
    }
    add({11, 64});
    add({11});
  }

  void add_convolution(std::int64_t in, std::int64_t out) {
    add({out, in, 3, 3});
    add({out});
    add({out});
  }

  void add(std::vector<std::int64_t> shape) {
    register_parameter(fmt::format("v{}", count_++), torch::randn(shape));
  }

 private:
  int count_ = 0;
};

template <typename TorchOptimizer>
void compare(muster::bench::Report& report, const std::string& name, muster::Optimizer optimizer,
             TorchOptimizer& torch_optimizer, ResNet44& torch_module) {
  for (at::Tensor& parameter : torch_module.parameters()) {
    parameter.mutable_grad() = torch::full_like(parameter, 0.01);
  }
  const auto module = std::make_shared<ResNet44>();
  const auto variables = muster::Variables::adopt(*module);
  muster::Updater updater(variables, {{"", std::move(optimizer)}});
  muster::Gradients gradients = variables.make_gradients();
  gradients.flat.fill_(0.01);
  std::int64_t step = 0;
  const auto times = muster::bench::median_pair([&] { updater.apply(gradients, step++); },
                                                [&] { torch_optimizer.step(); }, report.effort());
  report.add({.name = name,
              .value = times.limit_seconds / times.work_seconds,
              .unit = "times torch::optim",
              .at_least = 3,
              .aim = 8});
  report.add({.name = name + ", ours",
              .value = static_cast<double>(variables.parameter_count()) / times.work_seconds / 1e9,
              .unit = "billion scalars/s"});
}

void compare_all(muster::bench::Report& report, int threads) {
  at::set_num_threads(threads);
  const std::string suffix = threads == 1 ? ", 1 thread" : ", all threads";
  ResNet44 for_momentum;
  torch::optim::SGD sgd(for_momentum.parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  compare(report, "momentum update, ResNet-44" + suffix, muster::momentum({.learning_rate = 1e-3}),
          sgd, for_momentum);
  ResNet44 for_adam;
  torch::optim::Adam adam(for_adam.parameters(), torch::optim::AdamOptions(1e-3));
  compare(report, "adam update, ResNet-44" + suffix, muster::adam({.learning_rate = 1e-3}), adam,
          for_adam);
}

}  // namespace

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  const int threads = at::get_num_threads();
  compare_all(report, 1);
  if (threads > 1) compare_all(report, threads);
  return report.finish();
}
