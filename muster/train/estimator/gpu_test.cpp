#include <c10/cuda/CUDAFunctions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/dropout.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <limits>

#include "muster/base/error.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/model.h"
#include "muster/nn/model/random_scope.h"
#include "muster/nn/optim/updater.h"
#include "muster/nn/optim/weight_decay.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/canned/canned.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using namespace small_net;  // NOLINT(google-build-using-namespace): the subject of every test here
using ::testing::HasSubstr;
using testing::TempDir;
using Values = std::map<std::string, std::string>;

/// How often forwards were called: those of captured steps are not.
std::atomic<int> forwards = 0;

/// SmallNet without draws from libtorch's generator.
struct OwnDraws : SmallNet {
  torch::Tensor forward(const Features& x) override {
    ++forwards;
    return SmallNet::forward(x);
  }
  bool draws_from_libtorch() const override { return false; }
};

/// With dropout of libtorch's own.
struct LibtorchDraws : SmallNet {
  LibtorchDraws() { dropping = register_module("dropping", torch::nn::Dropout(0.25)); }
  torch::Tensor forward(const Features& x) override {
    ++forwards;
    return SmallNet::forward({{"x", dropping->forward(x.tensor("x"))}});
  }
  torch::nn::Dropout dropping{nullptr};
};

/// Looks at a value in every forward, which makes the host wait.
struct Curious : OwnDraws {
  torch::Tensor forward(const Features& x) override {
    const auto result = OwnDraws::forward(x);
    if (result.sum().item<float>() == 12345.0F) throw Internal("never");
    return result;
  }
};

struct Gpu : ::testing::Test {
  void SetUp() override {
    if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
    forwards = 0;
  }

  /// Crosses a boundary of its schedule after the steps are captured.
  template <typename Net = OwnDraws>
  static EstimatorOptions options() {
    EstimatorOptions options = small_options();
    options.model = [] { return std::make_shared<Net>(); };
    options.optimizer = {
        {"", momentum({.learning_rate = piecewise({8, 15}, {0.1, 0.02, 0.004}), .momentum = 0.9})}};
    options.weight_decay.factor = 0.01;
    return options;
  }

  RunConfig config(const std::string& name, std::vector<std::string> devices = {"cuda:0"}) const {
    RunConfig config = quiet_config(folder / name);
    config.devices.names = std::move(devices);
    config.reproducibility.compile = mode;
    return config;
  }

  /// The GPU as this many logical devices: each has a stream and a copy of the variables.
  RunConfig logical(const std::string& name, std::size_t devices) const {
    RunConfig where = config(name, std::vector<std::string>(devices, "cuda:0"));
    where.devices.logical_devices = true;
    return where;
  }

  /// Trains on logical devices, eagerly and captured, and in turn on one: all bits are the same,
  /// compiled or not.
  void expect_logical_as_in_turn(const EstimatorOptions& how, std::size_t devices,
                                 std::int64_t replicas, const InputFn& input = training_input,
                                 ComputeType precision = ComputeType::kFloat32) {
    for (const CompileMode each : {CompileMode::kOff, CompileMode::kOn}) {
      SCOPED_TRACE(each == CompileMode::kOn ? "compiled" : "not compiled");
      mode = each;
      expect_logical_as_in_turn_in_mode(how, devices, replicas, input, precision);
    }
    mode = CompileMode::kOff;
  }

  void expect_logical_as_in_turn_in_mode(const EstimatorOptions& how, std::size_t devices,
                                         std::int64_t replicas, const InputFn& input,
                                         ComputeType precision) {
    RunConfig in_turn = config("in_turn");
    in_turn.reproducibility.replicas = replicas;
    in_turn.reproducibility.precision = precision;
    const Values expected = train(how, in_turn, 20, input);
    for (const bool capture : {false, true}) {
      RunConfig where = logical(capture ? "captured" : "eager", devices);
      where.reproducibility.replicas = replicas;
      where.reproducibility.precision = precision;
      where.devices.capture_steps = capture;
      EXPECT_EQ(train(how, where, 20, input), expected) << where.model_dir.string();
    }
    for (const char* run : {"in_turn", "captured", "eager"}) {
      std::filesystem::remove_all((folder / run).string());
    }
  }

