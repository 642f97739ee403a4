// A model from PyTorch, trained here: three arms of a spiral. docs/guides/torchscript.md walks
// through it.
#include <fmt/core.h>
#include <torch/types.h>

#include <cmath>

#include "muster/muster.h"
#include "muster/nn/torch_script/torch_script.h"

namespace {

constexpr std::int64_t kArms = 3;

// Points that are functions of their numbers, and the arms that they belong to.
muster::Batch points(std::span<const std::int64_t> numbers) {
  std::vector<float> xy;
  std::vector<std::int64_t> arms;
  for (const std::int64_t n : numbers) {
    muster::Random random(/*key=*/static_cast<std::uint64_t>(n));
    const double radius = random.uniform(0.1, 1);
    const double angle =
        4 * radius + 2.0944 * static_cast<double>(n % kArms) + 0.5 * random.normal();
    xy.push_back(static_cast<float>(radius * std::cos(angle)));
    xy.push_back(static_cast<float>(radius * std::sin(angle)));
    arms.push_back(n % kArms);
  }
  const auto rows = static_cast<std::int64_t>(numbers.size());
  return muster::make_batch({{"point", muster::tensor_of(std::move(xy), {rows, 2})}},
                            muster::tensor_of(std::move(arms), {rows, 1}));
}

muster::Dataset<muster::Batch> train_input(const muster::InputContext& in) {
  return muster::range(3000).shuffle(3000, in.seed()).shard(in).repeat().batch(64, points);
}
muster::Dataset<muster::Batch> eval_input(const muster::InputContext&) {
  return muster::range(4000).skip(3000).batch(250, points);
}

}  // namespace

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, [](int count, char** words) {
    std::string model = "examples/torchscript/spiral.pt";
    std::int64_t steps = 1000;
    muster::RunFlags run;
    muster::FlagSet flags("Trains the model of a TorchScript file. Such a file is code.");
    flags.add("--model", &model, "The file, as torch.jit.save wrote it");
    flags.add("--train-steps", &steps, "Train up to this global step").positive();
    muster::add_run_flags(flags, run);
    if (!flags.parse(count, words)) return 0;
    muster::Estimator estimator({.model = muster::torch_script_model(model),
                                 .head = muster::multi_class_head(kArms),
                                 .optimizer = muster::adam({.learning_rate = 0.01})},
                                muster::run_config(run));
    const auto result = muster::train_and_evaluate(
        estimator, {train_input, steps},
        {.input_fn = eval_input,
         .exporters = {muster::final_exporter(
             "spiral", muster::raw_serving_input({{"point", torch::rand({2, 2})}}))}});
    for (const auto& [name, value] : result.metrics) fmt::print("{} {:.4g}\n", name, value);
    return 0;
  });
}
