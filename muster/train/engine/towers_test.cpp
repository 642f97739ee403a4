#include "muster/train/engine/towers.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/nn/model/recompute.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/engine/run_state.h"
#include "muster/train/engine/tower_options.h"
#include "muster/train/estimator/predictor.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using namespace small_net;  // NOLINT(google-build-using-namespace): the subject of every test here
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempDir;

TEST(CpuTowers, GiveTheBitsOfAsManyReplicasInTurn) {
  const TempDir folder;
  RunConfig towers = quiet_config(folder / "towers");
  towers.devices.names = {"cpu", "cpu", "cpu"};
  Estimator(small_options(), towers).train(training_input, {.max_steps = 9});
  RunConfig in_turn = quiet_config(folder / "in_turn");
  in_turn.devices.names = {"cpu"};
  in_turn.reproducibility.replicas = 3;
  in_turn.devices.concurrent_replicas = 1;
  Estimator(small_options(), in_turn).train(training_input, {.max_steps = 9});
  EXPECT_EQ(latest_values(folder / "towers"), latest_values(folder / "in_turn"));
}

// The first step of three replicas.
PartialSums first_step(Towers& towers) {
  std::vector<std::optional<Batch>> batches;
  for (std::int64_t replica = 0; replica < 3; ++replica) {
    batches.push_back(
        training_input(InputContext(Mode::kTrain, /*replicas=*/3, replica, /*seed=*/5))
            .iterate()
            ->next());
  }
  return towers.run(batches, {0, 3}, /*step=*/0, /*loss_scale=*/1.0);
}

TEST(CpuTowers, LeaveTheMemoryOfGradientsToTheResultWhereTheyReleaseIt) {
  const EstimatorOptions options = small_options();
  for (const int concurrent : {1, 3}) {
    const TowerOptions keeps{.replicas = 3, .concurrent = concurrent, .may_discard = true};
    TowerOptions releases = keeps;
    releases.releases_gradients = true;
    Towers keeping(options.model, options.head.get(), keeps);
    Towers releasing(options.model, options.head.get(), releases);
    const PartialSums kept = first_step(keeping);
    const PartialSums released = first_step(releasing);
    const auto& flat = released.sums.at({0, 3})->flat;
    EXPECT_TRUE(flat.equal(kept.sums.at({0, 3})->flat));
    // Neither a view nor a pool has it.
    EXPECT_EQ(flat.storage().use_count(), 1U);
    EXPECT_EQ(flat.use_count(), 1U);
    EXPECT_GT(kept.sums.at({0, 3})->flat.use_count(), 1U);
    EXPECT_TRUE(first_step(releasing).sums.at({0, 3})->flat.equal(flat)) << "a second time";
  }
}

/// A layer that can be computed again, with dropout and batch norm.
struct AgainNet : Model {
  struct Layer : torch::nn::Module, Recomputable {
    Layer() {
      norm = register_module("norm", torch::nn::BatchNorm1d(kInputs));
      dropout = register_module("dropout", std::make_shared<Dropout>(0.25));
    }
    torch::Tensor forward(const torch::Tensor& x) {
      return recomputed(*this, {x}, [this](auto inputs) {
        ++forwards;
        return torch::sigmoid(dropout->forward(norm->forward(inputs[0])));
      });
    }
    torch::nn::BatchNorm1d norm{nullptr};
    std::shared_ptr<Dropout> dropout;
    std::int64_t forwards = 0;
  };

  explicit AgainNet(std::shared_ptr<std::int64_t> count = nullptr) : forwards(std::move(count)) {
    layer = register_module("layer", std::make_shared<Layer>());
    logits = register_module("logits", torch::nn::Linear(kInputs, kClasses));
  }
  ~AgainNet() override {
    if (forwards) *forwards += layer->forwards;
  }
  bool draws_from_libtorch() const override { return false; }
  torch::Tensor forward(const Features& x) override {
    return logits->forward(layer->forward(x.tensor("x")));
  }
  std::shared_ptr<std::int64_t> forwards;
  std::shared_ptr<Layer> layer;
  torch::nn::Linear logits{nullptr};
};

