#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/model_factory.h"
#include "muster/nn/model/module_variables.h"
#include "muster/nn/optim/clipping.h"
#include "muster/nn/optim/moving_average.h"
#include "muster/nn/optim/named_tensor.h"
#include "muster/nn/optim/optimizer.h"
#include "muster/nn/optim/weight_decay.h"
#include "muster/train/engine/hook.h"

namespace muster {

/// Policy for steps whose loss or gradients are not finite.
struct NanPolicy {
  enum class Action {
    /// Ends the training with an error that names the step; the variables are those before the
    /// step.
    kStop,
    /// Leaves the update out and continues with the next batch.
    kSkipBatch,
    /// Goes back to the last checkpoint, inputs too, and leaves the batch out when it comes again.
    kRollBack,
  };
  Action action = Action::kStop;
  /// After this many, the next one ends the training.
  std::int64_t limit = 10;
};

/// Lower learning rates where evaluations get no better: those of train_and_evaluate in a process
/// alone, which are made between two steps. What counts are the evaluations of steps before the one
/// whose rate is asked for, as the folder of evaluations has them, so that a run that is resumed
/// continues with the same rates.
struct PlateauOptions {
  std::string metric = "loss";
  bool higher_is_better = false;
  /// Rates are multiplied by it each time; in (0, 1).
  double factor = 0.1;
  /// So many evaluations in turn, none of which is better than the best before, lower the rates.
  std::int64_t patience = 10;
  /// Better is by more than this.
  double min_delta = 1e-4;
  /// So many evaluations after a reduction do not count.
  std::int64_t cooldown = 0;
  /// Rates do not fall below this part of what their schedules say.
  double min_factor = 0.0;
  /// EvalSpec::name of the evaluations.
  std::string eval_name{};
};

/// Rows of a table that were numbered by one vocabulary, to be found again under another.
struct VocabInfo {
  /// One token a line; the line's number is the row.
  Path new_vocab{};
  /// Not set: all of the file.
  std::optional<std::int64_t> new_vocab_size{};
  std::int64_t num_oov_buckets = 0;
  Path old_vocab{};
  std::optional<std::int64_t> old_vocab_size{};
  /// The dimension that tokens number: 0 or 1.
  int axis = 0;
};

/// Which values of an older checkpoint a model begins with. A checkpoint in model_dir wins over it.
struct WarmStartSettings {
  /// A model folder (its latest checkpoint), a checkpoint's prefix, or a SavedModel.
  Path ckpt_to_initialize_from{};
  /// Regular expressions over names. With one entry only trainable variables are considered; with
  /// several also buffers and optimizer slots, as in tf.estimator.
  std::vector<std::string> vars_to_warm_start{".*"};
  /// By the variable's name.
  std::map<std::string, VocabInfo> var_name_to_vocab_info{};
  /// From our name to the older checkpoint's.
  std::map<std::string, std::string> var_name_to_prev_var_name{};
};

/// Target of a warm start: the live tensor, and its layout in a checkpoint.
struct WarmStartTarget {
  NamedTensor variable{};
  VariableLayout layout = VariableLayout::kAsIs;
  bool trainable = true;
};

/// Copies values into the targets that the settings name, and logs what it did. Throws NotFound for
/// a missing checkpoint or variable, InvalidArgument for another shape, with both, or a regular
/// expression that matches nothing.
void warm_start(std::span<const WarmStartTarget> targets, const WarmStartSettings& settings);

class Learner;
struct UpdateRules;

/// Options of an estimator: the model, the head on its logits, and how gradients become updates.
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
  /// Not for a task of a cluster, nor for boosted trees.
  std::optional<PlateauOptions> reduce_on_plateau{};
  NanPolicy nan_policy{};
  /// Trains instead of gradients: see learner.h. Then the options about gradients are not
  /// used.
  std::shared_ptr<const Learner> learner{};
  std::optional<WarmStartSettings> warm_start{};
  /// Initial values of single variables, before warm_start applies: the checkpoints that
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
  /// The input is one pass over the data, and so many are made: a run that begins again in the
  /// middle of one makes the rest, and a larger number trains on. Beside steps or max_steps what
  /// comes first ends the run. The input function must not repeat() without a count.
  std::optional<std::int64_t> max_epochs{};
  Hooks hooks{};
  SavingListeners saving_listeners{};
  /// SIGTERM and SIGINT save a last checkpoint and then throw Interrupted.
  bool handle_signals = true;
};

struct TrainResult {
  std::int64_t global_step = 0;
  /// Updates made by this call.
  std::int64_t steps = 0;
  /// Loss of the last step; nothing if there was none.
  std::optional<double> loss{};
};

/// The hooks of a run whose last step is known, if there is one: the user's, and what the
/// configuration asks for (default_hooks.h).
using HooksOfRun = std::function<Hooks(const RunConfig& config, const TrainOptions& options,
                                       std::optional<std::int64_t> last_step)>;

}  // namespace muster
