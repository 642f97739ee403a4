#include "muster/training/inference_graph_hook_internal.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/estimator/towers.h"
#include "muster/export/exporters.h"
#include "muster/export/graph_hook.h"
#include "muster/export/trace.h"
#include "muster/features/column_set.h"

namespace muster::internal {
namespace {

FeatureColumnList columns_of(const Model& model) {
  FeatureColumnList columns;
  for (const ColumnSet* set : exporting::column_sets_of(model)) {
    columns.insert(columns.end(), set->columns().begin(), set->columns().end());
  }
  return columns;
}

ServingInput first_rows(const InputFn& input_fn, std::uint64_t seed) {
  const auto batch = input_fn(InputContext(Mode::kEval, 1, 0, seed)).iterate()->next();
  if (!batch) throw InvalidArgument("the evaluation's input has no batch to trace the model with");
  const Features& features = batch->features;
  return raw_serving_input(features.slice(0, std::min<std::int64_t>(2, features.batch_size())));
}

ServingInput serving_input(const Estimator& estimator, const EvalSpec& spec) {
  for (const auto& exporter : spec.exporters) {
    if (const auto* known = dynamic_cast<const SavedModelExporter*>(exporter.get())) {
      return known->serving_input();
    }
  }
  const std::uint64_t seed = estimator.config().seed();
  const auto columns = columns_of(*Towers::make_model(estimator.options().model, seed));
  return columns.empty() ? first_rows(spec.input_fn, seed) : json_serving_input(columns);
}

}  // namespace

HookPtr make_graph_hook(const Estimator& estimator, const EvalSpec& spec) {
  return std::make_shared<GraphHook>(estimator, [&] { return serving_input(estimator, spec); });
}

}  // namespace muster::internal
