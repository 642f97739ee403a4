#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/numeric_part_internal.h"
#include "muster/saved_model/graph/shape_inference_internal.h"

namespace muster::graph {
namespace {

// Operations of feature columns and parsers whose types do not show it.
constexpr std::array<std::string_view, 18> kColumnOps{"AsString",
                                                      "Bucketize",
                                                      "DecodeCSV",
                                                      "HashTableV2",
                                                      "LookupTableFindV2",
                                                      "ParseExample",
                                                      "ParseExampleV2",
                                                      "SparseCross",
                                                      "SparseCrossV2",
                                                      "SparseReshape",
                                                      "SparseToDense",
                                                      "StringLength",
                                                      "StringToHashBucket",
                                                      "StringToHashBucketFast",
                                                      "StringToHashBucketStrong",
                                                      "StringToNumber",
                                                      "Unique",
                                                      "Where"};

bool has_strings(const NodeDef& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& attr) {
    if (const auto* type = std::get_if<DataType>(&attr.second.value)) {
      return *type == DataType::kString;
    }
    if (const auto* list = std::get_if<AttrList>(&attr.second.value)) {
      return std::find(list->types.begin(), list->types.end(), DataType::kString) !=
             list->types.end();
    }
    return false;
  });
}

template <std::size_t kSize>
bool contains(const std::array<std::string_view, kSize>& ops, std::string_view op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

bool is_column_op(const NodeDef& node) {
  return has_strings(node) || contains(kColumnOps, node.op);
}

// Those that may stay where words are looked up: what passes words on, and what they become.
constexpr std::array<std::string_view, 13> kLookupOps{
    "Bucketize", "Const",    "Equal",   "ExpandDims", "GatherNd", "GatherV2", "HashTableV2",
    "Identity",  "NotEqual", "Reshape", "Shape",      "Squeeze",  "Where"};

bool is_parser(const NodeDef& node) {
  return node.op == "DecodeCSV" || node.op == "ParseExample" || node.op == "ParseExampleV2";
}

// Operations that may stand between a parser and the feature that it gives.
constexpr std::array<std::string_view, 4> kCleaningOps{"Equal", "Select", "SelectV2",
                                                       "StringStrip"};

/// Properties of a node and of everything before it.
struct Origin {
  /// Strings or feature columns are behind it.
  bool columns = false;
  bool variables = false;
};

class NumericPart {
 public:
  using Tables = std::map<std::string, LookupTable, std::less<>>;

  NumericPart(const GraphDef& graph, const SignatureDef& signature, const Tables& tables,
              ColumnsInside inside)
      : whole_(graph), shapes_(graph), tables_(tables), inside_(inside) {
    out_.signature.method_name = signature.method_name;
    for (const auto& [key, info] : signature.inputs) {
      if (info.sparse) continue;
      inputs_.emplace(std::string(parse_input(info.name).node), std::pair(key, &info));
    }
    for (const std::size_t index : topological_order(graph.nodes)) {
      const NodeDef& node = graph.nodes[index];
      nodes_.emplace(node.name, &node);
      places_.emplace(node.name, places_.size());
      note_parsed(node);
      origins_.emplace(node.name, origin_of(node));
    }
    for (const auto& [key, info] : signature.outputs) add_output(key, info);
  }

  FrozenGraph take() {
    for (auto& [place, node] : kept_) out_.graph.nodes.push_back(std::move(node));
    out_.graph.versions = whole_.versions;
    out_.graph.functions = whole_.functions;
    return std::move(out_);
  }

 private:
  // All that is before it is known.
  Origin origin_of(const NodeDef& node) const {
    const auto input = inputs_.find(node.name);
    if (input != inputs_.end()) {
      const bool words = input->second.second->dtype == DataType::kString;
      return {.columns = words && inside_ == ColumnsInside::kNone};
    }
    Origin origin{.columns = !stays(node) && is_column_op(node), .variables = is_variable(node)};
    for (const auto& each : node.inputs) {
      const InputRef from = parse_input(each);
      if (from.control) continue;
      const Origin& before = origins_.find(from.node)->second;
      origin.columns |= before.columns;
      origin.variables |= before.variables;
    }
    return origin;
  }

  // Whether it is an operation of columns that may be inside.
  bool stays(const NodeDef& node) const {
    if (inside_ == ColumnsInside::kNone) return false;
    if (node.op == "LookupTableFindV2") {
      return !node.inputs.empty() && tables_.contains(parse_input(node.inputs[0]).node);
    }
    if (inside_ == ColumnsInside::kAll) return !is_parser(node);
    return contains(kLookupOps, node.op);
  }

  // A feature that a parser gives is an Identity under the feature's name.
  void note_parsed(const NodeDef& node) {
    const bool behind = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& input) {
      return parsed_.contains(parse_input(input).node);
    });
    if (is_parser(node) || (behind && contains(kCleaningOps, node.op))) parsed_.insert(node.name);
    if (!behind || node.op != "Identity" || inputs_.contains(node.name)) return;
    const TensorInfo& info =
        features_
            .emplace(node.name, TensorInfo{.name = node.name + ":0",
                                           .sparse = {},
                                           .dtype = attr<DataType>(node, "T"),
                                           .shape = shapes_.shape_of(node.name, 0)})
            .first->second;
    inputs_.emplace(node.name, std::pair(node.name, &info));
  }

  bool is_cut(std::string_view node) const {
    const auto& origin = origins_.find(node)->second;
    return origin.columns && !origin.variables && !joins_columns(*nodes_.find(node)->second);
  }

  // Whether the node joins outputs of columns side by side: each is an input of its own.
  static bool joins_columns(const NodeDef& node) {
    return node.op == "ConcatV2" && attr_or(node, "T", DataType::kInvalid) == DataType::kFloat;
  }

  void add_output(const std::string& key, const TensorInfo& info) {
    if (info.dtype == DataType::kString || info.sparse) return;
    const auto node = std::string(parse_input(info.name).node);
    if (!origins_.contains(node)) {
      throw InvalidArgument("output '{}' is {}, which the graph lacks", key, info.name);
    }
    if (is_cut(node)) return;
    out_.signature.outputs.emplace(key, info);
    visit(node);
  }

  void visit(const std::string& first) {
    std::vector<std::string> waiting{first};
    while (!waiting.empty()) {
      const std::string name = std::move(waiting.back());
      waiting.pop_back();
      if (!seen_.insert(name).second) continue;
      NodeDef node = *nodes_.find(name)->second;
      if (const auto input = inputs_.find(name); input != inputs_.end()) {
        const auto& [key, info] = input->second;
        out_.signature.inputs.emplace(key, *info);
        if (features_.contains(name)) out_.features.emplace(key, info->name);
        node.inputs.clear();
      }
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const InputRef from = parse_input(node.inputs[i]);
        if (from.control) continue;
        const std::string before(from.node);
        if (is_cut(before)) {
          node.inputs[i] = cut(node, i, before, from.index);
        } else {
          waiting.push_back(before);
        }
      }
      std::erase_if(node.inputs, [](const auto& input) { return input.starts_with('^'); });
      kept_.emplace(places_.find(name)->second, std::move(node));
    }
  }

  // The name of the input that stands for output `index` of `node`.
  std::string cut(const NodeDef& consumer, std::size_t place, const std::string& node, int index) {
    std::string name = index == 0 ? node : fmt::format("{}_{}", node, index);
    while (index != 0 && nodes_.contains(name)) name += '_';
    if (!cuts_.insert(name).second) return name;
    const DataType type = type_at(consumer, place, *nodes_.find(node)->second, index);
    const Shape shape = shape_at(consumer, place, node, index);
    kept_.emplace(places_.find(node)->second, placeholder_node(name, type, shape));
    out_.columns.emplace(name, fmt::format("{}:{}", node, index));
    out_.signature.inputs.emplace(
        name, TensorInfo{.name = name + ":0", .sparse = {}, .dtype = type, .shape = shape});
    return name;
  }

  DataType type_at(const NodeDef& consumer, std::size_t place, const NodeDef& producer, int index);
  Shape shape_at(const NodeDef& consumer, std::size_t place, const std::string& node, int index);

  const GraphDef& whole_;
  const ShapeInference shapes_;
  const Tables& tables_;
  const ColumnsInside inside_;
  FrozenGraph out_;
  std::map<std::string, const NodeDef*, std::less<>> nodes_;
  std::map<std::string, Origin, std::less<>> origins_;
  // Each node's place in an order in which it comes after its inputs, and what is kept by place.
  std::map<std::string, std::size_t, std::less<>> places_;
  std::multimap<std::size_t, NodeDef> kept_;
  std::map<std::string, std::pair<std::string, const TensorInfo*>, std::less<>> inputs_;
  // Parsers with what cleans their values, and the features that they give.
  std::set<std::string, std::less<>> parsed_;
  std::map<std::string, TensorInfo, std::less<>> features_;
  std::set<std::string, std::less<>> seen_;
  std::set<std::string, std::less<>> cuts_;
};

