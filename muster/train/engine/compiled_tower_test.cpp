#include "muster/train/engine/compiled_tower.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>

#include <limits>
#include <mutex>
#include <string>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/nn/model/random_scope.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/run_terms.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using namespace small_net;  // NOLINT(google-build-using-namespace): the subject of every test here
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TempDir;

/// Lines that are logged while it lives.
class Logged {
 public:
  Logged() {
    log::set_sink([this](log::Level, std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_ += std::string(line) + "\n";
    });
  }
  ~Logged() { log::set_sink({}); }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

RunConfig compiled_config(const Path& folder, std::int64_t replicas = 1) {
  RunConfig config = quiet_config(folder);
  config.reproducibility.compile = CompileMode::kOn;
  config.reproducibility.replicas = replicas;
  config.devices.concurrent_replicas = 1;
  return config;
}

template <typename Net>
EstimatorOptions options_of() {
  EstimatorOptions options = small_options();
  options.model = [] { return std::make_shared<Net>(); };
  return options;
}

at::Tensor floats(const std::string& bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(float));
  return torch::from_blob(const_cast<char*>(bytes.data()), {count}, torch::kFloat).clone();
}

// Compiling may round otherwise, and changes nothing else. Adam would make steps of its own size of
// the gradient of a bias before a batch norm, which is rounding alone.
void expect_near(const Path& one, const Path& other) {
  const auto left = latest_values(one);
  const auto right = latest_values(other);
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, bytes] : left) {
    if (bytes == right.at(name)) continue;
    EXPECT_TRUE(torch::allclose(floats(bytes), floats(right.at(name)), 1e-3, 1e-4)) << name;
  }
}

// Trains compiled and eagerly, and returns what the first said.
std::string train_both(EstimatorOptions options, const TempDir& folder,
                       const InputFn& input = training_input) {
  options.optimizer = sgd({.learning_rate = 0.05});
  RunConfig eager = compiled_config(folder / "eager");
  eager.reproducibility.compile = CompileMode::kOff;
  Estimator(options, eager).train(input, {.max_steps = 6});
  const Logged logged;
  Estimator(options, compiled_config(folder / "compiled")).train(input, {.max_steps = 6});
  return logged.text();
}

/// libtorch's layers, whose random numbers are those of its generator.
struct DrawingNet : Model {
  DrawingNet() {
    lstm = register_module("lstm", torch::nn::LSTM(kInputs, 6));
    dropout = register_module("dropout", torch::nn::Dropout(0.5));
    logits = register_module("logits", torch::nn::Linear(6, kClasses));
  }
  torch::Tensor forward(const Features& x) override {
    const auto y = std::get<0>(lstm->forward(x.tensor("x").unsqueeze(0))).squeeze(0);
    return logits->forward(dropout->forward(y));
  }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear logits{nullptr};
};

TEST(CompiledTower, TrainsAsEagerStepsDo) {
  const TempDir folder;
  EXPECT_THAT(train_both(small_options(), folder),
              AllOf(HasSubstr(" a training step of i64[1], f32[8, 8], i64[8, 1] is compiled: "),
                    Not(HasSubstr("not compiled"))));
  expect_near(folder / "eager", folder / "compiled");
  EXPECT_THAT(read_file(folder / "compiled" / "compile.txt"),
              AllOf(HasSubstr("a training step of "), HasSubstr(" muster::dropout_mask"),
                    HasSubstr(" bytes at the fullest point")));
}

TEST(CompiledTower, DrawsTheNumbersOfEagerSteps) {
  const TempDir folder;
  EXPECT_THAT(train_both(options_of<DrawingNet>(), folder),
              AllOf(HasSubstr(" is compiled: "), Not(HasSubstr("not compiled"))));
  expect_near(folder / "eager", folder / "compiled");
}

TEST(CompiledTower, GivesTheSameBitsWhereverReplicasRun) {
  for (const auto& options : {small_options(), options_of<DrawingNet>()}) {
    const TempDir folder;
    Estimator(options, compiled_config(folder / "in_turn", 3))
        .train(training_input, {.max_steps = 6});
    RunConfig towers = compiled_config(folder / "towers", 3);
    towers.devices.names = {"cpu", "cpu", "cpu"};
    Estimator(options, towers).train(training_input, {.max_steps = 6});
    RunConfig logical = towers;
    logical.model_dir = folder / "logical";
    logical.devices.logical_devices = true;
    Estimator(options, logical).train(training_input, {.max_steps = 6});
    EXPECT_EQ(latest_values(folder / "in_turn"), latest_values(folder / "towers"));
    EXPECT_EQ(latest_values(folder / "in_turn"), latest_values(folder / "logical"));
  }
}