  Values train(const EstimatorOptions& how, const RunConfig& where, std::int64_t steps = 20,
               const InputFn& input = training_input) const {
    Estimator(how, where).train(input, {.max_steps = steps});
    return latest_values(where.model_dir);
  }

  /// Trains with and without capturing, compiled, and then not, which the folders are left of.
  void expect_captured_as_eager(const EstimatorOptions& how, RunConfig where,
                                const InputFn& input = training_input) {
    for (const CompileMode each : {CompileMode::kOn, CompileMode::kOff}) {
      SCOPED_TRACE(each == CompileMode::kOn ? "compiled" : "not compiled");
      for (const char* run : {"captured", "eager"}) {
        std::filesystem::remove_all((folder / run).string());
      }
      where.reproducibility.compile = each;
      expect_captured_as_eager_in_mode(how, where, input);
    }
  }

  void expect_captured_as_eager_in_mode(const EstimatorOptions& how, RunConfig where,
                                        const InputFn& input) {
    where.model_dir = folder / "eager";
    where.devices.capture_steps = false;
    const Values eager = train(how, where, 20, input);
    const int eager_forwards = forwards.exchange(0);
    where.model_dir = folder / "captured";
    where.devices.capture_steps = true;
    EXPECT_EQ(train(how, where, 20, input), eager);
    // A compiled step needs no forward once it is recorded.
    if (where.reproducibility.compile == CompileMode::kOff) {
      EXPECT_LT(forwards, eager_forwards / 2) << "steps were not captured";
    }
  }

  TempDir folder;
  CompileMode mode = CompileMode::kOff;
};

TEST_F(Gpu, CapturedStepsGiveTheBitsOfEagerOnesAcrossAScheduleBoundary) {
  expect_captured_as_eager(options(), config(""));
}

TEST_F(Gpu, CapturedStepsSeedLibtorchsGeneratorLikeEagerOnes) {
  expect_captured_as_eager(options<LibtorchDraws>(), config(""));
}

TEST_F(Gpu, CapturedStepsClipAndAverageLikeEagerOnes) {
  EstimatorOptions how = options();
  how.clip = {.global_norm = 0.2};
  how.moving_average = MovingAverageOptions{.decay = 0.9};
  how.optimizer = {{"", adam({.learning_rate = 0.01})},
                   {"logits", sgd({.learning_rate = piecewise({9}, {0.1, 0.01})})}};
  expect_captured_as_eager(how, config(""));
}

TEST_F(Gpu, CapturedStepsClipEveryVariableLikeEagerOnes) {
  EstimatorOptions how = options();
  how.clip = {.norm = 0.1};
  expect_captured_as_eager(how, config(""));
}

TEST_F(Gpu, ModelsWithFeatureColumnsAreOnTheCpu) {
  const auto build = [&](std::vector<std::string> devices) {
    LinearOptions how;
    how.feature_columns = {numeric_column("x", {.shape = {kInputs}})};
    how.n_classes = kClasses;
    return linear_classifier(how, config("columns", std::move(devices)));
  };
  EXPECT_THAT(error_of([&] { build({"cuda:0"}).train(training_input, {.max_steps = 1}); }),
              HasSubstr("feature columns, which are looked up on the CPU"));
  build({}).train(training_input, {.max_steps = 3});
  EXPECT_TRUE(std::isfinite(build({}).evaluate(evaluation_input).at("loss")));
}

TEST_F(Gpu, CapturedStepsTrainInBfloat16LikeEagerOnes) {
  RunConfig where = config("");
  where.reproducibility.precision = ComputeType::kBfloat16;
  expect_captured_as_eager(options(), where);
}

