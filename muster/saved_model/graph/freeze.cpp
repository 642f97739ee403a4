#include "muster/saved_model/graph/freeze.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/inline_functions.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/graph/lookup_tables_internal.h"
#include "muster/saved_model/graph/numeric_part_internal.h"
#include "muster/saved_model/graph/simplify_internal.h"

namespace muster::graph {
namespace {

using Nodes = std::map<std::string, const NodeDef*, std::less<>>;

Nodes by_name(const GraphDef& graph) {
  Nodes nodes;
  for (const NodeDef& node : graph.nodes) nodes.emplace(node.name, &node);
  return nodes;
}

const NodeDef& node_of(const Nodes& nodes, std::string_view name) {
  const auto found = nodes.find(name);
  if (found == nodes.end()) throw InvalidArgument("the graph has no node '{}'", name);
  return *found->second;
}

// Those that give their input on.
bool does_nothing(const NodeDef& node) {
  return node.op == "Identity" || node.op == "StopGradient" || node.op == "PreventGradient" ||
         node.op == "Snapshot" || node.op == "PlaceholderWithDefault";
}

std::string tensor_name(std::string_view node, int index) {
  return index == 0 ? std::string(node) : fmt::format("{}:{}", node, index);
}

// The names in the bundle, by the nodes that hold the variables.
std::map<std::string, std::string, std::less<>> checkpoint_keys(const MetaGraph& meta) {
  std::map<std::string, std::string, std::less<>> keys;
  for (const NodeDef& node : meta.graph.nodes) {
    const auto shared = is_variable(node) ? attr_or<std::string>(node, "shared_name", "") : "";
    if (!shared.empty()) keys.emplace(node.name, shared);
  }
  for (const auto& variable : restored_variables(meta)) {
    if (!variable.node.empty()) keys.insert_or_assign(variable.node, variable.name);
  }
  return keys;
}

/// Replaces what holds, reads and passes on variables.
class Freezer {
 public:
  Freezer(const MetaGraph& meta, FrozenGraph from, const BundleReader* bundle,
          const GraphLimits& limits)
      : from_(std::move(from)),
        nodes_(by_name(from_.graph)),
        keys_(checkpoint_keys(meta)),
        bundle_(bundle),
        limits_(limits) {
    for (const auto& [key, info] : from_.signature.inputs) {
      const InputRef tensor = parse_input(info.name);
      if (tensor.index != 0) {
        throw Unimplemented("the input '{}' is {}, and not the first output of its node", key,
                            info.name);
      }
      inputs_.emplace(std::string(tensor.node), &info);
    }
    for (const auto& [key, info] : from_.signature.outputs) {
      outputs_.insert(std::string(parse_input(info.name).node));
    }
  }

  FrozenGraph run() {
    out_.graph.versions = from_.graph.versions;
    out_.graph.functions = from_.graph.functions;
    out_.signature = from_.signature;
    out_.columns = from_.columns;
    out_.features = from_.features;
    out_.tables = from_.tables;
    const auto needed = find_needed();
    for (const std::size_t index : topological_order(from_.graph.nodes)) {
      const NodeDef& node = from_.graph.nodes[index];
      if (needed.contains(node.name)) add(node);
    }
    out_.signature.inputs.clear();
    for (const auto& [key, info] : from_.signature.inputs) {
      if (needed.contains(parse_input(info.name).node)) out_.signature.inputs.emplace(key, info);
    }
    return std::move(out_);
  }

 private:
  std::set<std::string, std::less<>> find_needed() const {
    std::set<std::string, std::less<>> needed;
    std::vector<std::string> waiting(outputs_.begin(), outputs_.end());
    while (!waiting.empty()) {
      const std::string name = std::move(waiting.back());
      waiting.pop_back();
      if (!needed.insert(name).second || inputs_.contains(name)) continue;
      for (const auto& input : node_of(nodes_, name).inputs) {
        const InputRef from = parse_input(input);
        if (!from.control) waiting.emplace_back(from.node);
      }
    }
    return needed;
  }

  void add(const NodeDef& node) {
    if (inputs_.contains(node.name)) return add_input(node);
    if (is_variable(node)) return add_variable(node);
    if (node.op == "ReadVariableOp") return add_read(node);
    if (node.op == "ResourceGather") return add_gather(node);
    if (does_nothing(node) && !outputs_.contains(node.name)) {
      forwarded_[node.name] = resolve(node.inputs.at(0), node);
      return;
    }
    NodeDef copy = node;
    copy.device.clear();
    if (copy.op == "PlaceholderWithDefault") copy.op = "Identity";
    copy.inputs.clear();
    for (const auto& input : node.inputs) {
      if (!parse_input(input).control) copy.inputs.push_back(resolve(input, node));
    }
    if (node.op == "PlaceholderWithDefault") {
      copy.attrs = {{"T", attr<DataType>(node, "dtype")}};
    }
    out_.graph.nodes.push_back(std::move(copy));
  }

