#include <fmt/core.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/cli/export.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/saved_model/graph/export_folder.h"
#include "muster/saved_model/graph/freeze.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/onnx/convert.h"

// One signature of a model in one file, for other engines: `muster export onnx` and `muster export
// graphdef`.

namespace muster::cli {
namespace {

struct ExportOnnxOptions {
  std::string saved_model;
  std::string tag_set = "serve";
  std::string model_dir;
  std::string checkpoint;
  std::string signature = std::string(graph::kDefaultSignature);
  std::vector<std::string> outputs;
  bool reshaped_inputs = false;
  bool float_inputs = false;
  bool numbers_only = false;
  std::string output;
};

/// A graph with where its variables are; the pin keeps the checkpoint while it is read.
struct Source {
  graph::MetaGraph meta{};
  std::optional<CheckpointPin> pin{};
  std::optional<BundleReader> bundle{};
  Path assets_dir{};
};

Source open_saved_model(const Path& given, const std::string& tag_set) {
  Path dir = given;
  if (!graph::is_saved_model(dir)) {
    if (const Path latest = graph::latest_export(dir); !latest.empty()) dir = latest;
  }
  Source source;
  const auto model = graph::read_saved_model(dir);
  source.meta = graph::find_meta_graph(model, tags_of(tag_set));
  source.assets_dir = dir / "assets";
  const Path prefix = graph::variables_prefix(dir);
  if (file_exists(prefix.string() + ".index")) {
    source.bundle.emplace(BundleReader::inside(dir, graph::variables_prefix({})));
  }
  return source;
}

Source open_model_dir(const Path& dir, const Path& checkpoint) {
  Source source;
  source.meta = graph::read_inference_graph(dir);
  source.assets_dir = graph::inference_assets_dir(dir);
  const Path prefix = resolve_checkpoint(checkpoint.empty() ? dir : checkpoint);
  source.pin.emplace(prefix);
  source.bundle.emplace(prefix);
  return source;
}

Source open_source(const ExportOnnxOptions& options) {
  if (options.saved_model.empty() == options.model_dir.empty()) {
    throw UsageError("give --saved-model or --model-dir");
  }
  if (!options.checkpoint.empty() && options.model_dir.empty()) {
    throw UsageError("--checkpoint needs --model-dir: a SavedModel has its own variables");
  }
  if (!options.saved_model.empty()) return open_saved_model(options.saved_model, options.tag_set);
  return open_model_dir(options.model_dir, options.checkpoint);
}

// Logs the parts of the signature that the exported model lacks: outputs and feature columns.
void log_difference(const graph::SignatureDef& whole, const graph::FrozenGraph& frozen,
                    const ExportOnnxOptions& options) {
  std::vector<std::string> left_out;
  for (const auto& [key, info] : whole.outputs) {
    if (options.outputs.empty() && !frozen.signature.outputs.contains(key)) left_out.push_back(key);
  }
  if (!left_out.empty()) {
    log::info("outputs skipped, since they are strings or made of strings alone: {}",
              fmt::join(left_out, ", "));
  }
  std::vector<std::string> columns;
  for (const auto& [key, tensor] : frozen.columns) columns.push_back(key);
  if (!columns.empty()) {
    log::info("feature columns stay outside, and these inputs are what they give: {}",
              fmt::join(columns, ", "));
  }
}

// `lookups`: whether the format has tables of words; `columns`: whether it has all that feature
// columns are made of.
graph::FrozenGraph frozen_graph(const ExportOnnxOptions& options, bool lookups, bool columns) {
  const Source source = open_source(options);
  const auto& signature = graph::find_signature(source.meta, options.signature);
  auto frozen = graph::freeze(source.meta, signature, source.bundle ? &*source.bundle : nullptr,
                              {.outputs = options.outputs,
                               .numeric = true,
                               .lookups = lookups,
                               .assets_dir = source.assets_dir,
                               .columns = columns,
                               .reshaped_inputs = options.reshaped_inputs,
                               .float_inputs = options.float_inputs});
  log_difference(signature, frozen, options);
  return frozen;
}

void write(const ExportOnnxOptions& options, const std::string& bytes) {
  write_file_atomically(options.output, bytes);
  fmt::print("{}\n", options.output);
}

void export_onnx(const ExportOnnxOptions& options) {
  onnx::Model model = onnx::convert(frozen_graph(options, /*lookups=*/true, /*columns=*/false));
  model.metadata.emplace("signature", options.signature);
  write(options, onnx::encode_model(model));
}

void export_graph_def(const ExportOnnxOptions& options) {
  const bool inside = !options.numbers_only;
  write(options, graph::encode_graph(frozen_graph(options, inside, inside).graph));
}

void add_flags(CLI::App& command, ExportOnnxOptions& options, const char* output) {
  command.add_option(
      "--saved-model,--saved_model", options.saved_model,
      "The folder of a SavedModel, or of numbered ones, of which the newest is taken");
  command.add_option("--model-dir,--model_dir", options.model_dir,
                     "The model folder of a run, with graph.pb and checkpoints");
  command.add_option("--checkpoint", options.checkpoint,
                     "With --model-dir: a prefix such as DIR/model.ckpt-400 (the latest)");
  command.add_option("--tag_set,--tag-set,--tag", options.tag_set,
                     "With --saved-model: the tags of the graph (serve); '' is none");
  command.add_option("--signature_def,--signature-def", options.signature,
                     "The signature to take (serving_default)");
  command
      .add_option("--outputs", options.outputs,
                  "The outputs to keep, separated by commas (all that are numbers)")
      ->delimiter(',');
  command.add_flag("--float-inputs,--float_inputs", options.float_inputs,
                   "Take inputs that the model only casts to float as float: OpenCV has no bytes");
  command.add_option("--output", options.output, output)->required();
}

}  // namespace

void add_export_onnx(CLI::App& command) {
  const auto options = std::make_shared<ExportOnnxOptions>();
  add_flags(command, *options, "The .onnx file to write");
  command.callback([options] { export_onnx(*options); });
}

void add_export_graph_def(CLI::App& command) {
  const auto options = std::make_shared<ExportOnnxOptions>();
  add_flags(command, *options, "The .pb file to write");
  command.add_flag("--reshaped-inputs,--reshaped_inputs", options->reshaped_inputs,
                   "Take inputs that the model only reshapes in that shape: OpenCV wants images");
  command.add_flag("--numbers-only,--numbers_only", options->numbers_only,
                   "Leave feature columns of words outside, and take what they give: for engines "
                   "without strings");
  command.callback([options] { export_graph_def(*options); });
}

}  // namespace muster::cli