TEST_F(Gpu, CapturedStepsOfTwoTowersAreThoseOfEagerOnes) {
  expect_captured_as_eager(options(), config("", {"cuda:0", "cuda:0"}));
}

TEST_F(Gpu, ASmallLastBatchIsMadeWithoutTheCapturedStep) {
  const auto input = [](const InputContext&) {
    return range(20).repeat(4).map(example).batch(8, collate_examples);
  };
  EstimatorOptions how = options();
  RunConfig where = config("eager");
  where.devices.capture_steps = false;
  Estimator(how, where).train(input);
  const Values eager = latest_values(where.model_dir);
  where = config("captured");
  Estimator(how, where).train(input);
  EXPECT_EQ(latest_values(where.model_dir), eager);
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(where.model_dir)), 10);
}

TEST_F(Gpu, AStepThatCannotBeCapturedIsMadeEagerly) {
  RunConfig where = config("eager");
  where.devices.capture_steps = false;
  const Values eager = train(options<Curious>(), where);
  EXPECT_EQ(train(options<Curious>(), config("refused")), eager);
}

TEST_F(Gpu, ResumesToTheBit) {
  const Values whole = train(options<LibtorchDraws>(), config("whole"), 41);
  for (const std::int64_t stop : {7, 19, 26, 41}) {
    train(options<LibtorchDraws>(), config("parts"), stop);
  }
  EXPECT_EQ(latest_values(folder / "parts"), whole);
}

TEST_F(Gpu, TwoTowersGiveTheBitsOfTwoReplicasInTurn) {
  const Values towers = train(options(), config("towers", {"cuda:0", "cuda:0"}));
  RunConfig in_turn = config("in_turn");
  in_turn.reproducibility.replicas = 2;
  EXPECT_EQ(train(options(), in_turn), towers);
  EXPECT_NE(train(options(), config("one")), towers);
}

TEST_F(Gpu, LogicalDevicesGiveTheBitsOfReplicasInTurn) {
  expect_logical_as_in_turn(options(), /*devices=*/2, /*replicas=*/2);
}

TEST_F(Gpu, CapturedStepsOfLogicalDevicesAreThoseOfEagerOnes) {
  expect_captured_as_eager(options(), logical("", 2));
}

TEST_F(Gpu, LogicalDevicesTakeMoreReplicasThanThereAreInRounds) {
  expect_logical_as_in_turn(options(), /*devices=*/3, /*replicas=*/7);
}

TEST_F(Gpu, LogicalDevicesClipAndAverageLikeOne) {
  EstimatorOptions how = options();
  how.clip = {.global_norm = 0.2};
  how.moving_average = MovingAverageOptions{.decay = 0.9};
  how.optimizer = adam({.learning_rate = 0.01});
  expect_logical_as_in_turn(how, /*devices=*/4, /*replicas=*/4);
}

TEST_F(Gpu, LogicalDevicesTrainInBfloat16LikeOne) {
  expect_logical_as_in_turn(options(), /*devices=*/2, /*replicas=*/2, training_input,
                            ComputeType::kBfloat16);
}

TEST_F(Gpu, LogicalDevicesDrawFromLibtorchsGeneratorLikeOne) {
  expect_logical_as_in_turn(options<LibtorchDraws>(), /*devices=*/2, /*replicas=*/2);
}

// 10, 11 and 12 batches, and a small one: such steps are not captured.
TEST_F(Gpu, LogicalDevicesGoOnWhileSomeReplicasHaveNoBatch) {
  const auto input = [](const InputContext& in) {
    const auto batches = 10 + static_cast<std::int64_t>(in.shard_index());
    return range(8 * batches + 4).map(example).batch(8, collate_examples);
  };
  expect_logical_as_in_turn(options(), /*devices=*/3, /*replicas=*/3, input);
}

TEST_F(Gpu, AStepOfLogicalDevicesThatCannotBeCapturedIsMadeEagerly) {
  expect_logical_as_in_turn(options<Curious>(), /*devices=*/2, /*replicas=*/2);
}