TEST(CpuTowers, ComputeAgainTheModulesThatAreNamedWithTheSameBits) {
  const TempDir folder;
  const auto forwards_of = [&](const std::string& name, const std::string& recompute) {
    const auto forwards = std::make_shared<std::int64_t>(0);
    EstimatorOptions options = small_options();
    options.model = [forwards] { return std::make_shared<AgainNet>(forwards); };
    RunConfig config = quiet_config(folder / name);
    config.reproducibility.replicas = 2;
    config.recompute = recompute;
    Estimator(options, config).train(training_input, {.max_steps = 5});
    return *forwards;
  };
  EXPECT_EQ(forwards_of("kept", ""), 10);
  EXPECT_EQ(forwards_of("again", "lay.*"), 20);
  EXPECT_EQ(latest_values(folder / "kept"), latest_values(folder / "again"));
  EXPECT_THAT(error_of([&] { forwards_of("none", "layers"); }),
              HasSubstr("recompute \"layers\" is the name of no module that can be computed again; "
                        "such are layer"));
}

// Batches whose rows have fewer values than the model's first layer takes.
Dataset<Batch> narrow_batches(const InputContext&) {
  return generate([](std::uint64_t) {
    return std::optional(make_batch(Features{{"x", torch::zeros({4, kInputs - 1})}},
                                    torch::zeros({4, 1}, torch::kLong)));
  });
}

/// Made of libtorch's layers alone, whose errors are its own.
struct LibtorchNet : Model {
  LibtorchNet() { logits = register_module("logits", torch::nn::Linear(kInputs, kClasses)); }
  torch::Tensor forward(const Features& x) override { return logits->forward(x.tensor("x")); }
  torch::nn::Linear logits{nullptr};
};

TEST(CpuTowers, AnErrorOfLibtorchNamesTheStepTheReplicaAndTheBatch) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.model = [] { return std::make_shared<LibtorchNet>(); };
  const auto names_the_batch = AllOf(HasSubstr("features x: "), HasSubstr("[4, 7]; labels label: "),
                                     HasSubstr("[4, 1]: mat1 and mat2"));
  Estimator fails(options, quiet_config(folder / "fails"));
  EXPECT_THAT(error_of([&] { fails.train(narrow_batches, {.steps = 1}); }),
              AllOf(HasSubstr("training step 1: replica 0 with "), names_the_batch));
  Estimator estimator(options, quiet_config(folder / "evaluates"));
  estimator.train(training_input, {.steps = 1});
  EXPECT_THAT(error_of([&] { estimator.evaluate(narrow_batches, {.steps = 1}); }),
              AllOf(HasSubstr("evaluating batch 1: a batch with "), names_the_batch));
}

