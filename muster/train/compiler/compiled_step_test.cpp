#include "muster/train/compiler/compiled_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/log.h"
#include "muster/train/compiler/networks_internal.h"

namespace muster::compiler {
namespace {

using networks::Network;
using networks::Trained;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Steps of two layouts in turns, compiled, beside eager ones from the same start.
void expect_trains_as_eager(const Network& network, bool fuses, double tolerance) {
  SCOPED_TRACE(network.name);
  Trained trained(network, false);
  const auto start = trained.copies();
  std::vector<Tensors> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(network.make_inputs());
  const auto step = [&](const Tensors& inputs) { return trained.step(inputs); };
  for (std::size_t i = 0; i < batches.size(); ++i) {
    torch::manual_seed(i);
    trained.step(batches[i]);
  }
  const auto wanted = trained.copies();
  trained.set(start);
  CompiledStep compiled({.passes = {.fuses = fuses}, .name = network.name});
  for (std::size_t i = 0; i < batches.size(); ++i) {
    compiled.run(batches[i], step, [i] { torch::manual_seed(i); });
    EXPECT_TRUE(compiled.is_compiled(batches[i])) << compiled.explain();
  }
  const auto ours = trained.copies();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours[i], wanted[i], tolerance, tolerance)) << "value " << i;
  }
}

TEST(CompiledStep, TrainsAsEagerSteps) {
  torch::manual_seed(8);
  for (const Network& network : networks::all()) expect_trains_as_eager(network, false, 1e-4);
}

TEST(CompiledStep, FusedStepsTrainAsEagerOnes) {
  torch::manual_seed(8);
  for (const Network& network : networks::all()) expect_trains_as_eager(network, true, 1e-4);
}

TEST(CompiledStep, BitsDoNotDependOnWhereItBegan) {
  torch::manual_seed(9);
  const Network network = networks::transformer();
  Trained trained(network, true);
  const auto step = [&](const Tensors& inputs) { return trained.step(inputs); };
  std::vector<Tensors> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(network.make_inputs());
  CompiledStep whole({});
  std::vector<Tensors> after;
  for (const Tensors& batch : batches) {
    whole.run(batch, step);
    after.push_back(trained.copies());
  }
  trained.set(after[1]);
  CompiledStep resumed({});
  for (std::size_t i = 2; i < batches.size(); ++i) resumed.run(batches[i], step);
  const auto ours = trained.copies();
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], after[4][i])) << i;
}

TEST(CompiledStep, EachLayoutOfInputsHasAPlan) {
  CompiledStep compiled({.layouts = 2});
  const auto step = [](const Tensors& in) { return Tensors{in[0].exp().sum()}; };
  for (const int size : {3, 4, 5, 3, 5}) {
    const auto x = torch::full({size}, 2.0F);
    EXPECT_TRUE(at::equal(compiled.run({x}, step)[0], x.exp().sum()));
  }
  EXPECT_TRUE(compiled.is_compiled({torch::ones({3})}));
  EXPECT_FALSE(compiled.is_compiled({torch::ones({5})}));
  EXPECT_THAT(compiled.explain(), HasSubstr("1 aten::sum"));
}

TEST(CompiledStep, WhatTheHostReadsRunsEagerly) {
  CompiledStep compiled({});
  const auto step = [](const Tensors& in) {
    return Tensors{in[0].sum().item<float>() > 3 ? in[0] * 2 : in[0] * 3};
  };
  EXPECT_EQ(compiled.run({torch::ones({3})}, step)[0][0].item<float>(), 3);
  EXPECT_EQ(compiled.run({torch::ones({3}) * 2}, step)[0][0].item<float>(), 4);
  EXPECT_THAT(compiled.explain(), HasSubstr("not compiled: aten::_local_scalar_dense"));
}