/// Every third one that is made begins its forwards some milliseconds late.
template <int kRemainder>
struct Late : OwnDraws {
  torch::Tensor forward(const Features& x) override {
    const torch::Tensor result = OwnDraws::forward(x);
    if (number % 3 != kRemainder) return result;
    torch::Tensor product = torch::full({2048, 2048}, 1.0 / 2048, x.tensor("x").options());
    for (int i = 0; i < 16; ++i) product = product.matmul(product);
    return result + product.sum() * 0;
  }
  static inline std::atomic<int> made = 0;
  int number = made++;
};

// No device reads or writes memory that another has not finished with, whichever is behind.
TEST_F(Gpu, LogicalDevicesWaitForEachOther) {
  expect_logical_as_in_turn(options<Late<0>>(), /*devices=*/2, /*replicas=*/4);
  expect_logical_as_in_turn(options<Late<1>>(), /*devices=*/2, /*replicas=*/4);
  expect_logical_as_in_turn(options<Late<2>>(), /*devices=*/2, /*replicas=*/4);
}

TEST_F(Gpu, LogicalDevicesResumeToTheBit) {
  const Values whole = train(options(), logical("whole", 2), 41);
  for (const std::int64_t stop : {7, 19, 26, 41}) train(options(), logical("parts", 2), stop);
  EXPECT_EQ(latest_values(folder / "parts"), whole);
}

TEST_F(Gpu, SeveralGpusGiveTheBitsOfReplicasInTurn) {
  if (gpu_count() < 2) GTEST_SKIP() << "there is one GPU";
  RunConfig in_turn = config("in_turn");
  in_turn.reproducibility.replicas = 4;
  const Values expected = train(options(), in_turn);
  for (const bool capture : {false, true}) {
    RunConfig where = config(capture ? "captured" : "eager", {"cuda:0", "cuda:1"});
    where.reproducibility.replicas = 4;
    where.devices.capture_steps = capture;
    forwards = 0;
    EXPECT_EQ(train(options(), where), expected) << where.model_dir.string();
    EXPECT_LT(forwards, capture ? 40 : 81);
  }
}

TEST_F(Gpu, VariablesOnTheCpuTrainWithTowersOnTheGpu) {
  RunConfig where = config("towers", {"cuda:0", "cuda:0"});
  where.devices.variable_strategy = VariableStrategy::kCpu;
  const Values towers = train(options(), where);
  where.model_dir = folder / "in_turn";
  where.devices.names = {"cuda:0"};
  where.reproducibility.replicas = 2;
  EXPECT_EQ(train(options(), where), towers);
  // Updates are the same on either side; forwards and backwards are the GPU's in both.
  EXPECT_EQ(train(options(), config("home", {"cuda:0", "cuda:0"})), towers);
}

// Batch 5 of the stream has values that are no numbers.
Dataset<Batch> poisoned_input(const InputContext&) {
  return range(160).map(example).batch(8, [](std::span<const Example> examples) {
    Batch batch = collate_examples(examples);
    if (examples[0].x == example(40).x)
      batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
    return batch;
  });
}

TEST_F(Gpu, CapturedTowersGiveTheBitsOfEagerOnesWhereTheCpuHasTheVariables) {
  for (const std::int64_t replicas : {1, 3}) {
    RunConfig where = config("");
    where.devices.variable_strategy = VariableStrategy::kCpu;
    where.reproducibility.replicas = replicas;
    expect_captured_as_eager(options(), where);
    where.model_dir = folder / "home";
    where.devices.variable_strategy = VariableStrategy::kDevices;
    EXPECT_EQ(train(options(), where), latest_values(folder / "captured"));
    for (const char* run : {"eager", "captured", "home"}) {
      std::filesystem::remove_all((folder / run).string());
    }
  }
}

