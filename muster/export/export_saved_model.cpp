#include "muster/export/export_saved_model.h"

#include <torch/types.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_writer.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/export/inference_graph_internal.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/train/engine/tensor_codec.h"
#include "muster/train/estimator/estimator.h"
#include "muster/train/estimator/evaluation_model.h"

namespace muster {
namespace exporting {
namespace {

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

void write_new_file(const Path& path, const std::string& content) {
  file_system_for(path).create_directories(path.parent_path());
  write_file_atomically(path, content);
}

// DIR/assets.extra/NAME, where the name may have folders of its own but stays inside.
Path extra_path(const Path& dir, const std::string& name) {
  const Path relative(name);
  const Path normal = relative.lexically_normal();
  if (name.empty() || relative.is_absolute() || normal.empty() || *normal.begin() == ".." ||
      !normal.has_filename()) {
    throw InvalidArgument("assets_extra: '{}' is no name of a file inside the export", name);
  }
  return dir / "assets.extra" / normal;
}

}  // namespace

void write_model(Model& model, const Head* head, const ServingInput& input, const Path& dir,
                 const ExportOptions& options) {
  const BuiltGraph built = build_graph(model, head, input);
  graph::SavedModel saved;
  saved.meta_graphs.push_back(built.inference.meta);
  const auto fill = [&](const Path& folder) {
    write_variables(built.variables, folder);
    for (const auto& [name, content] : built.inference.assets) {
      write_new_file(graph::asset_path(folder, name), content);
    }
    for (const auto& [name, source] : options.assets_extra) {
      write_new_file(extra_path(folder, name), read_file(source));
    }
  };
  graph::write_saved_model(dir, saved, fill, options.as_text);
}

}  // namespace exporting

Path export_saved_model(const Estimator& estimator, const Path& base, const ServingInput& input,
                        const ExportOptions& options) {
  EvaluationModel model(estimator.options(), 0);
  const Path from =
      options.checkpoint_path.empty() ? estimator.model_dir() : options.checkpoint_path;
  const std::int64_t step = model.load(resolve_checkpoint(from));
  const Path dir = graph::write_numbered_export(base, [&](const Path& next) {
    exporting::write_model(model.model(), estimator.options().head.get(), input, next, options);
  });
  log::info("exported SavedModel step={} path={}", step, dir.string());
  return dir;
}

}  // namespace muster
