#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/features/collate.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/dropout.h"
#include "muster/nn/model/model.h"
#include "muster/train/estimator/estimator.h"

/// A small problem with a small model, for tests of training.
namespace muster::small_net {

inline constexpr std::int64_t kInputs = 8;
inline constexpr std::int64_t kClasses = 3;

// Dropout, batch norm and a layer of libtorch's own: everything whose bits could depend on the
// layout.
struct SmallNet : Model {
  SmallNet() {
    hidden = register_module("hidden", std::make_shared<Dense>(kInputs, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    dropout = register_module("dropout", std::make_shared<Dropout>(0.25));
    logits = register_module("logits", torch::nn::Linear(16, kClasses));
  }
  torch::Tensor forward(const Features& x) override {
    return logits->forward(
        dropout->forward(torch::relu(norm->forward(hidden->forward(x.tensor("x"))))));
  }
  std::shared_ptr<Dense> hidden;
  torch::nn::BatchNorm1d norm{nullptr};
  std::shared_ptr<Dropout> dropout;
  torch::nn::Linear logits{nullptr};
};

// A model with a function that TensorFlow's graphs do not have.
struct BesselNet : Model {
  BesselNet() { logits = register_module("logits", torch::nn::Linear(kInputs, kClasses)); }
  torch::Tensor forward(const Features& x) override {
    return torch::i0(logits->forward(x.tensor("x")));
  }
  torch::nn::Linear logits{nullptr};
};

struct Example {
  std::vector<float> x;
  std::int64_t label = 0;
};

inline Example example(std::int64_t number) {
  Random random(11, 0, static_cast<std::uint64_t>(number));
  Example result;
  double sum = 0;
  for (std::int64_t i = 0; i < kInputs; ++i) {
    result.x.push_back(static_cast<float>(random.uniform(-1, 1)));
    sum += result.x.back() * static_cast<double>(i % 3 - 1);
  }
  result.label = sum < -0.4 ? 0 : sum > 0.4 ? 2 : 1;
  return result;
}

inline Batch collate_examples(std::span<const Example> examples) {
  std::vector<float> x;
  std::vector<std::int64_t> labels;
  for (const auto& one : examples) {
    x.insert(x.end(), one.x.begin(), one.x.end());
    labels.push_back(one.label);
  }
  const auto rows = static_cast<std::int64_t>(examples.size());
  return make_batch(Features{{"x", tensor_of(std::move(x), {rows, kInputs})}},
                    tensor_of(std::move(labels), {rows, 1}));
}

// Shuffled, with noise that is drawn for each element, in batches of 8, for ever.
inline Dataset<Batch> training_input(const InputContext& in) {
  return range(200)
      .shuffle(50, in.seed())
      .shard(in)
      .repeat()
      .map([](std::int64_t number, Random& random) {
        Example one = example(number);
        for (auto& value : one.x) value += static_cast<float>(0.01 * random.normal());
        return one;
      })
      .batch(8, collate_examples)
      .prefetch(2);
}

inline Dataset<Batch> evaluation_input(const InputContext&) {
  return range(120).map(example).batch(16, collate_examples);
}

inline EstimatorOptions small_options() {
  return {.model = [] { return std::make_shared<SmallNet>(); },
          .head = multi_class_head(kClasses),
          .optimizer = adam({.learning_rate = 0.01})};
}

inline RunConfig quiet_config(const Path& folder) {
  RunConfig config;
  config.model_dir = folder;
  config.reproducibility.tf_random_seed = 5;
  config.log_step_count_steps = 0;
  config.save_summary_steps = 0;
  config.reproducibility.threads_per_replica = 1;
  return config;
}

// Every tensor of the latest checkpoint, as bytes.
inline std::map<std::string, std::string> latest_values(const Path& folder) {
  const BundleReader bundle(*latest_checkpoint(folder));
  std::map<std::string, std::string> values;
  for (const auto& name : bundle.names()) {
    const TensorData data = bundle.read(name);
    values[name] = std::string(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
  }
  return values;
}

template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace muster::small_net
