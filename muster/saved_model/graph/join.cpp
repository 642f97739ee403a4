#include "muster/saved_model/graph/join.h"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/data/checkpoint/bundle_writer.h"

namespace muster::graph {
namespace {

constexpr std::string_view kRestoreOp = "RestoreV2";

using NodesByName = std::unordered_map<std::string_view, const NodeDef*>;

NodesByName nodes_of(const GraphDef& graph) {
  NodesByName nodes;
  for (const NodeDef& node : graph.nodes) nodes.emplace(node.name, &node);
  return nodes;
}

const NodeDef& find_node(const NodesByName& nodes, std::string_view input) {
  const auto found = nodes.find(parse_input(input).node);
  if (found == nodes.end()) throw InvalidArgument("the graph's saver lacks the node '{}'", input);
  return *found->second;
}

const NodeDef& input_node(const NodesByName& nodes, const NodeDef& node, std::size_t index) {
  if (index < node.inputs.size()) return find_node(nodes, node.inputs[index]);
  throw InvalidArgument("node {} of the graph's saver has only {} inputs", node.name,
                        node.inputs.size());
}

// Nodes that run when `root` runs, itself included, in the order in which they are found.
std::vector<const NodeDef*> ancestors(const NodesByName& nodes, const NodeDef& root) {
  std::vector<const NodeDef*> all{&root};
  std::set<const NodeDef*> seen{&root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& input : all[i]->inputs) {
      const NodeDef& node = find_node(nodes, input);
      if (seen.insert(&node).second) all.push_back(&node);
    }
  }
  return all;
}

std::vector<std::string> constant_strings(const NodesByName& nodes, const NodeDef& node,
                                          std::size_t input) {
  const NodeDef& constant = input_node(nodes, node, input);
  if (constant.op != "Const") {
    throw InvalidArgument("node {} of the graph's saver must be a constant, but is {}",
                          constant.name, constant.op);
  }
  return attr<TensorValue>(constant, "value").strings;
}

// The output of a RestoreV2 that an assignment takes its value from.
std::optional<std::pair<const NodeDef*, std::size_t>> restored_value(const NodesByName& nodes,
                                                                     const NodeDef& assign) {
  const NodeDef* node = &assign;
  std::size_t input = 1;
  // An Identity between the two is usual; more of them cannot be a cycle for ever.
  for (std::size_t steps = 0; steps <= nodes.size(); ++steps) {
    const NodeDef& from = input_node(nodes, *node, input);
    const int index = parse_input(node->inputs[input]).index;
    if (from.op == kRestoreOp) return std::pair{&from, static_cast<std::size_t>(index)};
    if (from.op != "Identity") return std::nullopt;
    node = &from;
    input = 0;
  }
  return std::nullopt;
}

using Outputs = std::map<std::pair<const NodeDef*, std::size_t>, const NodeDef*>;

// The variables that the outputs of RestoreV2 are assigned to.
Outputs assigned_variables(const NodesByName& nodes, const std::vector<const NodeDef*>& all) {
  Outputs assigned;
  for (const NodeDef* node : all) {
    if (node->op != "AssignVariableOp" && node->op != "Assign") continue;
    const auto value = restored_value(nodes, *node);
    if (!value) continue;
    assigned.emplace(*value, &input_node(nodes, *node, 0));
  }
  return assigned;
}

void add_variables(const NodesByName& nodes, const NodeDef& restore, const Outputs& assigned,
                   std::map<std::string, RestoredVariable>& variables) {
  const auto names = constant_strings(nodes, restore, 1);
  const auto slices = constant_strings(nodes, restore, 2);
  const auto& types = attr<AttrList>(restore, "dtypes").types;
  if (slices.size() != names.size() || types.size() != names.size()) {
    throw InvalidArgument("node {} restores {} tensors of {} types in {} slices", restore.name,
                          names.size(), types.size(), slices.size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = assigned.find({&restore, i});
    RestoredVariable variable{.name = names[i], .type = types[i], .shape = Shape::any()};
    // A slice is a part of what the bundle holds as one tensor.
    if (found != assigned.end() && slices[i].empty()) {
      variable.shape = attr_or<Shape>(*found->second, "shape", Shape::any());
      variable.node = found->second->name;
    }
    variables.emplace(names[i], std::move(variable));
  }
}

// Empty when the checkpoint has it as the graph wants it.
std::string difference(const RestoredVariable& variable, const BundleReader& checkpoint) {
  if (!checkpoint.contains(variable.name)) return fmt::format("{} is missing", variable.name);
  const TensorSpec spec = checkpoint.spec(variable.name);
  if (spec.type == without_ref(variable.type) && fits(variable.shape, spec.shape)) return {};
  return fmt::format("{} is {} there and {} {} in the graph", variable.name, to_string(spec),
                     name_of(variable.type), to_string(variable.shape));
}

void copy(const BundleReader& from, const std::string& name, BundleWriter& to) {
  const TensorSpec spec = from.spec(name);
  if (spec.type == DataType::kString) {
    const std::vector<std::string> values = from.read_strings(name);
    const std::vector<std::string_view> views(values.begin(), values.end());
    to.add({.name = name, .type = spec.type, .shape = spec.shape, .strings = views});
    return;
  }
  const TensorData data = from.read(name);
  to.add({.name = name, .type = spec.type, .shape = spec.shape, .bytes = data.bytes});
}

void write_variables(const std::vector<RestoredVariable>& variables, const BundleReader& checkpoint,
                     const Path& folder) {
  if (variables.empty()) return;
  const Path prefix = variables_prefix(folder);
  file_system_for(prefix).create_directories(prefix.parent_path());
  BundleWriter writer(prefix);
  for (const auto& variable : variables) copy(checkpoint, variable.name, writer);
  writer.finish();
}

void write_assets(const MetaGraph& meta, const Path& assets_dir, const Path& folder) {
  std::set<std::string> written;
  for (const AssetFile& asset : asset_files(meta)) {
    if (!written.insert(asset.filename).second) continue;
    const Path to = asset_path(folder, asset.filename);
    file_system_for(to).create_directories(to.parent_path());
    write_file_atomically(
        to, read_file_inside(assets_dir.parent_path(), assets_dir.filename() / asset.filename));
  }
}

}  // namespace

Path inference_graph_path(const Path& model_dir) { return model_dir / "graph.pb"; }
Path inference_assets_dir(const Path& model_dir) { return model_dir / "graph.assets"; }

MetaGraph read_inference_graph(const Path& model_dir, const GraphLimits& limits) {
  const Path path = inference_graph_path(model_dir);
  if (!file_exists(path)) {
    throw NotFound(
        "{} is not there. train_and_evaluate() writes it when training begins, and "
        "Estimator::train() "
        "with a GraphHook among its hooks (muster/export/graph_hook.h); of a model that is trained "
        "already, export_saved_model() of its program writes a SavedModel",
        path.string());
  }
  try {
    SavedModel model = decode_saved_model(read_file(path, limits.file_bytes), limits);
    if (model.meta_graphs.size() != 1) {
      throw DataLoss("{} graphs where there must be one", model.meta_graphs.size());
    }
    return std::move(model.meta_graphs[0]);
  } catch (Error& error) {
    error.add_context(fmt::format("reading {}", path.string()));
    throw;
  }
}

std::vector<RestoredVariable> restored_variables(const MetaGraph& meta) {
  if (!meta.saver || meta.saver->restore_op.empty()) return {};
  const NodesByName nodes = nodes_of(meta.graph);
  const auto all = ancestors(nodes, find_node(nodes, meta.saver->restore_op));
  const Outputs assigned = assigned_variables(nodes, all);
  std::map<std::string, RestoredVariable> variables;
  for (const NodeDef* node : all) {
    if (node->op == kRestoreOp) add_variables(nodes, *node, assigned, variables);
  }
  std::vector<RestoredVariable> sorted;
  for (auto& [name, variable] : variables) sorted.push_back(std::move(variable));
  return sorted;
}

void check_checkpoint(const MetaGraph& meta, const BundleReader& checkpoint) {
  constexpr std::size_t kMostNamed = 10;
  std::string text;
  std::size_t count = 0;
  for (const auto& variable : restored_variables(meta)) {
    const std::string found = difference(variable, checkpoint);
    if (found.empty()) continue;
    if (++count <= kMostNamed) text += (text.empty() ? "" : "; ") + found;
  }
  if (count == 0) return;
  if (count > kMostNamed) text += fmt::format("; and {} more", count - kMostNamed);
  throw InvalidArgument("the checkpoint {} is not one of this graph: {}",
                        checkpoint.prefix().string(), text);
}

void write_joined_model(const MetaGraph& meta, const Path& assets_dir,
                        const BundleReader& checkpoint, const Path& dir) {
  check_checkpoint(meta, checkpoint);
  const auto variables = restored_variables(meta);
  SavedModel model;
  model.meta_graphs.push_back(meta);
  write_saved_model(dir, model, [&](const Path& folder) {
    write_variables(variables, checkpoint, folder);
    write_assets(meta, assets_dir, folder);
  });
}

}  // namespace muster::graph
