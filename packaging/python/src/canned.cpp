// Estimators that are ready, with the fields of their options as arguments.
#include "muster/train/boosted_trees/boosted_trees.h"
#include "packaging/python/src/bindings.h"
#include "packaging/python/src/choices.h"

namespace muster::python {
namespace {

/// Fields that options of several kinds have, for those that have them.
template <typename Options>
void take_common(Arguments& arguments, Options& options, std::string& reduction) {
  arguments.take("n_classes", options.n_classes)
      .take("label_dimension", options.label_dimension)
      .take("weight_column", options.weight_column)
      .take("label_vocabulary", options.label_vocabulary)
      .take("loss_reduction", reduction);
  if constexpr (requires { options.feature_columns; }) {
    arguments.take("feature_columns", options.feature_columns);
  }
  if constexpr (requires { options.optimizer; }) arguments.take("optimizer", options.optimizer);
  if constexpr (requires { options.hidden_units; }) {
    arguments.take("hidden_units", options.hidden_units)
        .take("dropout", options.dropout)
        .take("batch_norm", options.batch_norm);
  }
}

void take_own(Arguments&, LinearOptions&) {}
void take_own(Arguments&, DNNOptions&) {}
void take_own(Arguments&, BaselineOptions&) {}
void take_own(Arguments& arguments, DNNLinearCombinedOptions& options) {
  arguments.take("linear_columns", options.linear_columns)
      .take("linear_optimizer", options.linear_optimizer)
      .take("dnn_columns", options.dnn_columns)
      .take("dnn_optimizer", options.dnn_optimizer);
}
void take_own(Arguments& arguments, BoostedTreesOptions& options) {
  arguments.take("n_batches_per_layer", options.n_batches_per_layer)
      .take("n_trees", options.n_trees)
      .take("max_depth", options.max_depth)
      .take("learning_rate", options.learning_rate)
      .take("l1_regularization", options.l1_regularization)
      .take("l2_regularization", options.l2_regularization)
      .take("tree_complexity", options.tree_complexity)
      .take("min_node_weight", options.min_node_weight)
      .take("center_bias", options.center_bias)
      .take("quantile_sketch_epsilon", options.quantile_sketch_epsilon);
}

template <typename Options>
void bind_kind(py::module_& module, const char* name, Estimator (*make)(Options, RunConfig)) {
  module.def(name, [name, make](const py::kwargs& given) {
    Options options;
    RunConfig config;
    std::string reduction = options.loss_reduction == Reduction::kSum ? "sum" : "mean";
    std::optional<Path> warm_start;
    Arguments arguments(name, given);
    take_common(arguments, options, reduction);
    take_own(arguments, options);
    arguments.take("config", config);
    if constexpr (requires { options.warm_start; }) {
      arguments.take("warm_start_from", warm_start);
      if (warm_start) options.warm_start = {.ckpt_to_initialize_from = *warm_start};
    }
    arguments.done();
    options.loss_reduction = reduction_named(reduction);
    return make(std::move(options), std::move(config));
  });
}

}  // namespace

void bind_canned(py::module_& module) {
  bind_kind(module, "linear_classifier", &linear_classifier);
  bind_kind(module, "linear_regressor", &linear_regressor);
  bind_kind(module, "dnn_classifier", &dnn_classifier);
  bind_kind(module, "dnn_regressor", &dnn_regressor);
  bind_kind(module, "dnn_linear_combined_classifier", &dnn_linear_combined_classifier);
  bind_kind(module, "dnn_linear_combined_regressor", &dnn_linear_combined_regressor);
  bind_kind(module, "baseline_classifier", &baseline_classifier);
  bind_kind(module, "baseline_regressor", &baseline_regressor);
  bind_kind(module, "boosted_trees_classifier", &boosted_trees_classifier);
  bind_kind(module, "boosted_trees_regressor", &boosted_trees_regressor);
}

}  // namespace muster::python
