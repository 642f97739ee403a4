#include "muster/train/boosted_trees/boosted_trees.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/train/boosted_trees/boosted_trees_model_internal.h"
#include "muster/train/boosted_trees/boosted_trees_training_internal.h"
#include "muster/train/estimator/learner.h"

namespace muster {
namespace {

using internal::BoostedTreesModel;
using internal::TreeFeatures;
using internal::TreeTask;

void require(bool holds, std::string_view option, std::string_view rule, double value) {
  if (!holds) throw InvalidArgument("boosted trees: {} must be {}: {:g}", option, rule, value);
}

void check_pruning(const BoostedTreesOptions& options) {
  const bool prunes = options.pruning_mode != PruningMode::kNone;
  if (prunes && options.tree_complexity <= 0) {
    throw InvalidArgument("boosted trees: pruning needs a positive tree_complexity");
  }
  if (!prunes && options.tree_complexity > 0) {
    throw InvalidArgument(
        "boosted trees: tree_complexity is {}, which only pruning looks at; set pruning_mode",
        options.tree_complexity);
  }
}

void check_task(const BoostedTreesOptions& options, TreeTask task) {
  const bool classifies = task != TreeTask::kRegression;
  if (options.n_classes != 2 && !(classifies && options.n_classes > 2)) {
    throw InvalidArgument(
        "boosted trees: {}, but n_classes is {}",
        classifies ? "they tell two or more classes apart" : "a regressor has no classes",
        options.n_classes);
  }
  if (task == TreeTask::kClasses && options.center_bias) {
    throw InvalidArgument(
        "boosted trees: center_bias is for one logit, but n_classes is {}; leave it out, the first "
        "trees find the frequencies of the classes",
        options.n_classes);
  }
  if (options.label_dimension != 1) {
    throw InvalidArgument("boosted trees: {}, but label_dimension is {}",
                          classifies ? "a classifier has one label" : "they give one number",
                          options.label_dimension);
  }
  if (!classifies && !options.label_vocabulary.empty()) {
    throw InvalidArgument("boosted trees: a regressor has no use for label_vocabulary");
  }
}

void check_constraints(const BoostedTreesOptions& options, TreeTask task,
                       const TreeFeatures& features) {
  if (task == TreeTask::kClasses && !options.monotone_constraints.empty()) {
    throw InvalidArgument(
        "boosted trees: monotone_constraints are for one logit, but n_classes is {}",
        options.n_classes);
  }
  for (const auto& [name, direction] : options.monotone_constraints) {
    const auto found = std::ranges::find(features.columns(), name, &FeatureColumn::name);
    if (found == features.columns().end()) {
      throw InvalidArgument(
          "boosted trees: monotone_constraints has \"{}\", which is none of feature_columns", name);
    }
    const auto place =
        features
            .places()[static_cast<std::size_t>(std::distance(features.columns().begin(), found))];
    if (place.width != 1) {
      throw InvalidArgument(
          "boosted trees: monotone_constraints has \"{}\", which is {} numbers and not one", name,
          place.width);
    }
    if (direction != 1 && direction != -1) {
      throw InvalidArgument("boosted trees: monotone_constraints[\"{}\"] must be 1 or -1: {}", name,
                            direction);
    }
  }
}

void check(const BoostedTreesOptions& options, TreeTask task) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  if (options.n_batches_per_layer) {
    require(*options.n_batches_per_layer > 0, "n_batches_per_layer", "positive",
            number(*options.n_batches_per_layer));
  }
  require(options.n_trees > 0, "n_trees", "positive", number(options.n_trees));
  require(options.max_depth > 0 && options.max_depth <= 30, "max_depth", "from 1 to 30",
          number(options.max_depth));
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate), "learning_rate",
          "positive", options.learning_rate);
  for (const auto& [name, value] : {std::pair("l1_regularization", options.l1_regularization),
                                    std::pair("l2_regularization", options.l2_regularization),
                                    std::pair("tree_complexity", options.tree_complexity),
                                    std::pair("min_node_weight", options.min_node_weight)}) {
    require(value >= 0 && std::isfinite(value), name, "0 or more", value);
  }
  require(options.quantile_sketch_epsilon > 0 && options.quantile_sketch_epsilon < 1,
          "quantile_sketch_epsilon", "between 0 and 1", options.quantile_sketch_epsilon);
  require(options.max_input_bytes > 0, "max_input_bytes", "positive",
          number(options.max_input_bytes));
  check_pruning(options);
  check_task(options, task);
}

void check(const RunConfig& config) {
  const TaskEnvironment& task = config.cluster.task;
  if (!task.is_alone() && !task.is_evaluator()) {
    throw Unimplemented(
        "boosted trees are trained in one process, but {} makes this task {} of a cluster of {}; "
        "unset it to train here alone",
        task.source, task.task.name(), std::max(task.cluster.count(), task.num_worker_replicas));
  }
  if (config.reproducibility.replicas > 1) {
    throw InvalidArgument("boosted trees have one replica, but RunConfig asks for {}",
                          config.reproducibility.replicas);
  }
}