TEST(CpuTowers, KeepTheirVariablesOnTheCpuWhateverTheStrategy) {
  const TempDir folder;
  std::vector<std::map<std::string, std::string>> outcomes;
  for (const auto where : {VariableStrategy::kCpu, VariableStrategy::kDevices}) {
    RunConfig config = quiet_config(folder / std::to_string(outcomes.size()));
    config.devices.names = {"cpu", "cpu"};
    config.devices.variable_strategy = where;
    Estimator(small_options(), config).train(training_input, {.max_steps = 5});
    outcomes.push_back(latest_values(config.model_dir));
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
}

/// Notes where the parameters lie that forwards read.
struct NotesAddresses : SmallNet {
  torch::Tensor forward(const Features& x) override {
    const std::lock_guard lock(mutex);
    addresses.insert(logits->weight.data_ptr());
    return SmallNet::forward(x);
  }
  static inline std::mutex mutex;
  static inline std::set<const void*> addresses;
};

struct LogicalDevices : ::testing::Test {
  static EstimatorOptions options() {
    EstimatorOptions options = small_options();
    options.model = [] { return std::make_shared<NotesAddresses>(); };
    options.weight_decay.factor = 0.01;
    options.moving_average = MovingAverageOptions{.decay = 0.9};
    return options;
  }
  /// Three devices, if they are logical, for this many replicas.
  RunConfig config(bool logical, std::int64_t replicas) const {
    RunConfig config = quiet_config(folder / (logical ? "logical" : "in_turn"));
    config.devices.names = std::vector<std::string>(logical ? 3 : 1, "cpu");
    config.devices.logical_devices = logical;
    if (!logical) config.devices.concurrent_replicas = 1;
    config.reproducibility.replicas = replicas;
    return config;
  }
  /// Trains with logical devices, and then in turn on one: all that is saved is the same.
  void expect_same(const EstimatorOptions& how, const InputFn& input, std::int64_t replicas,
                   const TrainOptions& train) const {
    NotesAddresses::addresses.clear();
    Estimator(how, config(true, replicas)).train(input, train);
    EXPECT_EQ(NotesAddresses::addresses.size(), 3) << "each device has a copy of the variables";
    NotesAddresses::addresses.clear();
    Estimator(how, config(false, replicas)).train(input, train);
    EXPECT_EQ(NotesAddresses::addresses.size(), 1);
    EXPECT_EQ(latest_values(folder / "logical"), latest_values(folder / "in_turn"));
  }

  TempDir folder;
};

TEST_F(LogicalDevices, GiveTheBitsOfAsManyReplicasInTurn) {
  expect_same(options(), training_input, /*replicas=*/3, {.max_steps = 9});
}

TEST_F(LogicalDevices, TakeMoreReplicasThanThereAreInRounds) {
  expect_same(options(), training_input, /*replicas=*/7, {.max_steps = 9});
}

TEST_F(LogicalDevices, GoOnWhileSomeReplicasHaveNoBatch) {
  // 3, 4, 5 and 6 batches: that of replica 0, on the primary, ends first.
  const auto input = [](const InputContext& in) {
    const auto batches = 3 + static_cast<std::int64_t>(in.shard_index());
    return range(4 * batches).map(example).batch(4, collate_examples);
  };
  expect_same(options(), input, /*replicas=*/4, {});
}

TEST_F(LogicalDevices, ResumeToTheBit) {
  for (const std::int64_t stop : {4, 9}) {
    Estimator(options(), config(true, 3)).train(training_input, {.max_steps = stop});
  }
  Estimator(options(), config(false, 3)).train(training_input, {.max_steps = 9});
  EXPECT_EQ(latest_values(folder / "logical"), latest_values(folder / "in_turn"));
}

// The input of replica 1 has values that are no numbers in its third batch.
Dataset<Batch> poisoned_batches(const InputContext& in) {
  return range(96).shard(in).map(example).batch(8, [](std::span<const Example> examples) {
    Batch batch = collate_examples(examples);
    for (const Example& one : examples) {
      if (one.x != example(49).x) continue;
      batch.features.tensor("x").fill_(std::numeric_limits<float>::quiet_NaN());
    }
    return batch;
  });
}

TEST_F(LogicalDevices, ALossThatIsNotFiniteElsewhereStopsTheRunWithItsStep) {
  Estimator estimator(options(), config(true, 3));
  EXPECT_THAT(error_of([&] { estimator.train(poisoned_batches); }), HasSubstr("loss of step 3"));
  EXPECT_EQ(checkpoint_step(*estimator.latest_checkpoint()), 0);
}

TEST_F(LogicalDevices, SkipABadBatchWithAllThatItChanged) {
  EstimatorOptions how = options();
  how.nan_policy.action = NanPolicy::Action::kSkipBatch;
  expect_same(how, poisoned_batches, /*replicas=*/3, {});
  EXPECT_EQ(checkpoint_step(*latest_checkpoint(folder / "logical")), 3);
}

TEST_F(LogicalDevices, AnErrorOfOneNamesItsReplica) {
  const auto input = [](const InputContext& in) {
    return generate([shard = in.shard_index()](std::uint64_t) {
      const std::int64_t width = shard == 2 ? kInputs - 1 : kInputs;
      return std::optional(make_batch(Features{{"x", torch::zeros({4, width})}},
                                      torch::zeros({4, 1}, torch::kLong)));
    });
  };
  EstimatorOptions how = options();
  how.model = [] { return std::make_shared<LibtorchNet>(); };
  Estimator estimator(how, config(true, 3));
  EXPECT_THAT(error_of([&] { estimator.train(input, {.steps = 1}); }),
              HasSubstr("training step 1: replica 2 with "));
}

TEST(CpuTowers, ADeviceThatIsNotThereIsAnErrorThatSaysWhatIs) {
  const TempDir folder;
  RunConfig config = quiet_config(folder.path());
  config.devices.names = {"cuda:77"};
  Estimator estimator(small_options(), config);
  EXPECT_THAT(error_of([&] { estimator.train(training_input, {.max_steps = 1}); }),
              HasSubstr("\"cuda:77\", which is not there; there are: cpu"));
}

TEST(CpuTowers, APredictorSaysWhatDevicesThereAre) {
  const TempDir folder;
  Estimator estimator(small_options(), quiet_config(folder.path()));
  estimator.train(training_input, {.max_steps = 1});
  EXPECT_THAT(error_of([&] { Predictor(small_options(), folder.path(), "tpu"); }),
              HasSubstr("\"tpu\", which is no device"));
}

}  // namespace
}  // namespace muster
