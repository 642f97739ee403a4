#include "muster/export/inference_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/export/columns_internal.h"
#include "muster/export/inference_graph_internal.h"
#include "muster/export/receiver_internal.h"
#include "muster/export/saver_internal.h"
#include "muster/export/trace.h"
#include "muster/export/translation_internal.h"
#include "muster/nn/optim/slot_count.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/join.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster {
namespace exporting {
namespace {

using graph::DataType;
using Tensors = std::vector<std::pair<std::string, GraphTensor>>;

graph::TensorInfo info_of(const GraphTensor& tensor) {
  return {.name = tensor.name, .sparse = {}, .dtype = tensor.type, .shape = tensor.shape};
}

const GraphTensor& find(const Tensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  throw Internal("the exported graph lacks the prediction '{}'", name);
}

using Classes = std::map<std::vector<std::string>, GraphTensor>;

// The same words for every row.
GraphTensor add_classes(const std::vector<std::string>& classes, GraphBuilder& builder) {
  builder.enter("head");
  const auto count = static_cast<std::int64_t>(classes.size());
  const auto words = builder.constant(graph::TensorValue::of_strings({1, count}, classes));
  const auto multiples =
      builder.add("multiples", "Pack", {builder.batch_size(), builder.int_scalar(1)},
                  {{"N", 2}, {"T", DataType::kInt32}, {"axis", 0}});
  const auto tiled = builder.add("Tile", "Tile", {words, multiples},
                                 {{"T", DataType::kString}, {"Tmultiples", DataType::kInt32}});
  return {.name = tiled + ":0", .type = DataType::kString, .shape = {-1, count}};
}

graph::SignatureDef signature(const ExportOutput& output, const GraphReceiver& receiver,
                              const Tensors& predictions, Classes& classes, GraphBuilder& builder) {
  graph::SignatureDef made;
  made.method_name = method_name_of(output.kind);
  const bool predicts = output.kind == SignatureKind::kPredict;
  if (predicts) made.defaults = receiver.defaults;
  for (const auto& [name, tensor] : receiver.inputs) {
    made.inputs.emplace(predicts ? name : "inputs", info_of(tensor));
  }
  for (const auto& [key, prediction] : output.outputs) {
    made.outputs.emplace(key, info_of(find(predictions, prediction)));
  }
  if (!output.classes.empty()) {
    auto held = classes.find(output.classes);
    if (held == classes.end()) {
      held = classes.emplace(output.classes, add_classes(output.classes, builder)).first;
    }
    made.outputs.emplace("classes", info_of(held->second));
  }
  return made;
}

std::vector<ExportOutput> with_default(std::vector<ExportOutput> outputs,
                                       const Tensors& predictions) {
  const bool there = std::ranges::any_of(
      outputs, [](const ExportOutput& output) { return output.name == kServingDefault; });
  if (there) return outputs;
  ExportOutput added;
  // For a multi-head, "predict" has the predictions of all heads.
  const auto predict = std::ranges::find(outputs, "predict", &ExportOutput::name);
  if (outputs.empty()) {
    for (const auto& item : predictions) added.outputs.emplace_back(item.first, item.first);
  } else {
    added = predict != outputs.end() ? *predict : outputs.front();
  }
  added.name = kServingDefault;
  outputs.push_back(std::move(added));
  return outputs;
}

// Signatures that classify or regress need one string input.
void add_signatures(const Program& program, const ServingInput& input, const std::string& prefix,
                    const GraphReceiver& receiver, const Tensors& predictions,
                    GraphBuilder& builder, graph::MetaGraph& meta) {
  std::vector<ExportOutput> outputs;
  std::string left_out;
  for (const auto& output : program.export_outputs) {
    if (output.kind == SignatureKind::kPredict || input.is_one_string()) {
      outputs.push_back(output);
    } else if (output.name != kServingDefault) {  // There is always one.
      left_out += (left_out.empty() ? "" : ", ") + output.name;
    }
  }
  if (!left_out.empty()) {
    log::info("signatures EXCLUDED from export, since they need one string input: {}", left_out);
  }
  Classes classes;
  for (const auto& output : with_default(std::move(outputs), predictions)) {
    const std::string name = prefix.empty() ? output.name : prefix + ":" + output.name;
    meta.signatures.emplace(name, signature(output, receiver, predictions, classes, builder));
  }
}

std::set<std::string> keys_of(const FeatureColumn& column) {
  std::set<std::string> keys;
  for (const auto& item : column.parse_specs()) keys.insert(item.first);
  return keys;
}

/// A model in the making: one graph, one trace, any number of ways in.
class ModelGraph {
 public:
  ModelGraph(Model& model, const Head* head, const ServingInput& input)
      : program_(trace(model, head, example_of(input, column_keys(model)))) {
    for (const auto& feature : program_.features) needed_.insert(feature.first);
    for (const auto& input_columns : program_.columns) {
      for (const auto& column : input_columns.columns) needed_.merge(keys_of(column));
    }
  }

