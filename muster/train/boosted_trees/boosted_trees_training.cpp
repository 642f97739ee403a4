#include <fmt/ranges.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/thread_pool.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/boosted_trees/boosted_trees_input_internal.h"
#include "muster/train/boosted_trees/boosted_trees_model_internal.h"
#include "muster/train/boosted_trees/boosted_trees_training_internal.h"
#include "muster/train/engine/arithmetic.h"
#include "muster/train/engine/run_state.h"
#include "muster/train/engine/seed_streams.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/engine/train_session.h"
#include "muster/train/hooks/default_hooks.h"

namespace muster::internal {
namespace {

// Below this libxgboost sees no curvature at all.
constexpr double kLeastHessian = 1e-16;
// A bias of +-14: labels that are all the same leave something to learn.
constexpr double kLeastProbability = 1e-6;

/// The derivatives of the loss of each example with respect to its margin.
struct Derivatives {
  at::Tensor gradients;
  at::Tensor hessians;
};

std::span<float> floats_of(const at::Tensor& tensor) {
  return {static_cast<float*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.numel())};
}

// In the order of the rows, whatever the number of threads.
double sum_of(const at::Tensor& tensor) {
  double sum = 0;
  for (const float value : floats_of(tensor)) sum += value;
  return sum;
}

/// Values that a checkpoint is written from.
struct SavedTrees {
  std::string model;
  std::string_view model_view;
  std::vector<std::string> columns;
  std::vector<std::string_view> column_views;
  std::int64_t global_step = 0;
};

const char* objective_of(TreeTask task) {
  if (task == TreeTask::kRegression) return "reg:squarederror";
  return task == TreeTask::kClasses ? "multi:softprob" : "binary:logistic";
}

// As the library reads them: a number for each number of a row.
std::string constraints_of(const BoostedTreesOptions& options, const TreeFeatures& features) {
  std::vector<int> constraints(static_cast<std::size_t>(features.width()), 0);
  for (std::size_t i = 0; i < features.columns().size(); ++i) {
    const auto found = options.monotone_constraints.find(features.columns()[i].name());
    if (found == options.monotone_constraints.end()) continue;
    constraints[static_cast<std::size_t>(features.places()[i].first)] = found->second;
  }
  return fmt::format("({})", fmt::join(constraints, ","));
}

int threads_of(const RunConfig& config) {
  return config.reproducibility.threads_per_replica > 0
             ? config.reproducibility.threads_per_replica
             : static_cast<int>(ThreadPool::available_processors());
}

class BoostedTreesRun final : public TrainRun {
 public:
  /// All outlive it.
  BoostedTreesRun(const BoostedTreesOptions& options, TreeTask task, const TreeFeatures& features,
                  const Head& head, const InputFn& input_fn, const RunContext& context)
      : options_(options),
        task_(task),
        features_(features),
        head_(head),
        sum_head_(make_tree_head(options, task, Reduction::kSum)),
        input_fn_(input_fn),
        context_(context),
        threads_(threads_of(context.config)) {
    if (const auto checkpoint = restore_latest(context.config.model_dir)) restore(*checkpoint);
  }

  double loss() override { return spec_.loss.item<double>(); }
  const EstimatorSpec& spec() const override { return spec_; }
  std::int64_t step_examples() const override { return rows_->size(); }
  std::map<std::string, double> learning_rates() const override {
    return {{"", options_.learning_rate}};
  }
  std::vector<NamedTensor> variables() const override { return {}; }
  std::optional<std::int64_t> end_of_learning() const override { return options_.n_trees; }
  void open_input() override;
  void log_begin() const override;
  StepOutcome make_step(Session& session) override;
  CheckpointContent content() const override;

 private:
  void restore(const OpenCheckpoint& checkpoint);
  TreeBooster::Parameters parameters() const;
  std::int64_t outputs() const { return outputs_of(options_, task_); }
  double base_score() const;
  at::Tensor margins() const;
  Derivatives derivatives(const at::Tensor& margins) const;
  RunState run_state() const;

