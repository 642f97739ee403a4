#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/canned/canned_parts_internal.h"

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

HeadPtr classification_head(std::int64_t n_classes, HeadOptions options) {
  if (n_classes < 2) throw InvalidArgument("n_classes must be at least 2: {}", n_classes);
  if (n_classes == 2) return binary_class_head(std::move(options));
  return multi_class_head(n_classes, std::move(options));
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
