#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/estimator/estimator.h"
#include "muster/features/column_set.h"
#include "muster/model/head.h"
#include "muster/model/wide_and_deep.h"

/// What the canned estimators have in common.
namespace muster::internal {

/// Binary for two classes, multi-class for more. Throws InvalidArgument for fewer.
HeadPtr classification_head(std::int64_t n_classes, HeadOptions options);

/// The optimizer of all variables of a model whose variables begin with `scope`: "dnn" or
/// "linear". tf.estimator makes slots inside the model's scope and cuts their names by a length
/// that does not count it, so `dnn/` leaves the last letters of `part_0/` in them, and `linear/`
/// all of it; that is what its checkpoints hold.
OptimizersByPrefix single_optimizer(std::string_view scope, Optimizer optimizer);

/// Of models with several scopes or none, whose slots are made outside: `<variable>/<slot>`.
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