  const BoostedTreesOptions& options_;
  TreeTask task_;
  const TreeFeatures& features_;
  const Head& head_;
  /// Its gradients are each example's own, not divided by their number.
  HeadPtr sum_head_;
  const InputFn& input_fn_;
  const RunContext context_;
  const int threads_;
  Batch head_batch_;
  /// float [rows, 1]; undefined where all are 1.
  at::Tensor weights_;
  std::unique_ptr<BoosterRows> rows_;
  std::unique_ptr<TreeBooster> booster_;
  EstimatorSpec spec_;
};

void BoostedTreesRun::restore(const OpenCheckpoint& checkpoint) {
  const Path& prefix = checkpoint.bundle.prefix();
  log::info("Restoring parameters from {}", prefix.string());
  booster_ = std::make_unique<TreeBooster>(read_trees(checkpoint.bundle, features_));
  const auto step = decode(checkpoint.bundle, "global_step").item<std::int64_t>();
  if (booster_->trees() != step) {
    throw DataLoss("the checkpoint {} is of step {} and holds {} trees", prefix.string(), step,
                   booster_->trees());
  }
  context_.progress.resume_at(step);
}

TreeBooster::Parameters BoostedTreesRun::parameters() const {
  const bool post = options_.pruning_mode == PruningMode::kPost;
  const auto bins = std::max(2.0, std::round(1 / options_.quantile_sketch_epsilon));
  TreeBooster::Parameters parameters{
      {"objective", objective_of(task_)},
      // The growing by quantiles prunes while it grows, the exact one after it.
      {"tree_method", post ? "exact" : "hist"},
      {"max_depth", std::to_string(options_.max_depth)},
      {"eta", fmt::format("{}", options_.learning_rate)},
      {"alpha", fmt::format("{}", options_.l1_regularization)},
      {"lambda", fmt::format("{}", options_.l2_regularization)},
      {"gamma", fmt::format("{}", options_.tree_complexity)},
      {"min_child_weight", fmt::format("{}", options_.min_node_weight)},
      {"max_bin", fmt::format("{:.0f}", bins)},
      {"nthread", std::to_string(threads_)},
      {"verbosity", "0"},
  };
  if (task_ == TreeTask::kClasses) parameters["num_class"] = std::to_string(outputs());
  if (!options_.monotone_constraints.empty()) {
    parameters["monotone_constraints"] = constraints_of(options_, features_);
  }
  return parameters;
}

void BoostedTreesRun::open_input() {
  const InputContext context(Mode::kTrain, 1, 0,
                             derive_key(context_.config.seed(), seed_stream::kTrainInput));
  TreeTrainingSet set = read_training_set(input_fn_, context, features_, options_);
  head_batch_ = std::move(set.head_batch);
  rows_ = std::make_unique<BoosterRows>(set.rows);
  // Also checks labels and weights before anything is written.
  weights_ = head_.loss(at::zeros({rows_->size(), outputs()}, at::kFloat), head_batch_, Mode::kEval)
                 .weights;
  if (booster_ == nullptr) {
    booster_ = std::make_unique<TreeBooster>(*rows_, parameters());
    booster_->set({{"base_score", fmt::format("{:.9g}", base_score())}});
  } else {
    booster_->set(parameters());
  }
}

// Score that the trees begin from, as libxgboost counts: a probability, or the value itself.
double BoostedTreesRun::base_score() const {
  const double neutral = task_ == TreeTask::kBinaryClasses ? 0.5 : 0.0;
  if (!options_.center_bias) return neutral;
  const auto [gradients, hessians] = derivatives(at::zeros({rows_->size(), 1}, at::kFloat));
  const double hessian = sum_of(hessians);
  if (hessian <= 0) {
    throw InvalidArgument("boosted trees: the weights of all examples sum to 0");
  }
  const double newton_step = -sum_of(gradients) / hessian;
  if (task_ == TreeTask::kRegression) return newton_step;
  // At margin 0 the gradient of an example is 1/2 - label, and the hessian 1/4.
  return std::clamp(0.5 + newton_step / 4, kLeastProbability, 1 - kLeastProbability);
}

void BoostedTreesRun::log_begin() const {
  log::info("growing trees {} to {} on examples={} columns={} numbers={} threads={}",
            context_.progress.step() + 1, options_.n_trees, rows_->size(),
            features_.columns().size(), features_.width(), threads_);
}

at::Tensor BoostedTreesRun::margins() const {
  return to_tensor(booster_->margins(*rows_), rows_->size(), outputs());
}

Derivatives BoostedTreesRun::derivatives(const at::Tensor& margins) const {
  const at::Tensor logits = margins.detach().requires_grad_();
  sum_head_->loss(logits, head_batch_, Mode::kTrain).loss.backward();
  const torch::NoGradGuard no_grad;
  at::Tensor hessians;
  if (task_ == TreeTask::kBinaryClasses) {
    const at::Tensor probabilities = margins.sigmoid();
    hessians = (probabilities * (1 - probabilities)).clamp_min(kLeastHessian);
  } else if (task_ == TreeTask::kClasses) {
    const at::Tensor probabilities = margins.softmax(1);
    hessians = (2 * probabilities * (1 - probabilities)).clamp_min(kLeastHessian);
  } else {
    hessians = at::full_like(margins, 2);
  }
  if (weights_.defined()) hessians = hessians * weights_;
  Derivatives result{logits.grad().contiguous(), hessians.contiguous()};
  round_for_exact_sums(floats_of(result.gradients));
  round_for_exact_sums(floats_of(result.hessians));
  return result;
}

StepOutcome BoostedTreesRun::make_step(Session& session) {
  const at::Tensor before = margins();
  spec_ = checked(head_.spec(head_batch_, Mode::kTrain, before));
  if (!std::isfinite(loss())) {
    throw Aborted("the loss of step {} is not finite; look at the labels and weights of the input",
                  context_.progress.step() + 1);
  }
  const auto [gradients, hessians] = derivatives(before);
  booster_->boost(*rows_, floats_of(gradients), floats_of(hessians));
  context_.progress.advance();
  if (context_.progress.step() >= options_.n_trees) {
    session.request_stop(fmt::format("all {} trees are grown", options_.n_trees));
  }
  return StepOutcome::kGoesOn;
}

RunState BoostedTreesRun::run_state() const {
  // The input has no position: a resume reads all of it again.
  return {.global_step = context_.progress.step(),
          .threads_per_replica = threads_,
          .seed = context_.config.seed(),
          .arithmetic =
              numerics_fingerprint(context_.config.reproducibility.own_cpu_kernels).fingerprint(),
          .inputs = {std::nullopt}};
}

CheckpointContent BoostedTreesRun::content() const {
  auto saved = std::make_shared<SavedTrees>();
  saved->model = booster_->to_bytes();
  saved->model_view = saved->model;
  saved->columns = features_.descriptions();
  saved->column_views.assign(saved->columns.begin(), saved->columns.end());
  saved->global_step = context_.progress.step();
  const auto columns = static_cast<std::int64_t>(saved->columns.size());
  return {.tensors = {{.name = kTreesKey,
                       .type = DataType::kString,
                       .strings = std::span(&saved->model_view, 1)},
                      {.name = kTreeColumnsKey,
                       .type = DataType::kString,
                       .shape = {columns},
                       .strings = saved->column_views},
                      {.name = "global_step",
                       .type = DataType::kInt64,
                       .bytes = std::as_bytes(std::span(&saved->global_step, 1))}},
          .state_json = to_json(run_state()),
          .owner = saved};
}

}  // namespace

