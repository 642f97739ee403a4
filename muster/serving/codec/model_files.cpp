#include "muster/serving/codec/model_files.h"

#include "muster/saved_model/graph/saved_model.h"

namespace muster::serving {

std::optional<Path> torch_script_in(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status) return std::nullopt;
  if (!status->is_directory) {
    return path.extension() == ".pt" ? std::optional(path) : std::nullopt;
  }
  if (graph::is_saved_model(path) || !file_exists(path / kTorchScriptName)) return std::nullopt;
  return path / kTorchScriptName;
}

Path torch_script_signature_path(const Path& file) {
  Path path = file;
  return path.replace_extension(".signature.json");
}

bool is_version(const Path& path) {
  return graph::is_saved_model(path) || torch_script_in(path).has_value();
}

}  // namespace muster::serving