// Batch norm's averages come to the primary with every step, and a step that is skipped leaves
// them.
TEST_F(Gpu, CapturedTowersSkipABadBatchWhereTheCpuHasTheVariables) {
  EstimatorOptions how = options();
  how.nan_policy.action = NanPolicy::Action::kSkipBatch;
  RunConfig where = config("captured");
  where.devices.variable_strategy = VariableStrategy::kCpu;
  EXPECT_EQ(Estimator(how, where).train(poisoned_input).steps, 19);
  const Values captured = latest_values(where.model_dir);
  where.model_dir = folder / "eager";
  where.devices.capture_steps = false;
  Estimator(how, where).train(poisoned_input);
  EXPECT_EQ(latest_values(where.model_dir), captured);
}

TEST_F(Gpu, TowersOnSeveralDevicesShareTheirVariables) {
  const Values mixed = train(options(), config("mixed", {"cuda:0", "cpu"}));
  EXPECT_EQ(train(options(), config("again", {"cuda:0", "cpu"})), mixed);
  Estimator estimator(options(), config("mixed"));
  EXPECT_LT(estimator.evaluate(evaluation_input).at("loss"), 1.2);
}

TEST_F(Gpu, ALossThatIsNotFiniteStopsWithItsStepNamed) {
  for (const bool capture : {true, false}) {
    RunConfig where = config(capture ? "captured" : "eager");
    where.devices.capture_steps = capture;
    Estimator estimator(options(), where);
    EXPECT_THAT(error_of([&] { estimator.train(poisoned_input); }), HasSubstr("loss of step 6"));
    EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 0);
  }
}

// The sixth batch of replica 1, which is on the second device, has values that are no numbers.
Dataset<Batch> poisoned_shard(const InputContext& in) {
  return range(160).shard(in).map(example).batch(
      8, [is_second = in.shard_index() == 1](std::span<const Example> examples) {
        Batch batch = collate_examples(examples);
        if (is_second && examples[0].x == example(81).x) {
          batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
        }
        return batch;
      });
}

TEST_F(Gpu, ALossThatIsNotFiniteOnAnotherDeviceStopsWithItsStepNamed) {
  for (const bool capture : {true, false}) {
    RunConfig where = logical(capture ? "captured" : "eager", 2);
    where.devices.capture_steps = capture;
    Estimator estimator(options(), where);
    EXPECT_THAT(error_of([&] { estimator.train(poisoned_shard); }), HasSubstr("loss of step 6"));
    EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 0);
  }
}

TEST_F(Gpu, LogicalDevicesSkipABadBatchLikeOne) {
  EstimatorOptions how = options();
  how.nan_policy.action = NanPolicy::Action::kSkipBatch;
  expect_logical_as_in_turn(how, /*devices=*/2, /*replicas=*/2, poisoned_shard);
}

TEST_F(Gpu, NothingBadIsSaved) {
  RunConfig where = config("run");
  where.checkpoints.save_checkpoints_steps = 5;
  EXPECT_THROW(Estimator(options(), where).train(poisoned_input), Aborted);
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(where.model_dir)), 5);
}

TEST_F(Gpu, SkipsABadBatchAndGoesOn) {
  EstimatorOptions how = options();
  how.nan_policy.action = NanPolicy::Action::kSkipBatch;
  Estimator estimator(how, config("run"));
  EXPECT_EQ(estimator.train(poisoned_input).steps, 19);
  EXPECT_TRUE(std::isfinite(estimator.evaluate(evaluation_input).at("loss")));
}

TEST_F(Gpu, TrainsInFloat16WithALossScale) {
  RunConfig where = config("run");
  where.reproducibility.precision = ComputeType::kFloat16;
  Estimator estimator(options(), where);
  estimator.train(training_input, {.max_steps = 60});
  EXPECT_LT(estimator.evaluate(evaluation_input).at("loss"), 1.2);
}

TEST_F(Gpu, TrainsWithKernelsThatWereTriedOut) {
  RunConfig where = config("run");
  where.reproducibility.deterministic = false;
  Estimator estimator(options(), where);
  estimator.train(training_input, {.max_steps = 60});
  EXPECT_LT(estimator.evaluate(evaluation_input).at("loss"), 1.2);
}

