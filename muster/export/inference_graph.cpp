#include "muster/export/inference_graph.h"

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/evaluation_model.h"
#include "muster/export/inference_graph_internal.h"
#include "muster/export/saver_internal.h"
#include "muster/export/trace.h"
#include "muster/graph/check.h"

namespace muster {
namespace exporting {
namespace {

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

graph::SignatureDef signature(const TranslatedModel& model, const ExportOutput& output) {
  graph::SignatureDef made;
  made.method_name = method_name_of(output.kind);
  for (const auto& [name, tensor] : model.inputs) made.inputs.emplace(name, info_of(tensor));
  for (const auto& [key, prediction] : output.outputs) {
    made.outputs.emplace(key, info_of(find(model.outputs, prediction)));
  }
  return made;
}

// The predict signatures, one of them as serving_default too.
void add_signatures(const Program& program, const TranslatedModel& model, graph::MetaGraph& meta) {
  const ExportOutput* first = nullptr;
  std::string left_out;
  for (const auto& output : program.export_outputs) {
    if (output.kind != SignatureKind::kPredict) {
      left_out += (left_out.empty() ? "" : ", ") + output.name;
      continue;
    }
    if (first == nullptr) first = &output;
    meta.signatures.emplace(output.name, signature(model, output));
  }
  if (!left_out.empty()) {
    log::info("signatures EXCLUDED from export, since they need one string input: {}", left_out);
  }
  const std::string fallback(kServingDefault);
  if (meta.signatures.contains(fallback)) return;
  if (first != nullptr) {
    meta.signatures.emplace(fallback, signature(model, *first));
    return;
  }
  ExportOutput all{.name = fallback};
  for (const auto& [name, tensor] : model.outputs) all.outputs.emplace_back(name, name);
  meta.signatures.emplace(fallback, signature(model, all));
}

}  // namespace

BuiltGraph build_graph(Model& model, const Head* head, const ServingInput& input) {
  if (input.kind != ServingInput::Kind::kRaw || !input.alternatives.empty()) {
    throw Unimplemented("only raw_serving_input() can be exported yet");
  }
  const Program program = trace(model, head, input.example);
  TranslatedModel translated = translate(program);
  BuiltGraph built;
  graph::MetaGraph& meta = built.inference.meta;
  meta.tags = {std::string(graph::kServeTag)};
  meta.tensorflow_version = "1.15.0";
  meta.tensorflow_git_version = "muster";
  add_signatures(program, translated, meta);
  meta.graph = std::move(translated.graph);
  add_saver(translated.variables, meta);
  graph::check_graph(meta.graph);
  built.variables = std::move(translated.variables);
  return built;
}

}  // namespace exporting

InferenceGraph inference_graph(const Estimator& estimator, const ServingInput& input) {
  EvaluationModel model(estimator.options(), 0);
  return exporting::build_graph(model.model(), estimator.options().head.get(), input).inference;
}

void write_inference_graph(const InferenceGraph& graph, const Path& model_dir) {
  graph::SavedModel saved;
  saved.meta_graphs.push_back(graph.meta);
  const std::string bytes = graph::encode_saved_model(saved);
  const Path assets = model_dir / "graph.assets";
  if (!graph.assets.empty()) file_system_for(assets).create_directories(assets);
  for (const auto& [name, content] : graph.assets) write_file_atomically(assets / name, content);
  write_file_atomically(model_dir / "graph.pb", bytes);
}

}  // namespace muster
