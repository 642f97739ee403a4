#include "muster/saved_model/graph/inline_functions.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/graph/op_outputs_internal.h"

namespace muster::graph {
namespace {

using Tensors = std::map<std::string, std::string, std::less<>>;

std::string output_name(std::string_view node, int index) {
  return index == 0 ? std::string(node) : fmt::format("{}:{}", node, index);
}

bool names_a_function(const NodeDef& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& item) {
    const auto* list = std::get_if<AttrList>(&item.second.value);
    return std::holds_alternative<FunctionRef>(item.second.value) ||
           (list != nullptr && !list->functions.empty());
  });
}

// Value of an attribute of a node in a body when the function is called with these.
AttrValue filled(const AttrValue& value, const Attrs& given) {
  if (const auto* open = std::get_if<AttrPlaceholder>(&value.value)) {
    const AttrValue* found = find_attr(given, open->name);
    if (found == nullptr) throw InvalidArgument("the call has no attribute '{}'", open->name);
    return *found;
  }
  if (const auto* function = std::get_if<FunctionRef>(&value.value)) {
    FunctionRef made{.name = function->name};
    for (const auto& [name, each] : function->attrs) made.attrs.emplace(name, filled(each, given));
    return made;
  }
  return value;
}

/// Where the values that a body uses come from.
struct Frame {
  Attrs attrs{};
  /// Tensor of the flat graph for each argument.
  Tensors arguments{};
  /// Control inputs of every node of the body: "^name".
  std::vector<std::string> before{};
  std::map<std::string, const NodeDef*, std::less<>> nodes{};
  /// Name of each node in the flat graph.
  Tensors names{};
};

class Inliner {
 public:
  Inliner(MetaGraph meta, const GraphLimits& limits) : meta_(std::move(meta)), limits_(limits) {
    for (const auto& function : meta_.graph.functions) {
      functions_.emplace(function.signature.name, &function);
    }
    for (const auto& node : meta_.graph.nodes) names_.insert(node.name);
  }

  MetaGraph run() {
    for (const NodeDef& node : meta_.graph.nodes) {
      if (const FunctionDef* function = called(node)) {
        expand(node, *function);
      } else {
        add(node);
      }
    }
    connect();
    meta_.graph.nodes = std::move(out_);
    const auto& nodes = meta_.graph.nodes;
    if (std::none_of(nodes.begin(), nodes.end(), names_a_function)) {
      meta_.graph.functions.clear();
      meta_.graph.gradients.clear();
    }
    rename_references();
    return std::move(meta_);
  }

 private:
  const FunctionDef* find(std::string_view name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : found->second;
  }

  const FunctionDef* called(const NodeDef& node) const {
    if (node.op != "PartitionedCall" && node.op != "StatefulPartitionedCall") return find(node.op);
    const auto& name = attr<FunctionRef>(node, "f").name;
    const FunctionDef* function = find(name);
    if (function == nullptr) {
      throw InvalidArgument("node '{}' calls '{}', which is no function", node.name, name);
    }
    return function;
  }

  void add(NodeDef node) {
    if (out_.size() >= limits_.nodes) {
      throw ResourceExhausted(
          "with its functions instead of their calls the graph has more "
          "than {} nodes",
          limits_.nodes);
    }
    out_.push_back(std::move(node));
  }

  std::string unique(std::string name) {
    while (!names_.insert(name).second) name += '_';
    return name;
  }

  // `call` has its inputs as tensors of the flat graph, or of calls that are yet to be expanded:
  // connect() puts the right ones there at the end.
  void expand(const NodeDef& call, const FunctionDef& function) {
    Frame frame = frame_of(call, function);
    NodeDef done{.name = call.name, .op = "NoOp"};
    try {
      for (const NodeDef& node : function.nodes) expand_node(node, frame);
      for (const ArgDef& output : function.signature.outputs) {
        const auto value = function.ret.find(output.name);
        if (value == function.ret.end()) throw InvalidArgument("nothing becomes '{}'", output.name);
        const std::string tensor = tensor_of(value->second, frame);
        results_[call.name].push_back(tensor);
        done.inputs.push_back(fmt::format("^{}", parse_input(tensor).node));
      }
      for (const auto& [name, node] : function.control_ret) {
        done.inputs.push_back(fmt::format("^{}", name_in(frame, node)));
      }
    } catch (Error& error) {
      error.add_context(fmt::format("function '{}'", function.signature.name));
      throw;
    }
    done.inputs.insert(done.inputs.end(), frame.before.begin(), frame.before.end());
    std::sort(done.inputs.begin(), done.inputs.end());
    done.inputs.erase(std::unique(done.inputs.begin(), done.inputs.end()), done.inputs.end());
    add(std::move(done));
  }