  // Whatever it is in the whole graph: TensorFlow lets a signature begin anywhere.
  void add_input(const NodeDef& node) {
    const TensorInfo& info = *inputs_.find(node.name)->second;
    out_.graph.nodes.push_back(placeholder_node(node.name, info.dtype, info.shape));
  }

  // The tensor that an input of `reader` has become.
  std::string resolve(const std::string& input, const NodeDef& reader) const {
    const InputRef from = parse_input(input);
    if (variables_.contains(from.node) && node_of(nodes_, from.node).op == "VarHandleOp") {
      throw Unimplemented(
          "'{}' ({}) takes the variable '{}' itself; only variables that are read as they are can "
          "become constants",
          reader.name, reader.op, from.node);
    }
    const auto found = forwarded_.find(from.node);
    return found != forwarded_.end() ? found->second : tensor_name(from.node, from.index);
  }

  void add_variable(const NodeDef& node) {
    variables_.insert(node.name);
    const auto key = keys_.find(node.name);
    const std::string name = key == keys_.end() ? node.name : key->second;
    if (bundle_ == nullptr || !bundle_->contains(name)) {
      throw InvalidArgument("the variable '{}' has no value: {} has no '{}'", node.name,
                            bundle_ == nullptr ? "the model" : bundle_->prefix().string(), name);
    }
    out_.graph.nodes.push_back(constant_node(node.name, value_of(node, name)));
  }

  TensorValue value_of(const NodeDef& node, const std::string& key) {
    const TensorSpec spec = bundle_->spec(key);
    const auto type = data_type_from(static_cast<std::int64_t>(spec.type));
    const auto wanted = without_ref(attr<DataType>(node, "dtype"));
    const Shape shape = attr_or(node, "shape", Shape::any());
    if (!type || *type != wanted || !fits(shape, spec.shape)) {
      throw InvalidArgument("the variable '{}' is {} {}, but '{}' in {} is {}", node.name,
                            name_of(wanted), to_string(shape), key, bundle_->prefix().string(),
                            muster::to_string(spec));
    }
    if (wanted == DataType::kString) {
      throw Unimplemented("the variable '{}' holds strings", node.name);
    }
    const std::uint64_t bytes = bundle_->stored_bytes(key);
    total_bytes_ += bytes;
    if (bytes > limits_.tensor_bytes || total_bytes_ > limits_.file_bytes) {
      throw ResourceExhausted(
          "the variable '{}' has {} bytes: constants may have {} bytes each and {} together",
          node.name, bytes, limits_.tensor_bytes, limits_.file_bytes);
    }
    const TensorData data = bundle_->read(key);
    TensorValue value{*type, spec.shape, std::string(data.bytes.size(), '\0')};
    if (!data.bytes.empty()) {
      std::memcpy(value.bytes.data(), data.bytes.data(), data.bytes.size());
    }
    value.check();
    return value;
  }

  // The variable that an input is, also through nodes that give it on.
  std::string variable_of(const NodeDef& node) const {
    std::string name(parse_input(node.inputs.at(0)).node);
    while (does_nothing(node_of(nodes_, name)) && !inputs_.contains(name)) {
      name = parse_input(node_of(nodes_, name).inputs.at(0)).node;
    }
    if (!variables_.contains(name)) {
      throw Unimplemented("'{}' ({}) reads '{}' ({}), which is no variable of this graph",
                          node.name, node.op, name, node_of(nodes_, name).op);
    }
    return name;
  }

  void add_read(const NodeDef& node) {
    const std::string variable = variable_of(node);
    if (!outputs_.contains(node.name)) {
      forwarded_[node.name] = variable;
      return;
    }
    out_.graph.nodes.push_back({.name = node.name,
                                .op = "Identity",
                                .inputs = {variable},
                                .attrs = {{"T", attr<DataType>(node, "dtype")}}});
  }

