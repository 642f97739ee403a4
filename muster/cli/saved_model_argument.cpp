#include "muster/cli/saved_model_argument.h"

#include "muster/base/error.h"
#include "muster/cli/words.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::cli {
namespace {

// The newest export of the first exporter of a model_dir; empty when there is none.
Path export_below(const Path& model_dir) {
  const Path base = model_dir / "export";
  if (!file_exists(base)) return {};
  for (const std::string& name : file_system_for(base).list(base)) {
    const Path found = graph::latest_export(base / name);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

Path find_saved_model(const Path& dir) {
  if (graph::is_saved_model(dir)) return dir;
  const Path newest = graph::latest_export(dir);
  if (!newest.empty()) return newest;
  const Path exported = export_below(dir);
  if (!exported.empty()) {
    throw NotFound("{} is the folder of a training; an export of it is {}", dir.string(),
                   exported.string());
  }
  if (file_exists(graph::inference_graph_path(dir)) || latest_checkpoint(dir)) {
    throw NotFound(
        "{} is the folder of a training and has no export yet: make one with muster export "
        "savedmodel --model-dir {}",
        dir.string(), dir.string());
  }
  throw NotFound(
      "{} holds neither saved_model.pb nor saved_model.pbtxt nor folders of numbers that do",
      dir.string());
}

std::vector<std::string> tags_of(const std::string& tag_set) {
  return tag_set.empty() ? std::vector<std::string>() : split(tag_set, ',');
}

}  // namespace muster::cli