  Frame frame_of(const NodeDef& call, const FunctionDef& function) {
    Frame frame;
    const auto* reference = find_attr(call.attrs, "f");
    const auto* target = reference ? std::get_if<FunctionRef>(&reference->value) : nullptr;
    frame.attrs = target != nullptr && find(call.op) == nullptr ? target->attrs : call.attrs;
    std::vector<std::string> values;
    for (const auto& input : call.inputs) {
      (parse_input(input).control ? frame.before : values).push_back(input);
    }
    const auto& arguments = function.signature.inputs;
    for (const ArgDef& argument : arguments) {
      if (!argument.number_attr.empty() || !argument.type_list_attr.empty()) {
        throw Unimplemented("function '{}': the argument '{}' is a list of values",
                            function.signature.name, argument.name);
      }
    }
    if (values.size() != arguments.size()) {
      throw InvalidArgument("node '{}' gives {} values to the function '{}', which takes {}",
                            call.name, values.size(), function.signature.name, arguments.size());
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      frame.arguments.emplace(arguments[i].name, values[i]);
    }
    for (const NodeDef& node : function.nodes) {
      frame.nodes.emplace(node.name, &node);
      frame.names.emplace(node.name, unique(fmt::format("{}/{}", call.name, node.name)));
    }
    return frame;
  }

  static std::string name_in(const Frame& frame, std::string_view node) {
    const auto found = frame.names.find(node);
    if (found == frame.names.end()) throw InvalidArgument("there is no node '{}'", node);
    return found->second;
  }

  void expand_node(const NodeDef& node, const Frame& frame) {
    NodeDef copy = node;
    copy.name = name_in(frame, node.name);
    for (auto& item : copy.attrs) item.second = filled(item.second, frame.attrs);
    for (auto& input : copy.inputs) {
      const InputRef from = parse_input(input);
      input =
          from.control ? fmt::format("^{}", name_in(frame, from.node)) : tensor_of(input, frame);
    }
    copy.inputs.insert(copy.inputs.end(), frame.before.begin(), frame.before.end());
    if (const FunctionDef* function = called(copy)) {
      expand(copy, *function);
    } else {
      add(std::move(copy));
    }
  }

  // "argument" or "node:output:0" of a body in the flat graph.
  std::string tensor_of(std::string_view value, const Frame& frame) const {
    const InputRef from = parse_input(value);
    const auto argument = frame.arguments.find(from.node);
    if (argument != frame.arguments.end()) return argument->second;
    const auto node = frame.nodes.find(from.node);
    if (node == frame.nodes.end()) throw InvalidArgument("there is no value '{}'", value);
    return output_name(name_in(frame, from.node), place_of(*node->second, from, frame.attrs));
  }

  // The number that an output named in a body has among all of the node.
  int place_of(const NodeDef& node, const InputRef& from, const Attrs& given) const {
    const FunctionDef* function = find(node.op);
    if (function == nullptr) {
      NodeDef called = node;
      for (auto& item : called.attrs) item.second = filled(item.second, given);
      return flat_output_index(called, from);
    }
    const auto& outputs = function->signature.outputs;
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const ArgDef& each) { return each.name == from.output; });
    if (found == outputs.end()) {
      throw InvalidArgument("the function '{}' has no output '{}'", node.op, from.output);
    }
    return static_cast<int>(found - outputs.begin()) + from.index;
  }

  // The tensor that a result of an expanded call becomes in the end; other tensors stay themselves.
  std::string final_tensor(std::string tensor) const {
    // Each round goes one function deeper, and functions do not call themselves.
    for (;;) {
      const InputRef from = parse_input(tensor);
      const auto found = from.control ? results_.end() : results_.find(from.node);
      if (found == results_.end()) return tensor;
      const auto index = static_cast<std::size_t>(from.index);
      if (index >= found->second.size()) {
        throw InvalidArgument("the call '{}' has no output {}", from.node, from.index);
      }
      tensor = found->second[index];
    }
  }

  // "^call" stays: the call's NoOp has its name.
  void connect() {
    for (NodeDef& node : out_) {
      for (auto& input : node.inputs) input = final_tensor(std::move(input));
    }
  }

  void rename(std::string& tensor) const {
    if (tensor.empty() || !results_.contains(parse_input(tensor).node)) return;
    const std::string now = final_tensor(tensor);
    tensor = now.find(':') == std::string::npos ? now + ":0" : now;
  }

  void rename(TensorInfo& info) const {
    rename(info.name);
    if (!info.sparse) return;
    for (auto* part : {&info.sparse->values, &info.sparse->indices, &info.sparse->dense_shape}) {
      rename(*part);
    }
  }

  void rename_references() {
    for (auto& [name, signature] : meta_.signatures) {
      for (auto& [key, info] : signature.inputs) rename(info);
      for (auto& [key, info] : signature.outputs) {
        // An output that is run for its effect alone is the call itself.
        const auto found = results_.find(parse_input(info.name).node);
        if (found == results_.end() || !found->second.empty()) rename(info);
      }
    }
    if (meta_.saver) {
      rename(meta_.saver->filename_tensor);
      rename(meta_.saver->save_tensor);
    }
    for (auto& asset : meta_.assets) rename(asset.tensor.name);
  }

  MetaGraph meta_;
  const GraphLimits limits_;
  std::map<std::string, const FunctionDef*, std::less<>> functions_;
  std::set<std::string, std::less<>> names_;
  // Tensors that the outputs of each call have become.
  std::map<std::string, std::vector<std::string>, std::less<>> results_;
  std::vector<NodeDef> out_;
};

}  // namespace

MetaGraph inline_functions(MetaGraph meta, const GraphLimits& limits) {
  if (meta.graph.functions.empty()) return meta;
  return Inliner(std::move(meta), limits).run();
}

}  // namespace muster::graph