TEST(CompiledTower, ResumesToTheBitWithEvaluationsBetween) {
  for (const auto& options : {small_options(), options_of<DrawingNet>()}) {
    const TempDir folder;
    for (const std::int64_t stop : {1, 2, 5, 9}) {
      Estimator estimator(options, compiled_config(folder / "resumed"));
      estimator.train(training_input, {.max_steps = stop});
      estimator.evaluate(evaluation_input);
    }
    Estimator(options, compiled_config(folder / "whole")).train(training_input, {.max_steps = 9});
    EXPECT_EQ(latest_values(folder / "resumed"), latest_values(folder / "whole"));
  }
}

Dataset<Batch> uneven_batches(const InputContext&) {
  return range(20).map(example).batch(8, collate_examples).repeat(3);
}

TEST(CompiledTower, CompilesEveryShapeOfBatches) {
  const TempDir folder;
  const std::string said = train_both(small_options(), folder, uneven_batches);
  EXPECT_THAT(said,
              AllOf(HasSubstr("f32[8, 8], i64[8, 1] is compiled"),
                    HasSubstr("f32[4, 8], i64[4, 1] is compiled"), Not(HasSubstr("not compiled"))));
  expect_near(folder / "eager", folder / "compiled");
}

Dataset<Batch> batches_with_poison(const InputContext&) {
  return range(48).map(example).batch(8, [](std::span<const Example> examples) {
    Batch batch = collate_examples(examples);
    for (const Example& one : examples) {
      if (one.x != example(0).x && one.x != example(33).x) continue;
      batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
    }
    return batch;
  });
}

// The very first batch is one of them.
TEST(CompiledTower, SkipsBadBatchesWithAllThatTheyChanged) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.nan_policy.action = NanPolicy::Action::kSkipBatch;
  options.moving_average = MovingAverageOptions{.decay = 0.9};
  EXPECT_THAT(train_both(options, folder, batches_with_poison), Not(HasSubstr("not compiled")));
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder / "compiled")), 4);
  expect_near(folder / "eager", folder / "compiled");
}

TEST(CompiledTower, AResumeGoesOnAsItsCheckpointBegan) {
  const TempDir folder;
  const EstimatorOptions options = small_options();
  Estimator(options, compiled_config(folder / "whole")).train(training_input, {.max_steps = 6});
  RunConfig config = compiled_config(folder / "resumed");
  Estimator(options, config).train(training_input, {.max_steps = 3});
  config.reproducibility.compile.reset();
  Estimator(options, config).train(training_input, {.max_steps = 6});
  EXPECT_EQ(latest_values(folder / "whole"), latest_values(folder / "resumed"));
  config.model_dir = folder / "new";
  Estimator(options, config).train(training_input, {.max_steps = 3});
  EXPECT_FALSE(file_exists(folder / "new" / "compile.txt")) << "a CPU's default is off";
}

// --------------------------------------------------------------------- what is not compiled

/// Layers whose steps may be compiled; what hinders that is in `spoil`.
struct SpoiltNet : Model {
  SpoiltNet() { logits = register_module("logits", torch::nn::Linear(kInputs, kClasses)); }
  torch::Tensor forward(const Features& x) override {
    return logits->forward(spoil(x.tensor("x")));
  }
  virtual torch::Tensor spoil(const torch::Tensor& x) { return x; }
  torch::nn::Linear logits{nullptr};
};

struct ReadsAValue : SpoiltNet {
  torch::Tensor spoil(const torch::Tensor& x) override {
    return x.sum().item<float>() > 1e6 ? x * 2 : x;
  }
};

struct DrawsOnTheHost : SpoiltNet {
  torch::Tensor spoil(const torch::Tensor& x) override {
    const auto drawn = RandomScope::current()->next_key(1) % 8;
    return x * (1 + static_cast<double>(drawn) / 8);
  }
};

struct TakesTurns : SpoiltNet {
  torch::Tensor spoil(const torch::Tensor& x) override { return ++calls % 2 == 0 ? x * 2 : x; }
  int calls = 0;
};

struct KeepsATensor : SpoiltNet {
  torch::Tensor spoil(const torch::Tensor& x) override {
    const auto before = kept;
    kept = x.mean(0).detach();
    return x + before;
  }
  torch::Tensor kept = torch::zeros({kInputs});
};

struct WritesItself : SpoiltNet {
  torch::Tensor spoil(const torch::Tensor& x) override {
    const auto y = torch::zeros_like(x);
    std::copy_n(x.data_ptr<float>(), x.numel(), y.data_ptr<float>());
    return y;
  }
};