/// Which attribute of an operation tells the type of an input.
struct InputType {
  std::string_view op;
  std::size_t place;
  std::string_view attr;
};

constexpr InputType kInputTypes[] = {
    {"GatherV2", 1, "Tindices"},
    {"ResourceGather", 1, "Tindices"},
    {"SparseSegmentSum", 1, "Tidx"},
    {"SparseSegmentSum", 2, "Tsegmentids"},
    {"SparseSegmentMean", 1, "Tidx"},
    {"SparseSegmentMean", 2, "Tsegmentids"},
    {"SparseSegmentSqrtN", 1, "Tidx"},
    {"SparseSegmentSqrtN", 2, "Tsegmentids"},
    {"SparseSegmentSumWithNumSegments", 1, "Tidx"},
    {"SparseSegmentSumWithNumSegments", 2, "Tsegmentids"},
    {"SparseSegmentSumWithNumSegments", 3, "Tnumsegments"},
    {"SparseSegmentMeanWithNumSegments", 1, "Tidx"},
    {"SparseSegmentMeanWithNumSegments", 2, "Tsegmentids"},
    {"SparseSegmentMeanWithNumSegments", 3, "Tnumsegments"},
    {"SparseSegmentSqrtNWithNumSegments", 1, "Tidx"},
    {"SparseSegmentSqrtNWithNumSegments", 2, "Tsegmentids"},
    {"SparseSegmentSqrtNWithNumSegments", 3, "Tnumsegments"},
    {"UnsortedSegmentSum", 1, "Tindices"},
    {"UnsortedSegmentSum", 2, "Tnumsegments"},
    {"Reshape", 1, "Tshape"},
    {"BroadcastTo", 1, "Tidx"},
    {"Fill", 0, "index_type"},
    {"Tile", 1, "Tmultiples"},
    {"Cast", 0, "SrcT"},
    {"OneHot", 0, "TI"},
    {"GatherNd", 1, "Tindices"},
};

