#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/cli/command.h"
#include "muster/cli/progress.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/data/checkpoint/checkpoint_hash.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct CheckpointOptions {
  std::string path;
  bool as_json = false;
};

constexpr const char* kPathHelp =
    "A prefix such as DIR/model.ckpt-400, a model_dir (its latest checkpoint) or a SavedModel";

std::int64_t elements_of(const TensorSpec& spec) { return element_count(spec.shape).value_or(0); }

void print_json(const BundleReader& bundle) {
  json tensors = json::array();
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  for (const std::string& name : bundle.names()) {
    const TensorSpec spec = bundle.spec(name);
    tensors.push_back({{"name", name},
                       {"dtype", numpy_name(spec.type)},
                       {"shape", spec.shape},
                       {"bytes", bundle.stored_bytes(name)}});
    bytes += bundle.stored_bytes(name);
    elements += elements_of(spec);
  }
  const json all{
      {"prefix", bundle.prefix().string()},
      {"shards", bundle.num_shards()},
      {"tensors", tensors},
      {"total", {{"tensors", tensors.size()}, {"elements", elements}, {"bytes", bytes}}}};
  fmt::print("{}\n", all.dump(2, ' ', false, json::error_handler_t::replace));
}

void print_text(const BundleReader& bundle) {
  std::size_t width = std::string_view("name").size();
  for (const std::string& name : bundle.names()) width = std::max(width, name.size());
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  fmt::print("{:<{}}  {:<9}  {:>12}  shape\n", "name", width, "dtype", "bytes");
  for (const std::string& name : bundle.names()) {
    const TensorSpec spec = bundle.spec(name);
    fmt::print("{:<{}}  {:<9}  {:>12}  {}\n", name, width, numpy_name(spec.type),
               bundle.stored_bytes(name), shape_text(spec.shape));
    bytes += bundle.stored_bytes(name);
    elements += elements_of(spec);
  }
  fmt::print("{} tensors, {} elements, {} in {} data file{}\n", bundle.names().size(), elements,
             human_bytes(static_cast<double>(bytes)), bundle.num_shards(),
             bundle.num_shards() == 1 ? "" : "s");
}

void show(const CheckpointOptions& options) {
  const BundleReader bundle(resolve_checkpoint(options.path));
  options.as_json ? print_json(bundle) : print_text(bundle);
}

void hash(const CheckpointOptions& options) {
  const BundleReader bundle(resolve_checkpoint(options.path));
  fmt::print("{}  {}\n", checkpoint_hash(bundle), bundle.prefix().string());
}

void add_show(CLI::App& command) {
  const auto options = std::make_shared<CheckpointOptions>();
  command.add_option("PATH", options->path, kPathHelp)->required();
  add_json_flag(command, options->as_json, "One JSON object");
  command.callback([options] { show(*options); });
}

void add_hash(CLI::App& command) {
  const auto options = std::make_shared<CheckpointOptions>();
  command.add_option("PATH", options->path, kPathHelp)->required();
  command.callback([options] { hash(*options); });
}

constexpr Command kCheckpointCommands[] = {
    {"show", "print the names, types and shapes of its tensors", add_show},
    {"hash", "print a SHA-256 over the names, types, shapes and values of its tensors", add_hash},
};

}  // namespace

void add_checkpoint(CLI::App& command) { add_commands(command, kCheckpointCommands); }

}  // namespace muster::cli
