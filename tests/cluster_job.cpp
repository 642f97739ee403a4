// A small training that is run as tasks of a cluster by tests: a wide and deep
// model with batch norm and dropout, two optimizers, tables by rows and clipping by global norm, so
// that everything whose bits could depend on the layout is there. With --on-device a small
// transformer whose gradients are summed on GPUs, or on CPUs as if they were.
#include "tests/cluster_job.h"

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/flags/flags.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/data/features/collate.h"
#include "muster/data/features/column_set.h"
#include "muster/distribution/collective.h"
#include "muster/distribution/parameter_server.h"
#include "muster/nn/device/gpu.h"
#include "muster/nn/model/dropout.h"
#include "muster/nn/model/wide_and_deep.h"
#include "muster/run/train_and_evaluate.h"
#include "muster/train/estimator/estimator.h"

namespace {

using muster::Batch;
using muster::ColumnUse;

struct Flags {
  std::string model_dir;
  std::int64_t steps = 50;
  std::int64_t replicas = 0;
  std::int64_t save_steps = 1000;
  int concurrent = 1;
  std::int64_t examples = 0;
  std::int64_t slice_above = 1024;
  std::int64_t step_ms = 0;
  std::int64_t last_save_ms = 0;
  std::int64_t peer_timeout_ms = 3000;
  std::int64_t join_timeout_ms = 20000;
  std::int64_t session_timeout_secs = 7200;
  std::uint64_t seed = 3;
  bool sync = true;
  std::int64_t max_staleness = 0;
  std::int64_t backup_replicas = 0;
  std::int64_t nan_at = -1;
  double rate = 0.05;
  std::int64_t batch = 8;
  bool tells_batch = true;
  bool evaluates = false;
  bool on_device = false;
  std::size_t logical_devices = 0;
  bool ps_log = false;
  std::uint64_t ps_log_bytes = std::uint64_t{64} << 20;
  std::uint64_t part_bytes = std::uint64_t{64} << 20;
  std::int64_t words = 50;
  int embedding = 4;
  std::int64_t hidden = 64;
  std::string compile = "off";
  std::string sharding = "off";
};

struct Example {
  float a = 0, b = 0;
  std::int64_t word = 0, label = 0;
};

Example example(std::int64_t number) {
  muster::Random random(11, 0, static_cast<std::uint64_t>(number));
  Example one{.a = static_cast<float>(random.uniform(-1, 1)),
              .b = static_cast<float>(random.uniform(-1, 1)),
              .word = static_cast<std::int64_t>(random.uniform(0, 50))};
  one.label = one.a + one.b * 0.5 + static_cast<double>(one.word % 3 - 1) > 0 ? 1 : 0;
  return one;
}

Batch collate(std::span<const Example> examples) {
  std::vector<float> a, b;
  std::vector<std::int64_t> words, labels;
  for (const Example& one : examples) {
    a.push_back(one.a);
    b.push_back(one.b);
    words.push_back(one.word);
    labels.push_back(one.label);
  }
  const auto rows = static_cast<std::int64_t>(examples.size());
  return muster::make_batch(
      muster::Features{{"a", muster::tensor_of(std::move(a), {rows, 1})},
                       {"b", muster::tensor_of(std::move(b), {rows, 1})},
                       {"word", muster::tensor_of(std::move(words), {rows, 1})}},
      muster::tensor_of(std::move(labels), {rows, 1}));
}

muster::InputFn input(const Flags& flags) {
  return [flags](const muster::InputContext& in) {
    auto numbers =
        muster::range(flags.examples > 0 ? flags.examples : 500).shuffle(50, in.seed()).shard(in);
    if (flags.examples == 0) numbers = numbers.repeat();
    // If the input ends, one replica has fewer examples than the others.
    if (flags.examples > 0 && in.shard_index() == 1) numbers = numbers.take(20);
    return numbers
        .map([flags](std::int64_t number, muster::Random& random) {
          Example one = example(number);
          one.a += static_cast<float>(0.01 * random.normal());
          if (number == flags.nan_at) one.a = std::nanf("");
          return one;
        })
        .batch(flags.batch, collate)
        .map([flags](Batch batch) {
          std::this_thread::sleep_for(std::chrono::milliseconds(flags.step_ms));
          return batch;
        });
  };
}

/// An attention layer between two dense ones, with batch norm and dropout.
struct SmallTransformer : muster::Model {
  static constexpr std::int64_t kTokens = 4, kWidth = 8;

