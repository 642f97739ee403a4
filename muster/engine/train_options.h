#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "muster/engine/hook.h"
#include "muster/engine/nan_policy.h"
#include "muster/engine/warm_start.h"
#include "muster/model/head.h"
#include "muster/model/model_factory.h"
#include "muster/optim/clipping.h"
#include "muster/optim/moving_average.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/weight_decay.h"

namespace muster {

class Learner;
struct UpdateRules;

/// What is trained: a model, what follows its logits, and how gradients become updates.
struct EstimatorOptions {
  ModelFactory model{};
  /// May be empty for a model that overrides call().
  HeadPtr head{};
  /// One for all variables: adam(), or "adam"; or several by prefix, {{"linear/", ftrl(...)}, ...}:
  /// every trainable variable belongs to the one with the longest prefix of its name.
  OptimizersByPrefix optimizer{};
  ClipOptions clip{};
  /// A term of the loss, as cifar10_estimator does it; the decoupled kind is an option of the
  /// optimizer.
  WeightDecay weight_decay{};
  /// Evaluation, prediction and export use the averages where they are kept.
  std::optional<MovingAverageOptions> moving_average{};
  /// Moving averages of batch norm without what they begin with (0 and 1), as dividing them by
  /// 1 - decay^step would leave them: evaluations early in a run see the statistics of its batches.
  /// Part of the arithmetic; steps are not captured on a GPU. Averages that a warm start filled are
  /// forgotten at the first step.
  bool zero_debias_batch_norm = false;
  NanPolicy nan_policy{};
  /// Trains in the place of gradients: see learner.h. Then the options about gradients are not
  /// used.
  std::shared_ptr<const Learner> learner{};
  std::optional<WarmStartSettings> warm_start{};
  /// What single variables begin with, before warm_start is looked at: the checkpoints that
  /// embedding columns name.
  std::vector<WarmStartSettings> first_values{};

  /// How gradients become updates, beside the optimizers.
  UpdateRules update_rules() const;
};

struct TrainOptions {
  /// So many steps from here; excludes max_steps.
  std::optional<std::int64_t> steps{};
  /// Up to this global step; if the checkpoint is there already, nothing is done.
  std::optional<std::int64_t> max_steps{};
  Hooks hooks{};
  SavingListeners saving_listeners{};
  /// SIGTERM and SIGINT save a last checkpoint and then throw Interrupted.
  bool handle_signals = true;
};

struct TrainResult {
  std::int64_t global_step = 0;
  /// Updates made by this call.
  std::int64_t steps = 0;
  /// Of the last step; nothing if there was none.
  std::optional<double> loss{};
};

/// The hooks of a run whose last step is known, if there is one: the user's, and what the
/// configuration asks for (default_hooks.h).
using HooksOfRun = std::function<Hooks(const RunConfig& config, const TrainOptions& options,
                                       std::optional<std::int64_t> last_step)>;

}  // namespace muster
