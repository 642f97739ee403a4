#include "muster/engine/towers.h"

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "muster/engine/run_state.h"
#include "muster/estimator/predictor.h"
#include "muster/estimator/small_net_internal.h"
#include "muster/testing/temp_dir.h"

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
