#include "muster/export/export_saved_model.h"

#include <torch/types.h>

#include <chrono>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/bundle_writer.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/evaluation_model.h"
#include "muster/estimator/tensor_codec.h"
#include "muster/export/saver_internal.h"
#include "muster/export/trace.h"
#include "muster/export/translate.h"
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

void write_variables(const std::vector<GraphVariable>& variables, const Path& folder) {
  if (variables.empty()) return;
  std::vector<ModuleVariable> held;
  std::vector<NamedTensor> tensors;
  for (const auto& variable : variables) {
    held.push_back(variable.variable);
    tensors.push_back({variable.variable.name, variable.variable.tensor.detach().cpu()});
  }
  const Path prefix = graph::variables_prefix(folder);
  file_system_for(prefix).create_directories(prefix.parent_path());
  const auto encoded = encode(std::move(tensors), CheckpointLayouts(held));
  BundleWriter writer(prefix);
  for (const auto& view : encoded.views) writer.add(view);
  writer.finish();
}

}  // namespace

void write_model(Model& model, const Head* head, const RawReceiver& receiver, const Path& dir) {
  const Program program = trace(model, head, receiver.example);
  TranslatedModel translated = translate(program);
  graph::MetaGraph meta;
  meta.tags = {std::string(graph::kServeTag)};
  meta.tensorflow_version = "1.15.0";
  meta.tensorflow_git_version = "muster";
  add_signatures(program, translated, meta);
  meta.graph = std::move(translated.graph);
  add_saver(translated.variables, meta);
  graph::check_graph(meta.graph);
  graph::SavedModel saved;
  saved.meta_graphs.push_back(std::move(meta));
  graph::write_saved_model(
      dir, saved, [&](const Path& folder) { write_variables(translated.variables, folder); });
}

}  // namespace exporting

Path export_saved_model(const Estimator& estimator, const Path& base, const RawReceiver& receiver,
                        const ExportOptions& options) {
  EvaluationModel model(estimator.options(), 0);
  const Path from =
      options.checkpoint_path.empty() ? estimator.model_dir() : options.checkpoint_path;
  const std::int64_t step = model.load(resolve_checkpoint(from));
  file_system_for(base).create_directories(base);
  auto number = std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  for (;; ++number) {
    const Path dir = base / std::to_string(number);
    if (file_exists(dir)) continue;
    try {
      exporting::write_model(model.model(), estimator.options().head.get(), receiver, dir);
    } catch (const AlreadyExists&) {
      continue;  // Another exporter was faster.
    }
    log::info("exported SavedModel step={} path={}", step, dir.string());
    return dir;
  }
}

}  // namespace muster