TEST_F(Gpu, ChecksLabelsBeforeTheyAreOutOfReach) {
  const auto input = [](const InputContext&) {
    return range(8).map(example).batch(8, [](std::span<const Example> examples) {
      Batch batch = collate_examples(examples);
      batch.labels.tensor(kLabel).fill_(7);
      return batch;
    });
  };
  Estimator estimator(options(), config("run"));
  EXPECT_THAT(error_of([&] { estimator.train(input); }), HasSubstr("label \"label\" is 7"));
}

/// Notes every loss, which makes the loop wait for each.
struct Losses : Hook {
  void after_run(Session& session) override { values.push_back(session.loss()); }
  std::vector<double> values;
};

TEST_F(Gpu, HooksSeeTheLossOfEveryRecordedStep) {
  std::vector<std::vector<double>> seen;
  for (const bool capture : {true, false}) {
    RunConfig where = config(capture ? "captured" : "eager");
    where.devices.capture_steps = capture;
    const auto losses = std::make_shared<Losses>();
    Estimator(options(), where).train(training_input, {.max_steps = 20, .hooks = {losses}});
    seen.push_back(losses->values);
  }
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[0].size(), 20);
}

/// Lets libtorch throw where the host would wait for the device in the middle of a step.
struct NoWaiting : Hook {
  void before_run(Session& session) override {
    if (session.global_step() < 5) return;  // The fourth step is captured, which waits once.
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  }
  void after_run(Session& /*session*/) override {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
};

TEST_F(Gpu, NoStepMakesTheHostWait) {
  EstimatorOptions how = options();
  how.clip = {.global_norm = 1.0};
  for (const bool capture : {true, false}) {
    for (RunConfig where : {config(capture ? "captured" : "eager"),
                            logical(capture ? "captured_logical" : "eager_logical", 3)}) {
      where.devices.capture_steps = capture;
      EXPECT_EQ(
          Estimator(how, where)
              .train(training_input, {.max_steps = 20, .hooks = {std::make_shared<NoWaiting>()}})
              .steps,
          20);
    }
  }
  // The check finds waits: a step whose loss is asked for does wait.
  EXPECT_THROW(
      Estimator(options<Curious>(), config("curious"))
          .train(training_input, {.max_steps = 20, .hooks = {std::make_shared<NoWaiting>()}}),
      Internal);
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}

TEST_F(Gpu, EvaluatesAndPredictsAsTheCpuDoes) {
  Estimator on_gpu(options(), config("run"));
  on_gpu.train(training_input, {.max_steps = 60});
  Estimator on_cpu(options(), config("run", {"cpu"}));
  const auto gpu = on_gpu.evaluate(evaluation_input);
  const auto cpu = on_cpu.evaluate(evaluation_input);
  EXPECT_NEAR(gpu.at("loss"), cpu.at("loss"), 1e-4);
  EXPECT_EQ(gpu.at("accuracy"), cpu.at("accuracy"));
  const Features features = collate_examples(std::vector{example(1), example(2)}).features;
  const auto there = Predictor(options(), folder / "run", "cuda:0").predict(features);
  const auto here = Predictor(options(), folder / "run").predict(features);
  EXPECT_TRUE(there.tensor("probabilities").is_cpu());
  EXPECT_TRUE(
      at::allclose(there.tensor("probabilities"), here.tensor("probabilities"), 1e-4, 1e-5));
}

TEST_F(Gpu, DropoutDropsTheSameValuesOnEveryDevice) {
  Dropout dropout(0.3);
  dropout.seed_from(0, "some.layer");
  const auto input = torch::ones({37, 11});
  const auto on_cpu = [&] {
    const RandomScope scope(1, 2, 3);
    dropout.forward(input);
    return dropout.forward(input);
  }();
  const auto on_gpu = [&] {
    const RandomScope scope(1, 2, 3);
    dropout.forward(input.cuda());
    return dropout.forward(input.cuda());
  }();
  EXPECT_TRUE(at::allclose(on_gpu.cpu(), on_cpu, 1e-6, 0.0));
  const auto key = torch::full({1}, static_cast<std::int64_t>(RandomScope::key_of(1, 2, 3)),
                               torch::dtype(torch::kLong).device(torch::kCUDA));
  RandomScope scope(reinterpret_cast<const std::uint64_t*>(key.data_ptr<std::int64_t>()));
  dropout.forward(input.cuda());
  EXPECT_TRUE(at::equal(dropout.forward(input.cuda()), on_gpu));
}

/// Values and slots after five updates with weight decay for some variables.
std::vector<at::Tensor> updated_on(c10::Device device, const Optimizer& optimizer) {
  struct Net : torch::nn::Module {
    Net() {
      kernel = register_parameter("kernel", torch::randn({300, 7}));
      bias = register_parameter("bias", torch::randn({19}));
    }
    torch::Tensor kernel, bias;
  };
  torch::manual_seed(3);
  Net net;
  const at::Tensor noise = torch::randn({5, 300 * 7 + 12 + 32});
  net.to(device);
  const Variables variables = Variables::adopt(net);
  Updater updater(variables, {{"", optimizer}});
  const WeightDecay decay{.factor = 0.125,
                          .filter = [](std::string_view name) { return name == "kernel"; }};
  Gradients gradients = variables.make_gradients();
  const auto on_device = at::TensorOptions().device(device);
  DeviceArguments update{.decay = decay.factor,
                         .decayed = decay_mask(variables, decay).to(device),
                         .squares = at::zeros({static_cast<std::int64_t>(updater.squares_size())},
                                              on_device.dtype(at::kDouble)),
                         .losses = at::ones({1}, on_device),
                         .step = at::zeros({1}, on_device.dtype(at::kLong)),
                         .bad_step = at::zeros({1}, on_device.dtype(at::kLong))};
  for (std::int64_t step = 0; step < 5; ++step) {
    for (const Variable& variable : variables.all()) {
      gradients.of(variable).copy_(noise[step]
                                       .narrow(0, variable.offset, variable.value.numel())
                                       .view(variable.value.sizes()));
    }
    if (device.is_cpu()) {
      add_weight_decay(variables, gradients, decay);
      updater.apply(gradients, step);
      continue;
    }
    const at::Tensor words =
        at::zeros({static_cast<std::int64_t>(updater.constants_size())}, at::kLong);
    updater.write_constants(
        step, {words.data_ptr<std::int64_t>(), static_cast<std::size_t>(words.numel())});
    update.constants = words.to(device);
    updater.apply(gradients, update);
  }
  std::vector<at::Tensor> values{variables.flat().cpu()};
  for (const auto& slot : updater.tensors()) values.push_back(slot.tensor.cpu());
  return values;
}

TEST_F(Gpu, UpdatesHaveTheBitsOfTheCpus) {
  const std::vector<Optimizer> optimizers{
      sgd({.learning_rate = 0.1}),
      momentum({.learning_rate = 0.1, .momentum = 0.9}),
      momentum({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
      adagrad({.learning_rate = 0.1}),
      proximal_adagrad({.learning_rate = 0.1, .l1 = 0.01}),
      adam({.learning_rate = 0.1}),
      adamw({.learning_rate = 0.1, .weight_decay = 0.01}),
      rmsprop({.learning_rate = 0.1}),
      rmsprop({.learning_rate = 0.1, .centered = true}),
      ftrl({.learning_rate = 0.1, .l1 = 0.01}),
      lion({.learning_rate = 0.1, .weight_decay = 0.01})};
  for (const Optimizer& optimizer : optimizers) {
    const auto cpu = updated_on(at::kCPU, optimizer);
    const auto gpu = updated_on(at::kCUDA, optimizer);
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      EXPECT_TRUE(at::equal(gpu[i], cpu[i])) << optimizer.description() << " tensor " << i;
    }
  }
}

}  // namespace
}  // namespace muster
