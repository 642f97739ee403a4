#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/features/column_set.h"
#include "muster/nn/model/head.h"
#include "muster/nn/model/wide_and_deep.h"
#include "muster/train/estimator/estimator.h"

/// Parts that the canned estimators have in common.
namespace muster::internal {

/// Label options of a classifier and of a regressor.
struct LabelOptions {
  std::int64_t n_classes = 2;
  std::int64_t label_dimension = 1;
  std::vector<std::string> label_vocabulary{};
  HeadOptions head{};
};
/// Binary for two classes, multi-class for more. Throws InvalidArgument for fewer, and for what
/// only a regressor has.
HeadPtr classifier_head(LabelOptions labels);
/// Throws InvalidArgument for what only a classifier has.
HeadPtr regressor_head(const LabelOptions& labels);

template <typename Options>
LabelOptions labels_of(const Options& options) {
  return {
      .n_classes = options.n_classes,
      .label_dimension = options.label_dimension,
      .label_vocabulary = options.label_vocabulary,
      .head = {.weight_column = options.weight_column, .loss_reduction = options.loss_reduction}};
}

/// The optimizer of all variables of a model whose variables begin with `scope`: "dnn" or
/// "linear". tf.estimator makes slots inside the model's scope and cuts their names by a length
/// that does not count it, so `dnn/` leaves the last letters of `part_0/` in them, and `linear/`
/// all of it; that is what its checkpoints hold.
OptimizersByPrefix single_optimizer(std::string_view scope, Optimizer optimizer);

/// Slot scopes of models with several scopes or none, whose slots are made outside:
/// `<variable>/<slot>`.
SlotScopes outer_slot_scopes();

/// Null for no columns.
std::shared_ptr<const ColumnSet> column_set_or_null(FeatureColumnList columns, ColumnUse use);

/// The checkpoints that embedding columns of a network want their tables from.
std::vector<WarmStartSettings> first_values_of(const ColumnSet* dnn_columns);

/// An estimator of a model made of these parts. Throws here what the model would throw at the start
/// of training.
Estimator wide_and_deep_estimator(const WideAndDeepOptions& model, HeadPtr head,
                                  OptimizersByPrefix optimizers,
                                  std::optional<WarmStartSettings> warm_start, RunConfig config);

}  // namespace muster::internal
