#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "muster/saved_model/graph/simplify_internal.h"

namespace muster::graph {
namespace {

using Unary = float (*)(float);
using Binary = float (*)(float, float);

struct UnaryOp {
  std::string_view op;
  Unary function;
};
struct BinaryOp {
  std::string_view op;
  Binary function;
};

constexpr UnaryOp kUnary[] = {
    {"Neg", [](float x) { return -x; }},
    {"Reciprocal", [](float x) { return 1 / x; }},
    {"Rsqrt", [](float x) { return 1 / std::sqrt(x); }},
    {"Sqrt", [](float x) { return std::sqrt(x); }},
    {"Square", [](float x) { return x * x; }},
};

constexpr BinaryOp kBinary[] = {
    {"Add", [](float a, float b) { return a + b; }},
    {"AddV2", [](float a, float b) { return a + b; }},
    {"Mul", [](float a, float b) { return a * b; }},
    {"RealDiv", [](float a, float b) { return a / b; }},
    {"Sub", [](float a, float b) { return a - b; }},
};

using Constants = std::map<std::string, TensorValue, std::less<>>;

// The float constants that the node's inputs are, or fewer.
std::vector<const TensorValue*> operands(const NodeDef& node, const Constants& constants) {
  std::vector<const TensorValue*> found;
  for (const auto& input : node.inputs) {
    const auto constant = constants.find(parse_input(input).node);
    if (constant == constants.end() || constant->second.dtype != DataType::kFloat) break;
    found.push_back(&constant->second);
  }
  return found;
}

TensorValue computed(const TensorValue& x, Unary function) {
  auto values = x.values<float>();
  for (auto& value : values) value = function(value);
  return TensorValue::of<float>(x.shape, values);
}

// Combines constants of equal shapes, or with one that is a single number.
std::optional<TensorValue> computed(const TensorValue& a, const TensorValue& b, Binary function) {
  if (a.shape != b.shape && !a.shape.empty() && !b.shape.empty()) return std::nullopt;
  const auto left = a.values<float>();
  const auto right = b.values<float>();
  std::vector<float> values(std::max(left.size(), right.size()));
  if (left.empty() || right.empty()) return std::nullopt;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = function(left[a.shape.empty() ? 0 : i], right[b.shape.empty() ? 0 : i]);
  }
  return TensorValue::of<float>(a.shape.empty() ? b.shape : a.shape, values);
}

std::optional<TensorValue> folded(const NodeDef& node, const Constants& constants) {
  const auto inputs = operands(node, constants);
  if (inputs.size() != node.inputs.size()) return std::nullopt;
  for (const auto& [op, function] : kUnary) {
    if (op == node.op && inputs.size() == 1) return computed(*inputs[0], function);
  }
  for (const auto& [op, function] : kBinary) {
    if (op == node.op && inputs.size() == 2) return computed(*inputs[0], *inputs[1], function);
  }
  return std::nullopt;
}

/// The nodes so far that matter to later ones.
struct Known {
  Constants constants{};
  /// Reshapes to constant sizes: what is reshaped, and the sizes.
  std::map<std::string, std::pair<std::string, std::vector<std::int32_t>>, std::less<>> reshapes{};
};

std::optional<std::vector<std::int32_t>> int_vector(const std::string& input,
                                                    const Constants& constants) {
  const auto found = constants.find(parse_input(input).node);
  if (found == constants.end() || found->second.dtype != DataType::kInt32) return std::nullopt;
  return found->second.values<std::int32_t>();
}

// The sizes as a transpose orders them, if all axes but those of size 1 keep their order.
std::optional<std::vector<std::int32_t>> moved(const std::vector<std::int32_t>& sizes,
                                               const std::vector<std::int32_t>& permutation) {
  if (sizes.size() != permutation.size()) return std::nullopt;
  std::vector<std::int32_t> out;
  std::int32_t last = -1;
  for (const std::int32_t axis : permutation) {
    if (axis < 0 || static_cast<std::size_t>(axis) >= sizes.size()) return std::nullopt;
    const std::int32_t size = sizes[static_cast<std::size_t>(axis)];
    if (size != 1 && axis < last) return std::nullopt;
    if (size != 1) last = axis;
    out.push_back(size);
  }
  return out;
}

// The transpose as a reshape of its own, with the constant that it needs; nothing if it is none.
std::optional<std::pair<NodeDef, NodeDef>> as_reshape(const NodeDef& node, const Known& known) {
  if (node.op != "Transpose" || node.inputs.size() != 2) return std::nullopt;
  const auto reshape = known.reshapes.find(parse_input(node.inputs[0]).node);
  const auto permutation = int_vector(node.inputs[1], known.constants);
  if (reshape == known.reshapes.end() || !permutation) return std::nullopt;
  const auto sizes = moved(reshape->second.second, *permutation);
  if (!sizes) return std::nullopt;
  NodeDef shape = constant_node(node.name + "/shape", TensorValue::vector(*sizes));
  NodeDef made{.name = node.name,
               .op = "Reshape",
               .inputs = {reshape->second.first, shape.name},
               .attrs = {{"T", attr<DataType>(node, "T")}, {"Tshape", DataType::kInt32}}};
  return std::pair(std::move(shape), std::move(made));
}

void note(const NodeDef& node, Known& known) {
  // Large constants are used as they are, so that only small ones are held twice.
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  if (node.op == "Const") {
    const auto& value = attr<TensorValue>(node, "value");
    if (value.bytes.size() <= kMostBytes) known.constants.emplace(node.name, value);
  } else if (node.op == "Reshape" && node.inputs.size() == 2) {
    const auto sizes = int_vector(node.inputs[1], known.constants);
    if (sizes) known.reshapes.emplace(node.name, std::pair(node.inputs[0], *sizes));
  }
}

// Reshapes first: they may be the last to read a constant.
void drop_unread(GraphDef& graph, const std::vector<std::string>& kept) {
  for (const std::string_view op : {"Reshape", "Const"}) {
    std::set<std::string, std::less<>> read(kept.begin(), kept.end());
    for (const auto& node : graph.nodes) {
      for (const auto& input : node.inputs) read.emplace(parse_input(input).node);
    }
    std::erase_if(graph.nodes,
                  [&](const NodeDef& node) { return node.op == op && !read.contains(node.name); });
  }
}

// Takes nodes away; who read them reads others.
void replace_nodes(GraphDef& graph, const std::map<std::string, std::string>& replaced) {
  std::erase_if(graph.nodes, [&](const NodeDef& node) { return replaced.contains(node.name); });
  for (auto& node : graph.nodes) {
    for (auto& input : node.inputs) {
      const auto found = replaced.find(std::string(parse_input(input).node));
      if (found != replaced.end()) input = found->second;
    }
  }
}

}  // namespace

