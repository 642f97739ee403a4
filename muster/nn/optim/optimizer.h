#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/nn/optim/learning_rate.h"

namespace muster {

/// The options of each optimizer. A learning rate without a default must be given. Formulas,
/// constants and slot names are TensorFlow 1.15's; g is the gradient, w the variable.

/// w -= rate * g.
struct SgdOptions {
  LearningRate learning_rate;
  /// Decoupled: w is first multiplied by 1 - rate * weight_decay, and no slot sees it.
  double weight_decay = 0.0;
};

/// acc = momentum * acc + g; w -= rate * acc, or with Nesterov w -= rate * (g + momentum * acc).
/// Slot `Momentum`.
struct MomentumOptions {
  LearningRate learning_rate;
  double momentum = 0.9;
  bool nesterov = false;
  /// Decoupled, as in SgdOptions.
  double weight_decay = 0.0;
};

/// acc += g^2; w -= rate * g / sqrt(acc). Slot `Adagrad`.
struct AdagradOptions {
  LearningRate learning_rate;
  double initial_accumulator = 0.1;
};

/// Adagrad, then soft thresholding by l1 and shrinking by l2, both scaled by the rate of each
/// element. Slot `ProximalAdagrad`.
struct ProximalAdagradOptions {
  LearningRate learning_rate;
  double initial_accumulator = 0.1;
  double l1 = 0.0;
  double l2 = 0.0;
};

/// m += (g - m) (1 - beta1); v += (g^2 - v) (1 - beta2);
/// w -= rate * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).
/// Epsilon is added to the uncorrected sqrt(v); in torch::optim::Adam it is added to the
/// corrected one, which is the same as epsilon * sqrt(1 - beta2^t) here. Slots `Adam`, `Adam_1`,
/// and the scalars beta1_power and beta2_power.
struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// Adam with decoupled weight decay: w is first multiplied by 1 - rate * weight_decay, as
/// torch::optim::AdamW does it. Slots `AdamW`, `AdamW_1`, and the scalars of Adam.
struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

/// ms += (g^2 - ms) (1 - decay), from 1; mom = momentum * mom + rate * g / sqrt(ms + epsilon);
/// w -= mom. Centred: mg += (g - mg) (1 - decay), and ms - mg^2 in place of ms under the root.
/// Slots `RMSProp` (ms), `RMSProp_1` (mom); centred: `RMSProp`, `RMSProp_1` (mg), `RMSProp_2`
/// (mom).
struct RmsPropOptions {
  LearningRate learning_rate;
  double decay = 0.9;
  double momentum = 0.0;
  double epsilon = 1e-10;
  bool centered = false;
};

/// Follow the regularised leader, with one rate for each element. Slots `Ftrl`, `Ftrl_1`.
struct FtrlOptions {
  LearningRate learning_rate;
  /// Not positive; 0 keeps the learning rate fixed.
  double learning_rate_power = -0.5;
  double initial_accumulator = 0.1;
  double l1 = 0.0;
  double l2 = 0.0;
  /// An L2 term that shrinks w by its size, while l2 only stabilises.
  double l2_shrinkage = 0.0;
};

/// Lion: the sign of a moving average alone decides where a variable goes, so that it has one slot.
/// d = g - m; w is multiplied by 1 - rate * weight_decay, then
/// w -= rate * sign(m + d (1 - beta1)); m += d (1 - beta2). A rate a tenth of Adam's, and a weight
/// decay ten times as large, are usual. Slot `Lion`.
struct LionOptions {
  LearningRate learning_rate = 0.0001;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
};

/// Neighbouring elements of variables in host memory, for one step of CustomOptions::update.
struct ElementUpdate {
  double learning_rate = 0;
  /// Updates that were made before.
  std::int64_t step = 0;
  std::span<float> values{};
  std::span<const float> gradients{};
  /// Each as long as the values, in the order of CustomOptions::slots.
  std::span<const std::span<float>> slots{};
};

/// A slot of an optimizer: its name after the variable's, and the value that elements start with.
struct OptimizerSlot {
  std::string name;
  float initial = 0;
};

/// An optimizer that is given as a function: how a program, or a file here, adds one. It computes
/// on the host: variables of another device are copied there and back in every step, and steps with
/// it are not captured.
struct CustomOptions {
  /// In descriptions and errors, such as "signum".
  std::string name;
  LearningRate learning_rate;
  /// Described beside the learning rate, such as {{"beta1", 0.9}}. Tasks of a cluster must agree.
  std::vector<std::pair<std::string, double>> constants{};
  std::vector<OptimizerSlot> slots{};
  /// One step. Called by several threads at once for ranges that do not overlap; each element's
  /// result depends on that element alone, so that layouts and threads do not change a bit.
  std::function<void(const ElementUpdate&)> update{};
};

/// How gradients become updates: a value without state, cheap to copy. An Updater applies it and
/// owns the slots.
class Optimizer {
 public:
  using Options =
      std::variant<SgdOptions, MomentumOptions, AdagradOptions, ProximalAdagradOptions, AdamOptions,
                   AdamWOptions, RmsPropOptions, FtrlOptions, LionOptions, CustomOptions>;

