#include "muster/saved_model/graph/default_attrs.h"

#include <map>
#include <string_view>

namespace muster::graph {
namespace {

using DefaultAttrs = std::map<std::string_view, Attrs>;

AttrValue ones() { return AttrValue::list(std::vector<std::int64_t>{1, 1, 1, 1}); }

// Attributes that came after 1.15 are not here, so that nothing adds them to a graph that claims
// 1.15: FusedBatchNormV3's exponential_avg_factor is one.
DefaultAttrs make_defaults() {
  return {
      {"All", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"Any", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"ArgMax", {{"Tidx", DataType::kInt32}, {"output_type", DataType::kInt64}}},
      {"ArgMin", {{"Tidx", DataType::kInt32}, {"output_type", DataType::kInt64}}},
      {"AsString",
       {{"fill", ""},
        {"precision", -1},
        {"scientific", false},
        {"shortest", false},
        {"width", -1}}},
      {"Assert", {{"summarize", 3}}},
      {"AvgPool", {{"data_format", "NHWC"}}},
      {"BatchMatMulV2", {{"adj_x", false}, {"adj_y", false}}},
      {"BiasAdd", {{"data_format", "NHWC"}}},
      {"BroadcastTo", {{"Tidx", DataType::kInt32}}},
      {"Cast", {{"Truncate", false}}},
      {"ConcatV2", {{"Tidx", DataType::kInt32}}},
      {"Conv2D",
       {{"data_format", "NHWC"},
        {"dilations", ones()},
        {"explicit_paddings", AttrList{}},
        {"use_cudnn_on_gpu", true}}},
      {"Conv2DBackpropInput",
       {{"data_format", "NHWC"},
        {"dilations", ones()},
        {"explicit_paddings", AttrList{}},
        {"use_cudnn_on_gpu", true}}},
      {"Conv3D",
       {{"data_format", "NDHWC"},
        {"dilations", AttrValue::list(std::vector<std::int64_t>{1, 1, 1, 1, 1})}}},
      {"Cumsum", {{"Tidx", DataType::kInt32}, {"exclusive", false}, {"reverse", false}}},
      {"DecodeCSV",
       {{"field_delim", ","},
        {"na_value", ""},
        {"select_cols", AttrList{}},
        {"use_quote_delim", true}}},
      {"DepthwiseConv2dNative", {{"data_format", "NHWC"}, {"dilations", ones()}}},
      {"Equal", {{"incompatible_shape_error", true}}},
      {"ExpandDims", {{"Tdim", DataType::kInt32}}},
      {"Fill", {{"index_type", DataType::kInt32}}},
      {"FusedBatchNormV3", {{"data_format", "NHWC"}, {"epsilon", 0.0001F}, {"is_training", true}}},
      {"GatherV2", {{"batch_dims", 0}}},
      {"HashTableV2", {{"container", ""}, {"shared_name", ""}, {"use_node_name_sharing", false}}},
      {"InitializeTableFromTextFileV2", {{"delimiter", "\t"}, {"vocab_size", -1}}},
      {"LeakyRelu", {{"T", DataType::kFloat}, {"alpha", 0.2F}}},
      {"MatMul", {{"transpose_a", false}, {"transpose_b", false}}},
      {"Max", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"MaxPool", {{"T", DataType::kFloat}, {"data_format", "NHWC"}}},
      {"Mean", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"Min", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"NotEqual", {{"incompatible_shape_error", true}}},
      {"OneHot", {{"TI", DataType::kInt64}, {"axis", -1}}},
      {"Pack", {{"axis", 0}}},
      {"Pad", {{"Tpaddings", DataType::kInt32}}},
      {"PadV2", {{"Tpaddings", DataType::kInt32}}},
      {"Placeholder", {{"shape", Shape::any()}}},
      {"Prod", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"Range", {{"Tidx", DataType::kInt32}}},
      {"Reshape", {{"Tshape", DataType::kInt32}}},
      {"ResizeBilinear", {{"align_corners", false}, {"half_pixel_centers", false}}},
      {"ResizeNearestNeighbor", {{"align_corners", false}, {"half_pixel_centers", false}}},
      {"ReverseV2", {{"Tidx", DataType::kInt32}}},
      {"Shape", {{"out_type", DataType::kInt32}}},
      {"SparseSegmentMeanWithNumSegments",
       {{"Tidx", DataType::kInt32}, {"Tnumsegments", DataType::kInt32}}},
      {"SparseSegmentSqrtNWithNumSegments",
       {{"Tidx", DataType::kInt32}, {"Tnumsegments", DataType::kInt32}}},
      {"SparseSegmentSumWithNumSegments",
       {{"Tidx", DataType::kInt32}, {"Tnumsegments", DataType::kInt32}}},
      {"SplitV", {{"Tlen", DataType::kInt64}}},
      {"Squeeze", {{"squeeze_dims", AttrList{}}}},
      {"StridedSlice",
       {{"begin_mask", 0},
        {"ellipsis_mask", 0},
        {"end_mask", 0},
        {"new_axis_mask", 0},
        {"shrink_axis_mask", 0}}},
      {"Sum", {{"Tidx", DataType::kInt32}, {"keep_dims", false}}},
      {"Tile", {{"Tmultiples", DataType::kInt32}}},
      {"TopKV2", {{"sorted", true}}},
      {"Transpose", {{"Tperm", DataType::kInt32}}},
      {"Unpack", {{"axis", 0}}},
      {"UnsortedSegmentSum", {{"Tnumsegments", DataType::kInt32}}},
      {"VarHandleOp", {{"container", ""}, {"shared_name", ""}}},
      {"Where", {{"T", DataType::kBool}}},
  };
}

const DefaultAttrs& defaults() {
  static const DefaultAttrs made = make_defaults();
  return made;
}

// Calls `change(attrs of a node, defaults of its operation)`.
template <typename Change>
void for_each_known(std::vector<NodeDef>& nodes, const Change& change) {
  for (NodeDef& node : nodes) {
    const auto found = defaults().find(node.op);
    if (found != defaults().end()) change(node.attrs, found->second);
  }
}

template <typename Change>
void for_each_known(GraphDef& graph, const Change& change) {
  for_each_known(graph.nodes, change);
  for (FunctionDef& function : graph.functions) for_each_known(function.nodes, change);
}

}  // namespace

void strip_default_attrs(GraphDef& graph) {
  for_each_known(graph, [](Attrs& attrs, const Attrs& known) {
    for (const auto& [name, value] : known) {
      const auto found = attrs.find(name);
      if (found != attrs.end() && found->second == value) attrs.erase(found);
    }
  });
}

void add_default_attrs(GraphDef& graph) {
  for_each_known(
      graph, [](Attrs& attrs, const Attrs& known) { attrs.insert(known.begin(), known.end()); });
}

}  // namespace muster::graph
