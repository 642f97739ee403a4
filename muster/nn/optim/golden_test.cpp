// Bits of every optimizer: a run that continues with another build of muster ends with the weights
// that it would have had.
#include "muster/testing/golden.h"

#include <torch/types.h>

#include "muster/nn/optim/updater.h"

namespace muster {
namespace {

using testing::expect_golden;

void fill(const at::Tensor& tensor, std::uint64_t seed) {
  testing::fill_with_noise({tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())},
                           seed);
}

// Values and slots after five steps.
std::string bits_after_steps(const Optimizer& optimizer) {
  const Variables variables({{.name = "kernel", .shape = {67, 33}},
                             {.name = "bias", .shape = {7}},
                             {.name = "table", .shape = {20, 3}, .sparse = true}});
  for (const Variable& variable : variables.all()) fill(variable.value, 1);
  Updater updater(variables, {{"", optimizer}});
  for (std::int64_t step = 0; step < 5; ++step) {
    Gradients gradients = variables.make_gradients();
    const auto seed = static_cast<std::uint64_t>(step);
    for (const Variable& variable : variables.all()) {
      if (variable.dense()) fill(gradients.of(variable), 10 + seed);
    }
    const at::Tensor rows = at::empty({2, 3});
    fill(rows, 20 + seed);
    gradients.rows[0] = {torch::tensor({step, step + 7}, at::kLong), rows};
    updater.apply(gradients, step);
  }
  std::vector<NamedTensor> tensors = variables.tensors();
  for (NamedTensor& slot : updater.tensors()) tensors.push_back(std::move(slot));
  std::string bits;
  for (const NamedTensor& one : tensors) {
    const at::Tensor values = one.tensor.contiguous();
    bits += one.name;
    bits.append(static_cast<const char*>(values.data_ptr()), values.nbytes());
  }
  return bits;
}

TEST(Golden, ValuesAndSlotsOfEveryOptimizer) {
  const struct {
    Optimizer optimizer;
    std::string_view hash;
  } kept[]{
      {sgd({.learning_rate = 0.1}),
       "85e1419d5cbb9d45fb153c6a0ff2009bc4ae160ed4236f0373c2de24e18ca4e6"},
      {sgd({.learning_rate = 0.1, .weight_decay = 0.1}),
       "31c97dc46ff33a9644d66f4c5822c2c283921b1d8205d38e1c921e5e4665d43a"},
      {momentum({.learning_rate = 0.1, .weight_decay = 0.1}),
       "af1814f74a00a2bdb44b69c3867118a27398408564722c0413b3b9b7fc12d3ba"},
      {momentum({.learning_rate = 0.1, .nesterov = true}),
       "19565396166a581d1d54d3a6a6946eb5b62f6887e2cc6728a8c07b01e063493b"},
      {adagrad({.learning_rate = 0.1}),
       "5f2d2f13178954115ca887fa37b7b6c83ccb3740daefc22fa5e76195bf3494de"},
      {proximal_adagrad({.learning_rate = 0.1, .l1 = 0.1, .l2 = 0.1}),
       "bacca6155d4ef17d2ae62f50f7d9afc4176b58ecd3b185f1c7c7a8d5a3ec0a80"},
      {adam({.learning_rate = 0.1}),
       "7fc6b5cb226d649dc378e8709c362f454c768f9fe00b41c1c909f56e1a3556ab"},
      {adamw({.learning_rate = 0.1}),
       "3b6fc8bd6188b3230570473063b0659fd0a43a11c6a370d182b7275fd1d6106c"},
      {rmsprop({.learning_rate = 0.1, .momentum = 0.5}),
       "bd74c107811520303da4335cf8524645d81feae286d599009bed61bcca2fb479"},
      {rmsprop({.learning_rate = 0.1, .centered = true}),
       "14824500219b7972cb4a6b3dc0f9bc1b4b9f707291452db34c45418ec8322a41"},
      {ftrl({.learning_rate = 0.1, .l1 = 0.05, .l2 = 0.1, .l2_shrinkage = 0.1}),
       "c60aab6e98647ea1cd8b65e38369f0a2e889343ef24f3ebdf3026f4fea080331"},
  };
  for (const auto& [optimizer, hash] : kept) {
    expect_golden(bits_after_steps(optimizer), hash, optimizer.description());
  }
}

}  // namespace
}  // namespace muster