struct DefersSummaries : SpoiltNet {
  EstimatorSpec call(const Batch& batch, Mode mode, const Head* head) override {
    EstimatorSpec spec = SpoiltNet::call(batch, mode, head);
    spec.summaries.deferred.emplace_back([](Summaries&) {});
    return spec;
  }
};

struct LooksUpRows : Model {
  LooksUpRows() {
    rows = register_module(
        "rows", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, kClasses).sparse(true)));
  }
  torch::Tensor forward(const Features& x) override {
    return rows->forward((x.tensor("x").abs() * 4).floor().to(torch::kLong)).sum(1);
  }
  torch::nn::Embedding rows{nullptr};
};

// Eager steps are made, to the bit, and the log says why.
void expect_eager(const EstimatorOptions& options, const std::string& why,
                  const InputFn& input = training_input) {
  SCOPED_TRACE(why);
  const TempDir folder;
  EXPECT_THAT(train_both(options, folder, input), HasSubstr("not compiled: " + why));
  EXPECT_EQ(latest_values(folder / "eager"), latest_values(folder / "compiled"));
}

TEST(CompiledTower, StaysEagerWhereAStepIsNoGraph) {
  expect_eager(options_of<ReadsAValue>(), "aten::_local_scalar_dense gives a value to the host");
  expect_eager(options_of<DrawsOnTheHost>(), "it draws random numbers on the host");
  expect_eager(options_of<WritesItself>(), "its operations alone do not leave what it leaves");
  expect_eager(options_of<DefersSummaries>(), "it has deferred summaries");
}

TEST(CompiledTower, StaysEagerWhereStepsDiffer) {
  expect_eager(options_of<TakesTurns>(), "its second step is another one");
  expect_eager(options_of<KeepsATensor>(), "its second step is another one: external ");
}

TEST(CompiledTower, StaysEagerWhereTheRunNeedsIt) {
  expect_eager(options_of<LooksUpRows>(), "the model has gradients by rows");
  EstimatorOptions options = small_options();
  options.zero_debias_batch_norm = true;
  expect_eager(options, "zero_debias_batch_norm has another share every step");
}

TEST(CompiledTower, StaysEagerForColumnsThatAreNoTensors) {
  const TempDir folder;
  const auto with_words = [](const InputContext& in) {
    return training_input(in).map([](Batch batch) {
      batch.features.add("word", StringColumn(std::vector<std::string>(8, "a"), {8}));
      return batch;
    });
  };
  EXPECT_THAT(train_both(small_options(), folder, with_words),
              HasSubstr("batches with strings or ragged columns are not compiled"));
  EXPECT_EQ(latest_values(folder / "eager"), latest_values(folder / "compiled"));
}

// ------------------------------------------------------------------------- part of the arithmetic

TEST(CompiledTower, ACheckpointGoesOnAsItWasTrained) {
  const TempDir folder;
  RunConfig config = compiled_config(folder.path());
  Estimator(small_options(), config).train(training_input, {.max_steps = 2});
  config.reproducibility.compile = CompileMode::kOff;
  EXPECT_THAT(
      error_of([&] { Estimator(small_options(), config).train(training_input, {.max_steps = 4}); }),
      HasSubstr("the checkpoint was trained with compile=on, and this run has compile=off"));
}

TEST(CompiledTower, AnotherCompilerIsAWarning) {
  const Logged logged;
  check_compile("on, compiler 0", CompileMode::kOn);
  EXPECT_THAT(logged.text(), HasSubstr("compile changes from 'on, compiler 0' to 'on, compiler "));
  EXPECT_THROW(check_compile("on, compiler 0", CompileMode::kMax), FailedPrecondition);
  EXPECT_NO_THROW(check_compile("off", CompileMode::kOff));
}

// ---------------------------------------------------------------------------- memory outside

TEST(CompiledTower, IsCompiledAnewWhenMemoryMoves) {
  const auto weight = torch::ones({3});
  CompiledTower tower({}, {weight});
  const auto key = torch::zeros({1}, torch::kLong);
  const auto loss_of = [&](const Batch& batch, const at::Tensor&) {
    return EstimatorSpec{.loss = (batch.features.tensor("x") * weight).sum()};
  };
  const Batch batch{.features = {{"x", torch::full({3}, 2.0F)}}};
  const auto run = [&] { return tower.run(batch, key, loss_of, {}).loss.item<float>(); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), 6);
  EXPECT_TRUE(tower.is_compiled(batch));
  weight.set_data(torch::full({3}, 5.0F));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(), 30);
  EXPECT_TRUE(tower.is_compiled(batch));
  weight.fill_(1);
  EXPECT_EQ(run(), 6) << "the new memory is what it reads";
}

}  // namespace
}  // namespace muster