std::map<std::string, Shape> absorb_reshapes(GraphDef& graph,
                                             const std::vector<std::string>& kept) {
  std::map<std::string, int, std::less<>> readers;
  Known known;
  for (const auto& node : graph.nodes) {
    for (const auto& input : node.inputs) ++readers[std::string(parse_input(input).node)];
    note(node, known);
  }
  std::map<std::string, Shape> shapes;
  std::map<std::string, std::string> replaced;
  for (auto& node : graph.nodes) {
    if (node.op != "Placeholder") continue;
    const auto reshape =
        std::find_if(known.reshapes.begin(), known.reshapes.end(),
                     [&](auto& each) { return parse_input(each.second.first).node == node.name; });
    if (reshape == known.reshapes.end()) continue;
    const auto& [name, what] = *reshape;
    const bool open = std::any_of(what.second.begin() + (what.second.empty() ? 0 : 1),
                                  what.second.end(), [](auto size) { return size <= 0; });
    const bool stays = std::find(kept.begin(), kept.end(), name) != kept.end();
    if (readers[node.name] != 1 || open || stays || what.second.empty()) continue;
    shapes[node.name] = std::vector<std::int64_t>(what.second.begin(), what.second.end());
    node.attrs.insert_or_assign("shape", shapes[node.name]);
    replaced.emplace(name, node.name);
  }
  replace_nodes(graph, replaced);
  drop_unread(graph, kept);
  return shapes;
}

std::set<std::string> absorb_casts(GraphDef& graph, const std::vector<std::string>& kept) {
  std::map<std::string, std::vector<const NodeDef*>, std::less<>> readers;
  for (const auto& node : graph.nodes) {
    for (const auto& input : node.inputs) {
      readers[std::string(parse_input(input).node)].push_back(&node);
    }
  }
  const auto is_cast = [&](const NodeDef* node) {
    return node->op == "Cast" && attr<DataType>(*node, "DstT") == DataType::kFloat &&
           std::find(kept.begin(), kept.end(), node->name) == kept.end();
  };
  std::set<std::string> absorbed;
  std::map<std::string, std::string> replaced;
  for (auto& node : graph.nodes) {
    const auto& by = readers[node.name];
    const bool stays = std::find(kept.begin(), kept.end(), node.name) != kept.end();
    if (node.op != "Placeholder" || by.empty() || stays) continue;
    // A shape is the same of any type.
    const bool only = std::all_of(by.begin(), by.end(), [&](const NodeDef* reader) {
      return is_cast(reader) || reader->op == "Shape";
    });
    if (!only || std::none_of(by.begin(), by.end(), is_cast)) continue;
    for (const NodeDef* reader : by) {
      if (is_cast(reader)) replaced.emplace(reader->name, node.name);
    }
    node.attrs.insert_or_assign("dtype", DataType::kFloat);
    absorbed.insert(node.name);
  }
  for (auto& node : graph.nodes) {
    const bool shape = node.op == "Shape" && !node.inputs.empty();
    if (shape && absorbed.contains(std::string(parse_input(node.inputs[0]).node))) {
      node.attrs.insert_or_assign("T", DataType::kFloat);
    }
  }
  replace_nodes(graph, replaced);
  return absorbed;
}

void simplify(GraphDef& graph, const std::vector<std::string>& kept) {
  std::set<std::string, std::less<>> names;
  for (const auto& node : graph.nodes) names.insert(node.name);
  Known known;
  std::vector<NodeDef> nodes;
  for (auto& node : graph.nodes) {
    const bool stays = std::find(kept.begin(), kept.end(), node.name) != kept.end();
    if (auto value = stays ? std::nullopt : folded(node, known.constants)) {
      node = constant_node(node.name, std::move(*value));
    } else if (auto reshape = stays ? std::nullopt : as_reshape(node, known);
               reshape && names.insert(reshape->first.name).second) {
      nodes.push_back(std::move(reshape->first));
      node = std::move(reshape->second);
    }
    note(node, known);
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  drop_unread(graph, kept);
}

}  // namespace muster::graph
