#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/train/canned/canned_parts_internal.h"

namespace muster::internal {
namespace {

// A regular expression for this name alone.
std::string exactly(const std::string& name) {
  std::string expression;
  for (const char letter : name) {
    if (std::string_view(R"(\^$.|?*+()[]{})").find(letter) != std::string_view::npos) {
      expression += '\\';
    }
    expression += letter;
  }
  return expression + "$";
}

}  // namespace

HeadPtr classifier_head(LabelOptions labels) {
  if (labels.label_dimension != 1) {
    throw InvalidArgument("label_dimension is {}, but only regressors have one; give n_classes",
                          labels.label_dimension);
  }
  if (labels.n_classes < 2) {
    throw InvalidArgument("n_classes must be at least 2: {}", labels.n_classes);
  }
  labels.head.label_vocabulary = std::move(labels.label_vocabulary);
  if (labels.n_classes == 2) return binary_class_head(std::move(labels.head));
  return multi_class_head(labels.n_classes, std::move(labels.head));
}

HeadPtr regressor_head(const LabelOptions& labels) {
  if (labels.n_classes != 2 || !labels.label_vocabulary.empty()) {
    throw InvalidArgument(
        "{} is given, but only classifiers have one; a regressor's label_dimension says how many "
        "numbers a label has",
        labels.n_classes != 2 ? "n_classes" : "label_vocabulary");
  }
  return regression_head(labels.label_dimension, labels.head);
}

OptimizersByPrefix single_optimizer(std::string_view scope, Optimizer optimizer) {
  constexpr std::string_view kPart = "part_0/";
  const std::size_t left = std::min(kPart.size(), scope.size() + 1);
  return {{"",
           std::move(optimizer),
           {.slots = std::string(kPart.substr(kPart.size() - left)),
            .scalars = fmt::format("{}/head/", scope)}}};
}

SlotScopes outer_slot_scopes() { return {.scalars = "head/"}; }

std::shared_ptr<const ColumnSet> column_set_or_null(FeatureColumnList columns, ColumnUse use) {
  if (columns.empty()) return nullptr;
  return std::make_shared<const ColumnSet>(std::move(columns), use);
}

std::vector<WarmStartSettings> first_values_of(const ColumnSet* dnn_columns) {
  std::vector<WarmStartSettings> settings;
  if (dnn_columns == nullptr) return settings;
  std::set<std::string> tables;
  for (const FeatureColumn& column : dnn_columns->columns()) {
    const EmbeddingTable* table = column.embedding();
    if (table == nullptr || table->checkpoint_to_load_from.empty()) continue;
    if (!tables.insert(table->name).second) continue;
    const std::string name =
        "dnn/input_from_feature_columns/input_layer/" + table->name + "/embedding_weights";
    // Given twice, because one expression alone looks at trained variables only.
    settings.push_back({.ckpt_to_initialize_from = table->checkpoint_to_load_from,
                        .vars_to_warm_start = {exactly(name), exactly(name)},
                        .var_name_to_prev_var_name = {{name, table->tensor_name_in_checkpoint}}});
  }
  return settings;
}

Estimator wide_and_deep_estimator(const WideAndDeepOptions& model, HeadPtr head,
                                  OptimizersByPrefix optimizers,
                                  std::optional<WarmStartSettings> warm_start, RunConfig config) {
  WideAndDeepOptions options = model;
  options.outputs = head->logits_dimension();
  WideAndDeep::check(options);
  std::vector<WarmStartSettings> first_values = first_values_of(options.dnn_columns.get());
  return Estimator(
      {.model = [options = std::move(options)] { return std::make_shared<WideAndDeep>(options); },
       .head = std::move(head),
       .optimizer = std::move(optimizers),
       .warm_start = std::move(warm_start),
       .first_values = std::move(first_values)},
      std::move(config));
}

}  // namespace muster::internal