class BoostedTreesLearner final : public Learner {
 public:
  BoostedTreesLearner(BoostedTreesOptions options, TreeTask task)
      : options_(std::move(options)),
        task_(task),
        features_(std::make_shared<const TreeFeatures>(options_.feature_columns)) {}

  const std::shared_ptr<const TreeFeatures>& features() const { return features_; }
  const BoostedTreesOptions& options() const { return options_; }
  std::int64_t outputs() const { return outputs_of(options_, task_); }

  TrainResult train(const EstimatorOptions& options, const RunConfig& config,
                    const InputFn& input_fn, const TrainOptions& train_options) const override {
    return train_boosted_trees(options_, task_, *features_, *options.head, config, input_fn,
                               train_options);
  }

  void load(const BundleReader& bundle, Model& model) const override {
    dynamic_cast<BoostedTreesModel&>(model).load_trees(bundle);
  }

 private:
  BoostedTreesOptions options_;
  TreeTask task_;
  std::shared_ptr<const TreeFeatures> features_;
};

Estimator make(BoostedTreesOptions options, TreeTask task, RunConfig config) {
  internal::require_tree_booster();
  check(options, task);
  check(config);
  HeadPtr head = make_tree_head(options, task, options.loss_reduction);
  const std::int64_t outputs = outputs_of(options, task);
  auto learner = std::make_shared<const BoostedTreesLearner>(std::move(options), task);
  check_constraints(learner->options(), task, *learner->features());
  EstimatorOptions estimator{
      .model = [features = learner->features(),
                outputs] { return std::make_shared<BoostedTreesModel>(features, outputs); },
      .head = std::move(head)};
  estimator.learner = std::move(learner);
  return {std::move(estimator), std::move(config)};
}

// The trees of an estimator, for looking into.
std::unique_ptr<BoostedTreesModel> load_trees(const Estimator& estimator,
                                              const ExplainOptions& options) {
  const auto* learner = dynamic_cast<const BoostedTreesLearner*>(estimator.options().learner.get());
  if (learner == nullptr) throw InvalidArgument("the estimator is not one of boosted trees");
  const Path& path =
      options.checkpoint_path.empty() ? estimator.model_dir() : options.checkpoint_path;
  auto model = std::make_unique<BoostedTreesModel>(learner->features(), learner->outputs());
  model->load_trees(open_checkpoint(resolve_checkpoint(path)).bundle);
  return model;
}

}  // namespace

Estimator boosted_trees_classifier(BoostedTreesOptions options, RunConfig config) {
  const TreeTask task = options.n_classes > 2 ? TreeTask::kClasses : TreeTask::kBinaryClasses;
  return make(std::move(options), task, std::move(config));
}

Estimator boosted_trees_regressor(BoostedTreesOptions options, RunConfig config) {
  return make(std::move(options), TreeTask::kRegression, std::move(config));
}

std::vector<FeatureImportance> feature_importances(const Estimator& estimator,
                                                   const ExplainOptions& options) {
  const auto model = load_trees(estimator, options);
  const std::vector<double> gains = model->booster().total_gains();
  const TreeFeatures& features = model->features();
  std::vector<FeatureImportance> importances;
  double total = 0;
  for (std::size_t i = 0; i < features.columns().size(); ++i) {
    const auto [first, width] = features.places()[i];
    FeatureImportance importance{.column = features.columns()[i].name()};
    for (std::int64_t j = first; j < first + width; ++j) {
      importance.gain += gains[static_cast<std::size_t>(j)];
    }
    total += importance.gain;
    importances.push_back(std::move(importance));
  }
  if (options.normalize && total > 0) {
    for (auto& importance : importances) importance.gain /= total;
  }
  std::stable_sort(importances.begin(), importances.end(),
                   [](const auto& left, const auto& right) { return left.gain > right.gain; });
  return importances;
}

DirectionalContributions directional_contributions(const Estimator& estimator,
                                                   const Features& features,
                                                   const ExplainOptions& options) {
  const auto model = load_trees(estimator, options);
  const TreeFeatures& columns = model->features();
  internal::SparseRows rows = columns.make_rows();
  columns.append(features, rows);
  const auto found = model->booster().contributions(internal::BoosterRows(rows));
  // Contributions to each class in turn where there are several.
  const auto width = columns.width() + 1;
  const auto outputs =
      static_cast<std::int64_t>(found.size()) / std::max<std::int64_t>(rows.rows() * width, 1);
  at::Tensor all = internal::to_tensor(found, rows.rows(), outputs * width);
  if (outputs > 1) all = all.reshape({rows.rows(), outputs, width});
  DirectionalContributions contributions{.bias = all.select(-1, columns.width()).clone()};
  for (std::size_t i = 0; i < columns.columns().size(); ++i) {
    const auto [first, count] = columns.places()[i];
    contributions.columns.add(columns.columns()[i].name(), all.narrow(-1, first, count).sum(-1));
  }
  return contributions;
}

}  // namespace muster
