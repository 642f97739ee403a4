#include "muster/run/inference_graph_hook_internal.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/features/column_set.h"
#include "muster/export/exporters.h"
#include "muster/export/graph_hook.h"
#include "muster/export/trace.h"
#include "muster/train/engine/seeded_model.h"

namespace muster::internal {
namespace {

FeatureColumnList columns_of(const Model& model) {
  FeatureColumnList columns;
  for (const ColumnSet* set : exporting::column_sets_of(model)) {
    columns.insert(columns.end(), set->columns().begin(), set->columns().end());
  }
  return columns;
}

ServingInput first_rows(const Batch& batch) {
  const Features& features = batch.features;
  return raw_serving_input(features.slice(0, std::min<std::int64_t>(2, features.batch_size())));
}

Batch first_batch(const InputFn& input_fn, std::uint64_t seed) {
  auto batch = input_fn(InputContext(Mode::kEval, 1, 0, seed)).iterate()->next();
  if (!batch) throw InvalidArgument("the evaluation's input has no batch to trace the model with");
  return *std::move(batch);
}

ServingInput serving_input(const Estimator& estimator, const EvalSpec& spec,
                           const std::optional<Batch>& examples) {
  for (const auto& exporter : spec.exporters) {
    if (const auto* known = dynamic_cast<const SavedModelExporter*>(exporter.get())) {
      return known->serving_input();
    }
  }
  const std::uint64_t seed = estimator.config().seed();
  const auto columns = columns_of(*make_seeded_model(estimator.options().model, seed));
  if (!columns.empty()) return json_serving_input(columns);
  return first_rows(examples ? *examples : first_batch(spec.input_fn, seed));
}

}  // namespace

HookPtr make_graph_hook(const Estimator& estimator, const EvalSpec& spec,
                        std::optional<Batch> examples) {
  return std::make_shared<GraphHook>(estimator, [&, examples = std::move(examples)] {
    return serving_input(estimator, spec, examples);
  });
}

}  // namespace muster::internal
