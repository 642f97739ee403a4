#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/model.h"
#include "muster/cli/words.h"
#include "muster/graph/saved_model.h"

// The texts are those of TensorFlow's saved_model_cli, which other programs read.

namespace muster::cli {
namespace {

using graph::MetaGraph;
using graph::SavedModel;
using graph::SignatureDef;
using graph::TensorInfo;

struct ModelShowOptions {
  std::string dir;
  std::string tag_set;
  std::string signature_def;
  bool all = false;
};

void print_tensor(const TensorInfo& info, const std::string& indent) {
  fmt::print("{}dtype: {}\n", indent, name_of(info.dtype));
  fmt::print("{}shape: {}\n", indent, to_string(info.shape));
  fmt::print("{}name: {}\n", indent, info.name);
}

using Tensors = std::map<std::string, TensorInfo, std::less<>>;

void print_tensors(const Tensors& tensors, const char* which, const std::string& indent) {
  fmt::print("{}The given SavedModel SignatureDef contains the following {}(s):\n", indent, which);
  for (const auto& [key, info] : tensors) {
    fmt::print("{}  {}s['{}'] tensor_info:\n", indent, which, key);
    print_tensor(info, indent + "      ");
  }
}

void print_signature(const SignatureDef& signature, const std::string& indent) {
  print_tensors(signature.inputs, "input", indent);
  print_tensors(signature.outputs, "output", indent);
  fmt::print("{}Method name is: {}\n", indent, signature.method_name);
}

std::vector<const MetaGraph*> sorted_by_tags(const SavedModel& model) {
  std::vector<const MetaGraph*> sorted;
  for (const MetaGraph& meta : model.meta_graphs) sorted.push_back(&meta);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->tags < b->tags; });
  return sorted;
}

void print_tag_sets(const SavedModel& model) {
  fmt::print("The given SavedModel contains the following tag-sets:\n");
  for (const MetaGraph* meta : sorted_by_tags(model)) {
    std::vector<std::string> tags = meta->tags;
    std::sort(tags.begin(), tags.end());
    fmt::print("'{}'\n", fmt::join(tags, ", "));
  }
}

void print_keys(const MetaGraph& meta) {
  fmt::print("The given SavedModel MetaGraphDef contains SignatureDefs with the following keys:\n");
  for (const auto& row : meta.signatures) fmt::print("SignatureDef key: \"{}\"\n", row.first);
}

void print_all(const SavedModel& model) {
  for (const MetaGraph* meta : sorted_by_tags(model)) {
    fmt::print("\nMetaGraphDef with tag-set: '{}' contains the following SignatureDefs:\n",
               fmt::join(meta->tags, ", "));
    for (const auto& [key, signature] : meta->signatures) {
      fmt::print("\nsignature_def['{}']:\n", key);
      print_signature(signature, "  ");
    }
  }
}

void show(const ModelShowOptions& options) {
  if (options.tag_set.empty() && !options.signature_def.empty()) {
    throw UsageError("--signature_def needs --tag_set, such as --tag_set serve");
  }
  const SavedModel model = graph::read_saved_model(options.dir);
  if (options.all) return print_all(model);
  if (options.tag_set.empty()) return print_tag_sets(model);
  const MetaGraph& meta = graph::find_meta_graph(model, split(options.tag_set, ','));
  if (options.signature_def.empty()) return print_keys(meta);
  print_signature(graph::find_signature(meta, options.signature_def), "");
}

}  // namespace

void add_model_show(CLI::App& command) {
  const auto options = std::make_shared<ModelShowOptions>();
  command.add_option("--dir", options->dir, "The folder of the SavedModel")->required();
  command.add_option("--tag_set,--tag-set,--tag", options->tag_set,
                     "The tags of a graph, separated by commas: print its signatures' names");
  command.add_option("--signature_def,--signature-def", options->signature_def,
                     "A signature of that graph: print its inputs and outputs");
  command.add_flag("--all", options->all, "Print everything of every graph");
  command.callback([options] { show(*options); });
}

}  // namespace muster::cli
