#include <fmt/core.h>

#include <memory>
#include <string>

#include "muster/cli/checkpoint.h"
#include "muster/cli/command.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_hash.h"

namespace muster::cli {
namespace {

struct CheckpointOptions {
  std::string path;
  bool as_json = false;
};

constexpr const char* kPathHelp =
    "A prefix such as DIR/model.ckpt-400, a model_dir (its latest checkpoint) or a SavedModel";
constexpr const char* kShowHelp =
    "A prefix such as DIR/model.ckpt-400, a model_dir (its latest checkpoint), a SavedModel, or a "
    "file of weights";

void hash(const CheckpointOptions& options) {
  const BundleReader bundle(resolve_checkpoint(options.path));
  fmt::print("{}  {}\n", checkpoint_hash(bundle), bundle.prefix().string());
}

void add_show(CLI::App& command) {
  const auto options = std::make_shared<CheckpointOptions>();
  command.add_option("PATH", options->path, kShowHelp)->required();
  add_json_flag(command, options->as_json, "One JSON object");
  command.callback([options] { show_checkpoint(options->path, options->as_json); });
}

void add_hash(CLI::App& command) {
  const auto options = std::make_shared<CheckpointOptions>();
  command.add_option("PATH", options->path, kPathHelp)->required();
  command.callback([options] { hash(*options); });
}

constexpr Command kCheckpointCommands[] = {
    {"convert", "write its tensors in another format: safetensors, PyTorch's, numpy's, ours",
     add_checkpoint_convert},
    {"show", "print the names, types and shapes of its tensors", add_show},
    {"hash", "print a SHA-256 over the names, types, shapes and values of its tensors", add_hash},
};

}  // namespace

void add_checkpoint(CLI::App& command) { add_commands(command, kCheckpointCommands); }

}  // namespace muster::cli
