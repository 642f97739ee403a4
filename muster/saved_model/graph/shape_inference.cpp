#include <optional>
#include <vector>

#include "muster/base/error.h"
#include "muster/saved_model/graph/shape_inference_internal.h"

namespace muster::graph {
namespace {

/// A node whose output is asked for.
struct Output {
  const ShapeInference& graph;
  const NodeDef& node;
  int index;
  int depth;

  Shape input(std::size_t place) const {
    if (place >= node.inputs.size()) return Shape::any();
    const InputRef from = parse_input(node.inputs[place]);
    return from.control ? Shape::any() : graph.shape_of(from.node, from.index, depth - 1);
  }

  /// The whole numbers that the input is, if it is a constant.
  std::optional<std::vector<std::int64_t>> constant(std::size_t place) const {
    if (place >= node.inputs.size()) return std::nullopt;
    const NodeDef& from = graph.node(parse_input(node.inputs[place]).node);
    if (from.op != "Const") return std::nullopt;
    const auto& value = attr<TensorValue>(from, "value");
    if (value.dtype == DataType::kInt64) return value.values<std::int64_t>();
    if (value.dtype != DataType::kInt32) return std::nullopt;
    const auto narrow = value.values<std::int32_t>();
    return std::vector<std::int64_t>(narrow.begin(), narrow.end());
  }