void round_for_exact_sums(std::span<float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  if (largest == 0 || !std::isfinite(largest)) return;
  int exponent = 0;
  std::frexp(largest, &exponent);
  const int bits = std::numeric_limits<double>::digits - 1 -
                   static_cast<int>(std::ceil(std::log2(static_cast<double>(values.size()))));
  const double unit = std::ldexp(1.0, exponent - bits);
  for (float& value : values) value = static_cast<float>(std::nearbyint(value / unit) * unit);
}

HeadPtr make_tree_head(const BoostedTreesOptions& options, TreeTask task, Reduction reduction) {
  HeadOptions head{.weight_column = options.weight_column,
                   .loss_reduction = reduction,
                   .label_vocabulary = options.label_vocabulary};
  if (task == TreeTask::kClasses) return multi_class_head(options.n_classes, std::move(head));
  return task == TreeTask::kBinaryClasses ? binary_class_head(std::move(head))
                                          : regression_head(1, std::move(head));
}

std::int64_t outputs_of(const BoostedTreesOptions& options, TreeTask task) {
  return task == TreeTask::kClasses ? options.n_classes : 1;
}

TrainResult train_boosted_trees(const BoostedTreesOptions& options, TreeTask task,
                                const TreeFeatures& features, const Head& head,
                                const RunConfig& config, const InputFn& input_fn,
                                const TrainOptions& train_options) {
  const auto make_run = [&](const RunContext& context) {
    return std::make_unique<BoostedTreesRun>(options, task, features, head, input_fn, context);
  };
  return TrainSession(config, train_options, default_hooks, make_run).run();
}

}  // namespace muster::internal