  SmallTransformer() {
    tokens = register_module("tokens", torch::nn::Linear(2, kTokens * kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    attention = register_module("attention", torch::nn::Linear(kWidth, 3 * kWidth));
    batch_norm = register_module("batch_norm", torch::nn::BatchNorm1d(kTokens * kWidth));
    dropout = register_module("dropout", std::make_shared<muster::Dropout>(0.2));
    logits = register_module("logits", torch::nn::Linear(kTokens * kWidth, 1));
  }
  bool draws_from_libtorch() const override { return false; }
  torch::Tensor forward(const muster::Features& x) override {
    const auto rows = x.tensor("a").size(0);
    auto y = tokens(torch::cat({x.tensor("a"), x.tensor("b")}, 1)).view({rows, kTokens, kWidth});
    const auto parts = attention(norm(y)).chunk(3, -1);
    const auto weights = torch::softmax(parts[0].matmul(parts[1].transpose(1, 2)), -1);
    y = (y + weights.matmul(parts[2])).reshape({rows, kTokens * kWidth});
    return logits(dropout->forward(torch::relu(batch_norm(y))));
  }

  torch::nn::Linear tokens{nullptr}, attention{nullptr}, logits{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::BatchNorm1d batch_norm{nullptr};
  std::shared_ptr<muster::Dropout> dropout;
};

muster::EstimatorOptions transformer_options(const Flags& flags) {
  return {.model = [] { return std::make_shared<SmallTransformer>(); },
          .head = muster::binary_class_head(),
          .optimizer = muster::adam({.learning_rate = flags.rate}),
          .weight_decay = {.factor = 1e-3},
          .moving_average = muster::MovingAverageOptions{.decay = 0.9}};
}

// NCCL takes tasks that share a GPU for one unless they are of several hosts.
void be_a_host() {
  const std::string id = std::to_string(::getpid());
  ::setenv("NCCL_HOSTID", id.c_str(), /*overwrite=*/0);
  ::setenv("NCCL_SOCKET_IFNAME", "lo", /*overwrite=*/0);
}

muster::Estimator make_estimator(const Flags& flags) {
  const auto word = muster::categorical_column_with_identity("word", flags.words);
  const auto a = muster::numeric_column("a");
  const auto b = muster::numeric_column("b");
  const muster::WideAndDeepOptions options{
      .linear_columns = std::make_shared<const muster::ColumnSet>(
          muster::FeatureColumnList{word, a}, ColumnUse::kLinear),
      .dnn_columns = std::make_shared<const muster::ColumnSet>(
          muster::FeatureColumnList{muster::embedding_column(word, flags.embedding), a, b},
          ColumnUse::kInputLayer),
      .hidden_units = {flags.hidden, 32},
      .dropout = 0.2,
      .batch_norm = true};
  auto config = muster::RunConfig::from_env().with_model_dir(flags.model_dir);
  config.reproducibility.tf_random_seed = flags.seed;
  config.reproducibility.replicas = flags.replicas;
  config.devices.concurrent_replicas = flags.concurrent;
  config.reproducibility.compile =
      flags.compile == "on" ? muster::CompileMode::kOn : muster::CompileMode::kOff;
  config.reproducibility.threads_per_replica = 1;
  if (flags.logical_devices > 0) {
    const std::string device = muster::gpu_count() > 0 ? "cuda:0" : "cpu";
    config.devices.names = std::vector<std::string>(flags.logical_devices, device);
    config.devices.logical_devices = true;
  }
  config.checkpoints.save_checkpoints_steps = flags.save_steps;
  if (flags.sharding == "optimizer") config.sharding = muster::Sharding::kOptimizer;
  if (flags.sharding == "gradients") config.sharding = muster::Sharding::kGradients;
  if (flags.tells_batch) config.cluster.terms["--batch"] = std::to_string(flags.batch);
  config.cluster.ps_log = flags.ps_log;
  config.log_step_count_steps = 10;
  config.cluster.peer_timeout = std::chrono::milliseconds(flags.peer_timeout_ms);
  config.cluster.join_timeout = std::chrono::milliseconds(flags.join_timeout_ms);
  config.cluster.session_creation_timeout_secs = std::chrono::seconds(flags.session_timeout_secs);
  config.cluster.sync = flags.sync;
  config.cluster.max_staleness = flags.max_staleness;
  config.cluster.backup_replicas = flags.backup_replicas;
  if (config.cluster.task.num_ps_replicas > 0) {
    config.cluster.train_distribute = [flags](const muster::RunConfig& run) {
      return muster::make_parameter_server(run, {.part_bytes = flags.part_bytes});
    };
  } else if (!config.cluster.task.is_alone()) {
    config.cluster.train_distribute = [flags](const muster::RunConfig& run) {
      return muster::make_collective(
          run, {.slice_above = flags.slice_above, .host_counts_as_device = flags.on_device});
    };
  }
  if (flags.on_device) {
    if (muster::gpu_count() > 0) be_a_host();
    return muster::Estimator(transformer_options(flags), config);
  }
  return muster::Estimator(
      {.model = [=] { return std::make_shared<muster::WideAndDeep>(options); },
       .head = muster::binary_class_head(),
       .optimizer = {{"linear", muster::ftrl({.learning_rate = 0.1})},
                     {"dnn", muster::adagrad({flags.rate})}},
       .clip = {.global_norm = 0.5},
       .nan_policy = {.action = flags.nan_at < 0 ? muster::NanPolicy::Action::kStop
                                                 : muster::NanPolicy::Action::kSkipBatch}},
      config);
}

/// A disk that is slow when the last step is saved.
class SlowLastSave : public muster::CheckpointSaverListener {
 public:
  explicit SlowLastSave(const Flags& flags) : flags_(flags) {}
  void before_save(muster::Session&, std::int64_t step) override {
    if (step != flags_.steps) return;
    muster::log::info("the last save takes {} ms", flags_.last_save_ms);
    std::this_thread::sleep_for(std::chrono::milliseconds(flags_.last_save_ms));
  }

 private:
  const Flags flags_;
};

// As the task that TF_CONFIG says, an evaluator among them.
void train_and_evaluate(const Flags& flags) {
  auto estimator = make_estimator(flags);
  Flags few = flags;
  few.examples = 40;
  few.step_ms = 0;
  muster::train_and_evaluate(estimator, {.input_fn = input(flags), .max_steps = flags.steps},
                             {.input_fn = input(few),
                              .steps = std::nullopt,
                              .start_delay_secs = std::chrono::seconds(0),
                              .throttle_secs = std::chrono::seconds(1)});
}

}  // namespace

int muster::testing::run_cluster_job(int argc, char** argv) {
  Flags flags;
  muster::FlagSet set("Trains as one task of a cluster.");
  set.add("--model-dir", &flags.model_dir).required();
  set.add("--steps", &flags.steps);
  set.add("--replicas", &flags.replicas);
  set.add("--save-steps", &flags.save_steps);
  set.add("--concurrent", &flags.concurrent);
  set.add("--examples", &flags.examples, "The input ends after so many; 0: never");
  set.add("--slice-above", &flags.slice_above);
  set.add("--step-ms", &flags.step_ms, "Makes batches slow, so that others can interfere");
  set.add("--last-save-ms", &flags.last_save_ms, "How long the chief saves the last step");
  set.add("--peer-timeout-ms", &flags.peer_timeout_ms);
  set.add("--join-timeout-ms", &flags.join_timeout_ms);
  set.add("--session-timeout-secs", &flags.session_timeout_secs);
  set.add("--seed", &flags.seed);
  set.add("--rate", &flags.rate, "Of the optimizer of the deep part");
  set.add("--batch", &flags.batch);
  set.add("--tells-batch", &flags.tells_batch, "Compare it when tasks join");
  set.add("--ps-log", &flags.ps_log);
  set.add("--ps-log-bytes", &flags.ps_log_bytes);
  set.add("--part-bytes", &flags.part_bytes, "Of a part of a checkpoint that a ps writes");
  set.add("--words", &flags.words, "Rows of its tables, of which examples use 50");
  set.add("--embedding", &flags.embedding, "Columns of the table that is embedded");
  set.add("--compile", &flags.compile, "Compile training steps").one_of({"off", "on"});
  set.add("--hidden", &flags.hidden, "Units of the first layer of the deep part");
  set.add("--sharding", &flags.sharding).one_of({"off", "optimizer", "gradients"});
  set.add("--sync", &flags.sync, "False: ps apply every push as it comes");
  set.add("--max-staleness", &flags.max_staleness);
  set.add("--backup-replicas", &flags.backup_replicas);
  set.add("--nan-at", &flags.nan_at, "This example is not a number, and its batch is skipped");
  set.add("--on-device", &flags.on_device, "Sum on GPUs, or on CPUs as if they were");
  set.add("--logical-devices", &flags.logical_devices,
          "With --on-device: the device is so many, each with a copy of the variables");
  set.add("--evaluate", &flags.evaluates, "Train and evaluate, with evaluators among the tasks");
  if (!set.parse(argc, argv)) return 0;
  if (flags.evaluates) {
    train_and_evaluate(flags);
    return 0;
  }
  auto estimator = make_estimator(flags);
  if (estimator.config().cluster.task.task.type == muster::job::kPs) {
    muster::serve_parameters(estimator.options(), estimator.config(),
                             {.log_bytes = flags.ps_log_bytes});
    return 0;
  }
  muster::TrainOptions options{.max_steps = flags.steps};
  if (flags.last_save_ms > 0) {
    options.saving_listeners = {std::make_shared<SlowLastSave>(flags)};
  }
  estimator.train(input(flags), options);
  return 0;
}