TEST(CompiledStep, WhatIsWrittenPastLibtorchRunsEagerly) {
  CompiledStep compiled({});
  const auto sum = torch::zeros({2});
  const auto step = [&](const Tensors& in) {
    auto x = torch::zeros({2});
    x.data_ptr<float>()[0] = 5;
    sum.add_(x + in[0]);
    return Tensors{sum.clone()};
  };
  EXPECT_EQ(compiled.run({torch::ones({2})}, step)[0][0].item<float>(), 6);
  EXPECT_EQ(compiled.run({torch::ones({2})}, step)[0][0].item<float>(), 12);
  EXPECT_THAT(compiled.explain(), HasSubstr("something else writes"));
}

TEST(CompiledStep, AStepThatIsAnotherOneRunsEagerly) {
  CompiledStep compiled({});
  int calls = 0;
  const auto step = [&](const Tensors& in) {
    return Tensors{++calls == 1 ? in[0].exp() : in[0].neg()};
  };
  compiled.run({torch::ones({2})}, step);
  EXPECT_EQ(compiled.run({torch::ones({2})}, step)[0][0].item<float>(), -1);
  EXPECT_THAT(compiled.explain(), HasSubstr("its second step is another one"));
}

TEST(CompiledStep, AStateThatItKeepsInATensorRunsEagerly) {
  CompiledStep compiled({});
  at::Tensor kept = torch::zeros({2});
  const auto step = [&](const Tensors& in) {
    kept = kept + in[0];
    return Tensors{kept.clone()};
  };
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(at::equal(compiled.run({torch::ones({2})}, step)[0], torch::full({2}, i)));
  }
  EXPECT_THAT(compiled.explain(), HasSubstr("is other memory than in its first"));
}

TEST(CompiledStep, WhatIsNotFiniteIsCompiledToo) {
  CompiledStep compiled({});
  const auto step = [](const Tensors& in) { return Tensors{in[0].log(), in[0].exp().sum()}; };
  const auto first = torch::tensor({-1.0F, 0.0F, 1.0F});
  EXPECT_TRUE(compiled.run({first}, step)[0][0].isnan().item<bool>());
  EXPECT_TRUE(compiled.is_compiled({first}));
}

TEST(CompiledStep, MemoryThatItReturnsUnwrittenRunsEagerly) {
  CompiledStep compiled({});
  const auto step = [](const Tensors& in) {
    auto x = torch::empty({1});
    *x.data_ptr<float>() = in[0].data_ptr<float>()[0];
    return Tensors{x};
  };
  EXPECT_EQ(compiled.run({torch::ones({1})}, step)[0].item<float>(), 1);
  EXPECT_EQ(compiled.run({torch::ones({1}) * 2}, step)[0].item<float>(), 2);
  EXPECT_THAT(compiled.explain(), HasSubstr("it returns memory that no operation has written"));
}

TEST(CompiledStep, SaysItselfWhyItIsNoGraph) {
  CompiledStep compiled({});
  const auto step = [](const Tensors& in) {
    note_obstacle("it is Thursday");
    return Tensors{in[0].exp()};
  };
  compiled.run({torch::ones({1})}, step);
  EXPECT_TRUE(compiled.is_settled({torch::ones({1})}));
  EXPECT_THAT(compiled.explain(), HasSubstr("not compiled: it is Thursday"));
}

TEST(CompiledStep, AFirstStepThatThrowsDoesNotCount) {
  CompiledStep compiled({});
  bool fails = true;
  const auto step = [&](const Tensors& in) {
    if (std::exchange(fails, false)) throw std::runtime_error("no");
    return Tensors{in[0].exp()};
  };
  EXPECT_THROW(compiled.run({torch::ones({2})}, step), std::runtime_error);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(compiled.is_settled({torch::ones({2})}) && i < 2);
    compiled.run({torch::ones({2})}, step);
  }
  EXPECT_TRUE(compiled.is_compiled({torch::ones({2})}));
  EXPECT_TRUE(compiled.is_settled({torch::ones({2})}));
}

}  // namespace
}  // namespace muster::compiler
