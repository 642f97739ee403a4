#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
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

/// LAMB (You and others, 2020), with Adam's m and v:
/// r = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * w;
/// w -= rate * |w| / |r| * r, by the norms of the variable, or w -= rate * r where one of them is
/// 0. For large batches. Whole variables, on the host; no tables. Slots `Lamb`, `Lamb_1`.
struct LambOptions {
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
};

/// Schedule-free AdamW (Defazio and others, 2024): no schedule that falls, only a warm-up. The
/// variables are the points y at which gradients are taken; evaluations, predictions and exports
/// use the average x, which is y + (1 - 1 / beta1) d. With c = rate^2 / (sum of all rates^2), rates
/// counted as the largest so far, and n = g / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay y:
/// y += c d - rate (1 - beta1 (1 - c)) n; d = (1 - c) (d - rate beta1 n). Moving averages of batch
/// norm are those of y. On the host. Slots `ScheduleFree` (d), `ScheduleFree_1` (v).
struct ScheduleFreeAdamOptions {
  LearningRate learning_rate = 0.0025;
  /// Not 0.
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

/// Adafactor (Shazeer and Stern, 2018), with torch.optim.Adafactor's constants: the second moments
/// of a matrix are kept as those of its rows and columns, so that slots are next to nothing.
/// rate_t = max(epsilon2, rms(w)) min(rate, 1 / sqrt(t)); beta2 is 1 - t^beta2_decay; the update is
/// divided by max(1, its rms / clip_threshold). Of a tensor of more dimensions, the last two are
/// the matrices. Whole variables, on the host; no tables. Slots `Adafactor` (rows) and
/// `Adafactor_1` (columns); of vectors and scalars `Adafactor` is of the elements.
struct AdafactorOptions {
  LearningRate learning_rate = 0.01;
  /// Negative.
  double beta2_decay = -0.8;
  double epsilon1 = 1.1920928955078125e-7;
  double epsilon2 = 1e-3;
  double clip_threshold = 1.0;
  double weight_decay = 0.0;
};

/// Muon (Jordan, 2024), as torch.optim.Muon has it: a momentum whose singular values are all
/// brought near 1 by Newton-Schulz iterations, here in float32. m += (g - m) (1 - momentum); of m,
/// or with Nesterov of g + (m - g) momentum, the iterations make o;
/// w = w (1 - rate weight_decay) - rate f o, with f = sqrt(max(1, rows / columns)). For the weights
/// of hidden layers: a matrix, or a convolution's kernel as [out, the rest]. Others are refused:
/// give them adamw by prefix or pattern. Whole variables, on the host; no tables. Slot `Muon`.
struct MuonOptions {
  LearningRate learning_rate = 0.001;
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;
  std::int64_t iterations = 5;
  double epsilon = 1e-7;
  /// f = 0.2 sqrt(max(rows, columns)) instead: updates as large as AdamW's, whose rate and weight
  /// decay then fit.
  bool match_adamw = false;
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
  /// Where CustomOptions::averages_by_rate is set: the square of the largest rate so far over the
  /// sum of the squares that steps up to this one had so, the share of this step in an average.
  double rate_share = 0;
  /// Where CustomOptions::whole_variables is set, the variable that the values are.
  std::span<const std::int64_t> shape{};
  std::span<float> values{};
  std::span<const float> gradients{};
  /// Each as long as the values, in the order of CustomOptions::slots.
  std::span<const std::span<float>> slots{};
};

/// A slot of an optimizer: its name after the variable's, and the value that elements start with.
struct OptimizerSlot {
  using ShapeOf = std::vector<std::int64_t> (*)(std::span<const std::int64_t> variable);

  std::string name;
  float initial = 0;
  /// Its shape, of as many dimensions as the variable's; null: as the variable. Only with
  /// CustomOptions::whole_variables.
  ShapeOf shape_of = nullptr;
};

/// Evaluations, predictions and exports use the variable plus `factor` times this slot in its
/// place.
struct EvaluationOffset {
  std::string slot;
  double factor = 0;
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
  /// `update` takes a whole variable, one at a time, whose elements may depend on each other: for
  /// norms and products of matrices. Every layout keeps such a variable in one piece. Not for
  /// tables, which it is an error to give it.
  bool whole_variables = false;
  /// Why it cannot train a variable of this shape, and what to do, before the first step; empty
  /// where it can.
  std::function<std::string(std::span<const std::int64_t> shape)> obstacle{};
  /// `update` is given ElementUpdate::rate_share, a function of the step and the schedule.
  bool averages_by_rate = false;
  std::optional<EvaluationOffset> evaluated{};
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
Optimizer lamb(LambOptions options = {});
Optimizer schedule_free_adam(ScheduleFreeAdamOptions options = {});
Optimizer adafactor(AdafactorOptions options = {});
Optimizer muon(MuonOptions options = {});
Optimizer rmsprop(RmsPropOptions options);
Optimizer ftrl(FtrlOptions options);
Optimizer lion(LionOptions options = {});
Optimizer custom_optimizer(CustomOptions options);

/// By a name: adagrad, adam, adamw, ftrl, lion, momentum, proximal_adagrad, rmsprop or sgd, the
/// rest at its default; also adafactor, lamb, muon and schedule_free_adam. Case and separators do
/// not matter, and torch::optim's and TensorFlow's
/// spellings are understood: "Adam", "AdamOptimizer", "torch::optim::AdamW",
/// "tf.train.GradientDescentOptimizer". Throws InvalidArgument on another name, with the names
/// there are and the one that was most likely meant.
Optimizer optimizer_by_name(std::string_view name, LearningRate learning_rate);
/// The same with a learning rate of the optimizer's own, which those have whose options name one.
/// Throws InvalidArgument for the others.
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
