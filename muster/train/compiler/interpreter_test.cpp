#include "muster/train/compiler/interpreter.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

#include "muster/base/error.h"
#include "muster/train/compiler/networks_internal.h"
#include "muster/train/compiler/recorder.h"

namespace muster::compiler {
namespace {

using networks::Network;
using networks::Trained;

std::vector<std::vector<at::Tensor>> batches_of(const Network& network, int count) {
  std::vector<std::vector<at::Tensor>> batches;
  for (int i = 0; i < count; ++i) batches.push_back(network.make_inputs());
  return batches;
}

void expect_same_bits(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::equal(ours[i], theirs[i])) << "value " << i << ' ' << ours[i].sizes();
  }
}

// Three steps by the graph of the first, and three eager ones, from the same values.
void expect_steps_as_eager(const Network& network, bool bf16) {
  SCOPED_TRACE(network.name);
  Trained trained(network, bf16);
  const auto batches = batches_of(network, 4);
  const auto step = [&](const auto& inputs) { return trained.step(inputs); };
  torch::manual_seed(7);
  const Recording recording = record(step, batches[0], {.check_schemas = true});
  ASSERT_EQ(recording.obstacle, "");
  const auto start = trained.copies();
  std::vector<at::Tensor> losses;
  for (std::size_t i = 1; i < batches.size(); ++i) {
    torch::manual_seed(i);
    losses.push_back(trained.step(batches[i])[0]);
  }
  const auto wanted = trained.copies();
  trained.set(start);
  const Interpreter interpreter(recording.graph);
  for (std::size_t i = 1; i < batches.size(); ++i) {
    torch::manual_seed(i);
    EXPECT_TRUE(at::equal(interpreter.run(batches[i])[0], losses[i - 1]));
  }
  expect_same_bits(trained.copies(), wanted);
}

TEST(Interpreter, WholeStepsHaveTheBitsOfEagerOnes) {
  torch::manual_seed(1);
  for (const Network& network : networks::all()) expect_steps_as_eager(network, /*bf16=*/false);
}

TEST(Interpreter, AutocastIsPartOfTheGraph) {
  torch::manual_seed(2);
  expect_steps_as_eager(networks::mlp(), /*bf16=*/true);
  expect_steps_as_eager(networks::transformer(), /*bf16=*/true);
}

TEST(Interpreter, RefusesInputsThatAreLaidOutOtherwise) {
  const auto recording = record([](const auto& in) { return std::vector<at::Tensor>{in[0] * 2}; },
                                {torch::ones({2, 3})});
  const Interpreter interpreter(recording.graph);
  EXPECT_TRUE(
      at::equal(interpreter.run({torch::full({2, 3}, 4.0F)})[0], torch::full({2, 3}, 8.0F)));
  EXPECT_THROW(interpreter.run({torch::ones({3, 3})}), InvalidArgument);
  EXPECT_THROW(interpreter.run({torch::ones({3, 2}).t()}), InvalidArgument);
  EXPECT_THROW(interpreter.run({}), InvalidArgument);
}

TEST(Interpreter, APerturbedRunIsOffByAboutWhatItsTypesRound) {
  const auto recording = record(
      [](const auto& in) {
        const auto x = torch::exp(in[0]);
        return std::vector<at::Tensor>{x, x.to(at::kBFloat16), x - torch::exp(in[0])};
      },
      {torch::randn({1000})});
  const Interpreter interpreter(recording.graph);
  const auto x = torch::randn({1000});
  const auto exact = interpreter.run({x});
  const auto moved = interpreter.run_perturbed({x});
  const auto off = [&](std::size_t i) {
    return ((moved[i] - exact[i]).to(at::kFloat).norm() / exact[0].norm()).item<double>();
  };
  EXPECT_GT(off(0), 1e-8);
  EXPECT_LT(off(0), 1e-6);
  EXPECT_GT(off(1), 1e-4);
  EXPECT_LT(off(1), 1e-2);
  EXPECT_GT(off(2), 0);  // where the exact result is 0, rounding is all there is
}

TEST(Interpreter, LetsMemoryGoBehindItsLastReader) {
  const auto recording = record(
      [](const auto& in) {
        at::Tensor x = in[0];
        for (int i = 0; i < 10; ++i) x = torch::tanh(x);
        return std::vector<at::Tensor>{x};
      },
      {torch::ones({256})});
  EXPECT_EQ(Interpreter(recording.graph).peak_bytes(), 2 * 256 * sizeof(float));
}

}  // namespace
}  // namespace muster::compiler
