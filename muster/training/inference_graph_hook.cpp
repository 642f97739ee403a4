#include "muster/training/inference_graph_hook_internal.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/estimator/towers.h"
#include "muster/export/exporters.h"
#include "muster/export/inference_graph.h"
#include "muster/export/trace.h"
#include "muster/features/column_set.h"
#include "muster/graph/join.h"
#include "muster/summary/event_writer.h"

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

// Of libtorch's messages all but the first line tell where in libtorch.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void InferenceGraphHook::write(Session& session) const {
  const InferenceGraph graph = inference_graph(estimator_, serving_input(estimator_, spec_));
  write_inference_graph(graph, session.config().model_dir);
  session.events().add_graph(graph::encode_graph(graph.meta.graph), session.global_step());
}

void InferenceGraphHook::begin(Session& session) {
  if (!session.config().is_chief()) return;
  try {
    write(session);
  } catch (const std::exception&) {
    const auto why = first_line(describe(std::current_exception()).message);
    log::warning("no graph of the model is written: {}", why);
    // One of an earlier run may be of another model.
    file_system_for(session.config().model_dir)
        .remove(graph::inference_graph_path(session.config().model_dir));
  }
}

}  // namespace muster::internal