DataType NumericPart::type_at(const NodeDef& consumer, std::size_t place, const NodeDef& producer,
                              int index) {
  for (const auto& known : kInputTypes) {
    // Attributes that older graphs omit have int32 as default.
    if (known.op == consumer.op && known.place == place) {
      return attr_or(consumer, known.attr, DataType::kInt32);
    }
  }
  for (const auto* name : {"T", "dtype", "Tparams"}) {
    const AttrValue* found = find_attr(consumer.attrs, name);
    if (found == nullptr) continue;
    if (const auto* type = std::get_if<DataType>(&found->value)) return *type;
  }
  throw Unimplemented("the type of output {} of '{}' ({}), with which the columns end, is unknown",
                      index, producer.name, producer.op);
}

Shape NumericPart::shape_at(const NodeDef& consumer, std::size_t place, const std::string& node,
                            int index) {
  const std::string_view op = consumer.op;
  if (op.starts_with("SparseSegment")) return place == 3 ? Shape{} : Shape{-1};
  if (op == "UnsortedSegmentSum" && place > 0) return place == 2 ? Shape{} : Shape{-1};
  Shape shape = shapes_.shape_of(node, index);
  if (op == "MatMul" && place == 0 && shape.dims.size() != 2) shape = Shape{-1, -1};
  if (shape.unknown_rank && op == "GatherV2" && place == 1) return Shape{-1};
  return shape;
}

}  // namespace

bool is_variable(const NodeDef& node) {
  return node.op == "VarHandleOp" || node.op == "VariableV2" || node.op == "Variable";
}

FrozenGraph numeric_part(const GraphDef& graph, const SignatureDef& signature,
                         const std::map<std::string, LookupTable, std::less<>>& tables,
                         ColumnsInside inside) {
  return NumericPart(graph, signature, tables, inside).take();
}

}  // namespace muster::graph
