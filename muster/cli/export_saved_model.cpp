#include <fmt/core.h>

#include <memory>
#include <string>

#include "muster/base/log.h"
#include "muster/cli/export.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/join.h"

namespace muster::cli {
namespace {

struct ExportSavedModelOptions {
  std::string model_dir;
  std::string checkpoint;
  std::string output;
};

void export_saved_model(const ExportSavedModelOptions& options) {
  const Path model_dir = options.model_dir;
  const graph::MetaGraph meta = graph::read_inference_graph(model_dir);
  const Path prefix =
      resolve_checkpoint(options.checkpoint.empty() ? model_dir : Path(options.checkpoint));
  const CheckpointPin pin(prefix);
  const BundleReader checkpoint(prefix);
  const Path base =
      options.output.empty() ? model_dir / "export" / "savedmodel" : Path(options.output);
  const Path dir = graph::write_numbered_export(base, [&](const Path& folder) {
    graph::write_joined_model(meta, graph::inference_assets_dir(model_dir), checkpoint, folder);
  });
  log::info("exported SavedModel checkpoint={} path={}", prefix.string(), dir.string());
  fmt::print("{}\n", dir.string());
}

}  // namespace

void add_export_saved_model(CLI::App& command) {
  const auto options = std::make_shared<ExportSavedModelOptions>();
  command
      .add_option("--model-dir,--model_dir", options->model_dir,
                  "The model folder of a run, with graph.pb and checkpoints")
      ->required();
  command.add_option("--checkpoint", options->checkpoint,
                     "A prefix such as DIR/model.ckpt-400; the latest one if it is not given");
  command.add_option("--output", options->output,
                     "Where the export's numbered folder goes (MODEL_DIR/export/savedmodel)");
  command.callback([options] { export_saved_model(*options); });
}

}  // namespace muster::cli