  void add_gather(const NodeDef& node) {
    const std::string axis = node.name + "/axis";
    if (nodes_.contains(axis)) {
      throw Unimplemented("'{}' and '{}' are both nodes of the graph", node.name, axis);
    }
    out_.graph.nodes.push_back(constant_node(axis, TensorValue::scalar(std::int32_t{0})));
    out_.graph.nodes.push_back(
        {.name = node.name,
         .op = "GatherV2",
         .inputs = {variable_of(node), resolve(node.inputs.at(1), node), axis},
         .attrs = {{"Tparams", attr<DataType>(node, "dtype")},
                   {"Tindices", attr<DataType>(node, "Tindices")},
                   {"Taxis", DataType::kInt32},
                   {"batch_dims", attr_or<std::int64_t>(node, "batch_dims", 0)}}});
  }

  const FrozenGraph from_;
  const Nodes nodes_;
  const std::map<std::string, std::string, std::less<>> keys_;
  const BundleReader* bundle_;
  const GraphLimits limits_;
  std::map<std::string, const TensorInfo*, std::less<>> inputs_;
  std::set<std::string, std::less<>> outputs_;
  std::set<std::string, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> forwarded_;
  std::uint64_t total_bytes_ = 0;
  FrozenGraph out_;
};

SignatureDef chosen(const SignatureDef& signature, const FreezeOptions& options) {
  SignatureDef left = signature;
  if (options.outputs.empty()) return left;
  left.outputs.clear();
  for (const auto& key : options.outputs) {
    const auto found = signature.outputs.find(key);
    if (found == signature.outputs.end()) {
      std::string known;
      for (const auto& each : signature.outputs) known += (known.empty() ? "" : ", ") + each.first;
      throw InvalidArgument("the signature has no output '{}'; it has {}", key, known);
    }
    left.outputs.emplace(*found);
  }
  return left;
}

// The model with this signature alone, its functions instead of their calls, and attributes
// spelt out: OpenCV, for one, knows no defaults.
MetaGraph without_calls(MetaGraph model, const SignatureDef& signature, const GraphLimits& limits) {
  model.signatures = {{std::string(kDefaultSignature), signature}};
  MetaGraph meta = inline_functions(std::move(model), limits);
  add_default_attrs(meta.graph);
  return meta;
}

}  // namespace

FrozenGraph freeze(const MetaGraph& model, const SignatureDef& whole, const BundleReader* bundle,
                   const FreezeOptions& options) {
  check_graph(model.graph);
  const MetaGraph meta = without_calls(model, whole, options.limits);
  const SignatureDef& signature = meta.signatures.begin()->second;
  FrozenGraph part{.graph = {}, .signature = chosen(signature, options)};
  if (options.numeric) {
    std::map<std::string, LookupTable, std::less<>> tables;
    if (options.lookups) tables = lookup_tables(meta, options.assets_dir);
    if (options.columns) {
      std::erase_if(tables, [](const auto& table) {
        return element_count(table.second.keys.shape).value_or(0) > kMostComparedWords;
      });
    }
    part = numeric_part(meta.graph, part.signature, tables,
                        !options.lookups  ? ColumnsInside::kNone
                        : options.columns ? ColumnsInside::kAll
                                          : ColumnsInside::kLookups);
    part.tables = std::move(tables);
  } else {
    part.graph = meta.graph;
  }
  for (const auto* tensors : {&part.signature.inputs, &part.signature.outputs}) {
    for (const auto& [key, info] : *tensors) {
      if (info.sparse) throw Unimplemented("'{}' of the signature is a sparse tensor", key);
    }
  }
  if (part.signature.outputs.empty()) {
    throw InvalidArgument(
        "no output of the signature is left: {}",
        signature.outputs.empty() ? "it has none" : "they are strings, or made of strings alone");
  }
  FrozenGraph frozen = Freezer(meta, std::move(part), bundle, options.limits).run();
  std::vector<std::string> kept;
  for (const auto& [key, info] : frozen.signature.outputs) {
    kept.emplace_back(parse_input(info.name).node);
  }
  if (options.columns) {
    compare_words(frozen.graph, frozen.tables);
    frozen.tables.clear();
  }
  simplify(frozen.graph, kept);
  if (options.float_inputs) {
    const auto names = absorb_casts(frozen.graph, kept);
    for (auto& [key, info] : frozen.signature.inputs) {
      if (names.contains(std::string(parse_input(info.name).node))) info.dtype = DataType::kFloat;
    }
  }
  if (options.reshaped_inputs) {
    const auto shapes = absorb_reshapes(frozen.graph, kept);
    for (auto& [key, info] : frozen.signature.inputs) {
      const auto found = shapes.find(std::string(parse_input(info.name).node));
      if (found != shapes.end()) info.shape = found->second;
    }
  }
  return frozen;
}

}  // namespace muster::graph