  std::optional<std::int64_t> number(std::size_t place) const {
    const auto values = constant(place);
    return values && values->size() == 1 ? std::optional(values->front()) : std::nullopt;
  }
};

// The place of an axis that may count from the end; nothing if there is none such.
std::optional<std::size_t> place_of(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

Shape with_axis(Shape shape, std::optional<std::int64_t> axis, std::int64_t size) {
  if (shape.unknown_rank || !axis) return Shape::any();
  const auto place = place_of(*axis, shape.dims.size() + 1);
  if (!place) return Shape::any();
  shape.dims.insert(shape.dims.begin() + static_cast<std::ptrdiff_t>(*place), size);
  return shape;
}

Shape placeholder(const Output& of) { return attr_or(of.node, "shape", Shape::any()); }

Shape constant(const Output& of) { return Shape(attr<TensorValue>(of.node, "value").shape); }

// The shape that the input holds as a vector of sizes: a constant, or numbers put together of which
// some are constants.
Shape sizes_at(const Output& of, std::size_t place) {
  if (const auto sizes = of.constant(place)) return Shape(*sizes);
  if (place >= of.node.inputs.size()) return Shape::any();
  const NodeDef& from = of.graph.node(parse_input(of.node.inputs[place]).node);
  if (from.op != "Pack") {
    const Shape length = of.input(place);
    const bool known = length.dims.size() == 1 && length.dims[0] >= 0 && length.dims[0] <= 254;
    if (!known) return Shape::any();
    return Shape(std::vector<std::int64_t>(static_cast<std::size_t>(length.dims[0]), -1));
  }
  const Output pack{.graph = of.graph, .node = from, .index = 0, .depth = of.depth - 1};
  Shape made;
  for (std::size_t i = 0; i < from.inputs.size(); ++i) {
    made.dims.push_back(pack.number(i).value_or(-1));
  }
  return made;
}

Shape reshape(const Output& of) { return sizes_at(of, 1); }

Shape fill(const Output& of) { return sizes_at(of, 0); }

Shape scatter_nd(const Output& of) { return sizes_at(of, 2); }

Shape expand_dims(const Output& of) { return with_axis(of.input(0), of.number(1), 1); }

Shape concat(const Output& of) {
  Shape shape = of.input(0);
  if (of.node.inputs.size() < 2) return Shape::any();
  const auto axis = of.number(of.node.inputs.size() - 1);
  if (shape.unknown_rank || !axis) return shape;
  const auto place = place_of(*axis, shape.dims.size());
  if (!place) return Shape::any();
  auto& sum = shape.dims[*place];
  for (std::size_t i = 1; i + 1 < of.node.inputs.size(); ++i) {
    const Shape next = of.input(i);
    const bool known = next.dims.size() == shape.dims.size() && next.dims[*place] >= 0;
    if (sum < 0 || !known || __builtin_add_overflow(sum, next.dims[*place], &sum)) sum = -1;
  }
  return shape;
}

Shape pack(const Output& of) {
  const auto count = static_cast<std::int64_t>(of.node.inputs.size());
  return with_axis(of.input(0), attr_or<std::int64_t>(of.node, "axis", 0), count);
}

// One element or a part of a vector, as the number of rows is taken from a shape.
Shape strided_slice(const Output& of) {
  if (of.input(0).dims.size() != 1) return Shape::any();
  return attr_or<std::int64_t>(of.node, "shrink_axis_mask", 0) == 1 ? Shape{} : Shape{-1};
}

Shape shape(const Output& of) {
  const Shape input = of.input(0);
  return Shape{input.unknown_rank ? -1 : static_cast<std::int64_t>(input.dims.size())};
}

Shape one_hot(const Output& of) { return with_axis(of.input(0), -1, of.number(1).value_or(-1)); }

Shape find_in_table(const Output& of) { return of.input(1); }

Shape segment_sum(const Output& of) {
  Shape made = of.input(0);
  if (!made.unknown_rank && !made.dims.empty()) made.dims[0] = -1;
  return made;
}

Shape where(const Output& of) {
  const Shape input = of.input(0);
  return Shape{-1, input.unknown_rank ? -1 : static_cast<std::int64_t>(input.dims.size())};
}

// The last axis of the indices counts leading axes of what is gathered from.
Shape gather_nd(const Output& of) {
  const Shape from = of.input(0);
  const Shape indices = of.input(1);
  if (from.unknown_rank || indices.unknown_rank || indices.dims.empty()) return Shape::any();
  const std::int64_t depth = indices.dims.back();
  if (depth < 0 || depth > static_cast<std::int64_t>(from.dims.size())) return Shape::any();
  Shape made(std::vector<std::int64_t>(indices.dims.begin(), indices.dims.end() - 1));
  made.dims.insert(made.dims.end(), from.dims.begin() + depth, from.dims.end());
  return made;
}

Shape sparse_cross(const Output& of) {
  if (of.index == 0) return Shape{-1, 2};
  return of.index == 1 ? Shape{-1} : Shape{2};
}

// The sparse features' indices, values and shapes, then the dense ones.
Shape parse_example(const Output& of) {
  const auto sparse = attr_or<std::int64_t>(of.node, "Nsparse", 0);
  if (sparse < 0 || sparse > static_cast<std::int64_t>(of.node.inputs.size())) return Shape::any();
  if (of.index < sparse) return Shape{-1, 2};
  if (of.index < 2 * sparse) return Shape{-1};
  if (of.index < 3 * sparse) return Shape{2};
  const auto& shapes = attr<AttrList>(of.node, "dense_shapes").shapes;
  const auto dense = static_cast<std::size_t>(of.index - 3 * sparse);
  if (dense >= shapes.size() || shapes[dense].unknown_rank) return Shape::any();
  Shape made{-1};
  made.dims.insert(made.dims.end(), shapes[dense].dims.begin(), shapes[dense].dims.end());
  return made;
}

Shape decode_csv(const Output& of) { return of.input(0); }

Shape like_input(const Output& of) { return of.input(0); }

// Element by element: as the input with the most axes.
Shape broadcast(const Output& of) {
  Shape widest{};
  for (std::size_t i = 0; i < of.node.inputs.size(); ++i) {
    if (of.node.inputs[i].starts_with('^')) break;
    const Shape next = of.input(i);
    if (next.unknown_rank) return Shape::any();
    if (next.dims.size() > widest.dims.size()) widest = next;
  }
  return widest;
}

using Rule = Shape (*)(const Output&);

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> made = [] {
    std::map<std::string_view, Rule> table{{"BroadcastTo", reshape},
                                           {"ConcatV2", concat},
                                           {"Const", constant},
                                           {"DecodeCSV", decode_csv},
                                           {"ExpandDims", expand_dims},
                                           {"Fill", fill},
                                           {"GatherNd", gather_nd},
                                           {"LookupTableFindV2", find_in_table},
                                           {"OneHot", one_hot},
                                           {"Pack", pack},
                                           {"ParseExample", parse_example},
                                           {"Placeholder", placeholder},
                                           {"Reshape", reshape},
                                           {"ScatterNd", scatter_nd},
                                           {"Shape", shape},
                                           {"SparseCross", sparse_cross},
                                           {"StridedSlice", strided_slice},
                                           {"UnsortedSegmentSum", segment_sum},
                                           {"Where", where}};
    for (const auto* op : {"Abs",
                           "AsString",
                           "Bucketize",
                           "Cast",
                           "Exp",
                           "Identity",
                           "Log",
                           "Log1p",
                           "LogicalNot",
                           "Neg",
                           "OnesLike",
                           "Reciprocal",
                           "Relu",
                           "Rsqrt",
                           "Sigmoid",
                           "Sqrt",
                           "Square",
                           "StopGradient",
                           "StringStrip",
                           "StringToHashBucketFast",
                           "StringToNumber",
                           "Tanh",
                           "ZerosLike"}) {
      table.emplace(op, like_input);
    }
    for (const auto* op :
         {"Add",       "AddV2",   "Div",          "DivNoNan", "Equal",     "FloorDiv",
          "FloorMod",  "Greater", "GreaterEqual", "Less",     "LessEqual", "LogicalAnd",
          "LogicalOr", "Maximum", "Minimum",      "Mul",      "NotEqual",  "Pow",
          "RealDiv",   "Select",  "SelectV2",     "Sub"}) {
      table.emplace(op, broadcast);
    }
    return table;
  }();
  return made;
}

}  // namespace

ShapeInference::ShapeInference(const GraphDef& graph) {
  for (const NodeDef& each : graph.nodes) nodes_.emplace(each.name, &each);
}

const NodeDef& ShapeInference::node(std::string_view name) const {
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) throw InvalidArgument("the graph has no node '{}'", name);
  return *found->second;
}

Shape ShapeInference::shape_of(std::string_view name, int index, int depth) const {
  if (depth <= 0) return Shape::any();
  const NodeDef& of = node(name);
  const auto known = known_.find({of.name, index});
  if (known != known_.end()) return known->second;
  const auto rule = rules().find(of.op);
  if (rule == rules().end()) return Shape::any();
  Shape found = rule->second({.graph = *this, .node = of, .index = index, .depth = depth});
  known_.emplace(std::pair(std::string_view(of.name), index), found);
  return found;
}

}  // namespace muster::graph