  void add(const ServingInput& input, const std::string& prefix, graph::MetaGraph& meta) {
    const GraphReceiver receiver = add_receiver(input, needed_, builder_);
    ProgramInputs inputs;
    for (const auto& [name, id] : program_.features) {
      inputs.features.push_back(feature_node(name, program_.values[id.index], receiver));
    }
    if (!program_.columns.empty()) {
      builder_.enter("");
      builder_.batch_size();
    }
    ColumnGraph columns(receiver.features, tables_, builder_);
    for (const auto& column : program_.columns) inputs.columns.push_back(columns.nodes_of(column));
    const Tensors predictions = translate_into(program_, inputs, builder_, variables_);
    add_signatures(program_, input, prefix, receiver, predictions, builder_, meta);
  }

  void finish(BuiltGraph& built) {
    graph::MetaGraph& meta = built.inference.meta;
    tables_.finish(builder_, meta);
    meta.graph = builder_.take();
    meta.graph.versions = graph_versions();
    add_saver(variables_, meta);
    graph::strip_default_attrs(meta.graph);
    meta.stripped_default_attrs = true;
    built.inference.assets = tables_.take_assets();
    built.variables = std::move(variables_);
  }

 private:
  // The features that columns read.
  static std::set<std::string> column_keys(const Model& model) {
    std::set<std::string> keys;
    for (const ColumnSet* set : column_sets_of(model)) {
      for (const auto& column : set->columns()) keys.merge(keys_of(column));
    }
    return keys;
  }

  // A feature that the model reads without a column, as it was traced.
  std::string feature_node(const std::string& name, const Value& traced,
                           const GraphReceiver& receiver) {
    const auto found = receiver.features.find(name);
    if (found == receiver.features.end() || found->second.is_sparse()) {
      throw InvalidArgument(
          "the model reads the feature '{}' as a tensor, which the serving input does not give",
          name);
    }
    const GraphFeature& raw = found->second;
    builder_.enter("");
    const auto type = graph_type(traced.dtype);
    const std::string node = builder_.cast(raw.values, raw.type, type);
    graph::Shape wanted = shape_of(traced.sizes);
    if (raw.shape.size() + 1 == wanted.dims.size()) return node;
    return builder_.add("Reshape", "Reshape", {node, builder_.ints(wanted.dims)},
                        {{"T", type}, {"Tshape", DataType::kInt32}});
  }

  GraphBuilder builder_;
  GraphTables tables_;
  Program program_;
  std::set<std::string> needed_;
  std::vector<GraphVariable> variables_;
};

}  // namespace

BuiltGraph build_graph(Model& model, const Head* head, const ServingInput& input) {
  BuiltGraph built;
  graph::MetaGraph& meta = built.inference.meta;
  meta.tags = {std::string(graph::kServeTag)};
  meta.tensorflow_version = "1.15.0";
  meta.tensorflow_git_version = "muster";
  ModelGraph made(model, head, input);
  made.add(input, "", meta);
  for (const auto& [name, alternative] : input.alternatives) made.add(alternative, name, meta);
  made.finish(built);
  graph::check_graph(meta.graph);
  return built;
}

}  // namespace exporting

InferenceGraph inference_graph(const Estimator& estimator, const ServingInput& input) {
  if (has_evaluation_offset(estimator.options().optimizer)) {
    throw Unimplemented(
        "the graph restores variables as checkpoints have them, and evaluations of this optimizer "
        "use others, which it makes of its slots; export a SavedModel, which has those");
  }
  EvaluationModel model(estimator.options(), 0);
  auto built = exporting::build_graph(model.model(), estimator.options().head.get(), input);
  if (estimator.options().moving_average) {
    exporting::restore_averages(built.variables, built.inference.meta);
  }
  return std::move(built.inference);
}

void write_inference_graph(const InferenceGraph& graph, const Path& model_dir) {
  graph::SavedModel saved;
  saved.meta_graphs.push_back(graph.meta);
  const std::string bytes = graph::encode_saved_model(saved);
  const Path assets = graph::inference_assets_dir(model_dir);
  if (!graph.assets.empty()) file_system_for(assets).create_directories(assets);
  for (const auto& [name, content] : graph.assets) write_file_atomically(assets / name, content);
  write_file_atomically(graph::inference_graph_path(model_dir), bytes);
}

}  // namespace muster