  /// Throws InvalidArgument on options out of range, naming the option.
  explicit Optimizer(Options options);

  const Options& options() const { return *options_; }
  const LearningRate& learning_rate() const;
  /// Such as "momentum(learning_rate = constant 0.1, momentum = 0.9)".
  std::string description() const;
  /// Whether it is CustomOptions, which the host computes.
  bool is_custom() const { return std::holds_alternative<CustomOptions>(*options_); }

 private:
  std::shared_ptr<const Options> options_;
};

Optimizer sgd(SgdOptions options);
Optimizer momentum(MomentumOptions options);
Optimizer adagrad(AdagradOptions options);
Optimizer proximal_adagrad(ProximalAdagradOptions options);
Optimizer adam(AdamOptions options = {});
Optimizer adamw(AdamWOptions options = {});
Optimizer rmsprop(RmsPropOptions options);
Optimizer ftrl(FtrlOptions options);
Optimizer lion(LionOptions options = {});
Optimizer custom_optimizer(CustomOptions options);

/// By a name: adagrad, adam, adamw, ftrl, lion, momentum, proximal_adagrad, rmsprop or sgd, the
/// rest at its default. Case and separators do not matter, and torch::optim's and TensorFlow's
/// spellings are understood: "Adam", "AdamOptimizer", "torch::optim::AdamW",
/// "tf.train.GradientDescentOptimizer". Throws InvalidArgument on another name, with the names
/// there are and the one that was most likely meant.
Optimizer optimizer_by_name(std::string_view name, LearningRate learning_rate);
/// The same with a learning rate of the optimizer's own, which adam, adamw and lion have. Throws
/// InvalidArgument for the others.
Optimizer optimizer_by_name(std::string_view name);

/// Scopes in a checkpoint: between a variable's name and a slot's, and before the name of a
/// scalar: `<variable>/<slots><slot>`, `<scalars>beta1_power`. Empty, or ending with '/'.
struct SlotScopes {
  std::string slots{};
  std::string scalars{};
};

/// An optimizer and the variables it is for: those whose name starts with `prefix`; of several the
/// longest wins. An empty prefix is for all. One with a '*' is a pattern of the whole name
/// (matches_name()), and goes before prefixes without.
struct OptimizerFor {
  std::string prefix;
  Optimizer optimizer;
  SlotScopes scopes{};
};

/// Optimizers that a model is trained with: one for all variables, or several by prefix.
///
///   .optimizer = adam({.learning_rate = 0.01})
///   .optimizer = "adam"
///   .optimizer = {{"linear/", ftrl({.learning_rate = 0.2})}, {"dnn/", adagrad({0.05})}}
class OptimizersByPrefix {
 public:
  OptimizersByPrefix() = default;
  OptimizersByPrefix(Optimizer optimizer);  // NOLINT(google-explicit-constructor)
  /// optimizer_by_name(name).
  OptimizersByPrefix(const char* name);  // NOLINT(google-explicit-constructor)
  OptimizersByPrefix(std::initializer_list<OptimizerFor> entries);

  void add(OptimizerFor entry);
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const OptimizerFor& operator[](std::size_t index) const { return entries_[index]; }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<OptimizerFor> entries_{};
};

}  // namespace muster
