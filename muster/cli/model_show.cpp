#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/model.h"
#include "muster/cli/saved_model_argument.h"
#include "muster/cli/used_ops.h"
#include "muster/saved_model/graph/saved_model.h"

// The texts are those of TensorFlow's saved_model_cli, which other programs read.

namespace muster::cli {
namespace {

using graph::MetaGraph;
using graph::SavedModel;
using graph::SignatureDef;
using graph::TensorInfo;

struct ModelShowOptions {
  std::string dir;
  std::optional<std::string> tag_set;
  std::string signature_def;
  bool all = false;
  bool list_ops = false;
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

void print_ops(const MetaGraph& meta, const std::string& tags) {
  const auto ops = used_ops(meta.graph);
  if (ops.empty()) return;
  fmt::print("The MetaGraph with tag set {} contains the following ops: {}\n", tags,
             python_set(ops));
}

// The functions of a TensorFlow 2 model by the names that its users call them by.
void print_functions(const MetaGraph& meta) {
  std::set<std::string> names;
  for (const auto& [function, alias] : meta.function_aliases) names.insert(alias);
  if (names.empty()) return;
  fmt::print("\nConcrete Functions:\n");
  for (const std::string& name : names) fmt::print("  Function Name: '{}'\n", name);
}

void print_all(const SavedModel& model) {
  for (const MetaGraph* meta : sorted_by_tags(model)) {
    fmt::print("\nMetaGraphDef with tag-set: '{}' contains the following SignatureDefs:\n",
               fmt::join(meta->tags, ", "));
    for (const auto& [key, signature] : meta->signatures) {
      fmt::print("\nsignature_def['{}']:\n", key);
      print_signature(signature, "  ");
    }
    print_ops(*meta, python_list(meta->tags));
    print_functions(*meta);
  }
}

void check_show(const ModelShowOptions& options) {
  if (options.tag_set || options.all) return;
  if (!options.signature_def.empty()) {
    throw UsageError("--signature_def needs --tag_set, such as --tag_set serve");
  }
  if (options.list_ops) throw UsageError("--list_ops needs --tag_set, such as --tag_set serve");
}

void show(const ModelShowOptions& options) {
  check_show(options);
  const SavedModel model = graph::read_saved_model(find_saved_model(options.dir));
  if (options.all) return print_all(model);
  if (!options.tag_set) return print_tag_sets(model);
  const MetaGraph& meta = graph::find_meta_graph(model, tags_of(*options.tag_set));
  if (options.signature_def.empty()) {
    print_keys(meta);
  } else {
    print_signature(graph::find_signature(meta, options.signature_def), "");
  }
  if (options.list_ops) print_ops(meta, *options.tag_set);
}

}  // namespace

void add_model_show(CLI::App& command) {
  const auto options = std::make_shared<ModelShowOptions>();
  command
      .add_option("--dir", options->dir,
                  "A SavedModel, or a folder of numbered ones, of which the highest is read")
      ->required();
  command.add_option_function<std::string>(
      "--tag_set,--tag-set,--tag", [options](const std::string& tags) { options->tag_set = tags; },
      "The tags of a graph, separated by commas: print its signatures' names; '' is none");
  command.add_option("--signature_def,--signature-def", options->signature_def,
                     "A signature of that graph: print its inputs and outputs");
  command.add_flag("--all", options->all, "Print everything of every graph");
  command.add_flag("--list_ops,--list-ops", options->list_ops,
                   "With --tag_set: also the types of operations of that graph");
  command.callback([options] { show(*options); });
}

}  // namespace muster::cli
