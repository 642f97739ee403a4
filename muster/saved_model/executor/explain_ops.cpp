#include "muster/saved_model/executor/explain_ops_internal.h"

#include <algorithm>
#include <array>

namespace muster::executor {
namespace {

using enum GradientRole;

constexpr bool kPoolsRows = true;

struct ExplainedOp {
  std::string_view name;
  GradientRole role;
  bool pools_rows = false;
};

constexpr auto kExplainedOps = std::to_array<ExplainedOp>({
    {"Abs", kSmooth},
    {"Add", kSmooth},
    {"AddN", kSmooth},
    {"AddV2", kSmooth},
    {"AvgPool", kSmooth},
    {"BatchMatMul", kSmooth},
    {"BatchMatMulV2", kSmooth},
    {"BatchMatMulV3", kSmooth},
    {"BiasAdd", kSmooth},
    {"BroadcastTo", kSmooth},
    {"Cast", kSmooth, kPoolsRows},
    {"Ceil", kStep},
    {"CheckNumerics", kSmooth},
    {"ConcatV2", kSmooth},
    {"Conv2D", kSmooth},
    {"Conv2DBackpropInput", kSmooth},
    {"Conv3D", kSmooth},
    {"Cos", kSmooth},
    {"Cumsum", kSmooth},
    {"DepthwiseConv2dNative", kSmooth},
    {"Div", kSmooth, kPoolsRows},
    {"DivNoNan", kSmooth, kPoolsRows},
    {"Einsum", kSmooth},
    {"Elu", kSmooth},
    {"Equal", kSwitch},
    {"Erf", kSmooth},
    {"Exp", kSmooth},
    {"ExpandDims", kSmooth, kPoolsRows},
    {"Expm1", kSmooth},
    {"Fill", kSmooth},
    {"Floor", kStep},
    {"FloorDiv", kStep},
    {"FloorMod", kStep},
    {"FusedBatchNorm", kSmooth},
    {"FusedBatchNormV2", kSmooth},
    {"FusedBatchNormV3", kSmooth},
    {"Gather", kSmooth, kPoolsRows},
    {"GatherNd", kSmooth, kPoolsRows},
    {"GatherV2", kSmooth, kPoolsRows},
    {"Greater", kSwitch},
    {"GreaterEqual", kSwitch},
    {"Identity", kSmooth, kPoolsRows},
    {"IdentityN", kSmooth},
    {"IsFinite", kSwitch},
    {"IsInf", kSwitch},
    {"IsNan", kSwitch},
    {"LeakyRelu", kSmooth},
    {"Less", kSwitch},
    {"LessEqual", kSwitch},
    {"Log", kSmooth},
    {"Log1p", kSmooth},
    {"LogSoftmax", kSmooth},
    {"LogicalAnd", kSwitch},
    {"LogicalNot", kSwitch},
    {"LogicalOr", kSwitch},
    {"MatMul", kSmooth},
    {"Max", kSmooth, kPoolsRows},
    {"MaxPool", kSmooth},
    {"Maximum", kSmooth, kPoolsRows},
    {"Mean", kSmooth, kPoolsRows},
    {"Min", kSmooth, kPoolsRows},
    {"Minimum", kSmooth, kPoolsRows},
    {"Mod", kStep},
    {"Mul", kSmooth, kPoolsRows},
    {"Neg", kSmooth},
    {"NotEqual", kSwitch},
    {"OneHot", kUnknown, kPoolsRows},
    {"OnesLike", kStructure},
    {"Pack", kSmooth, kPoolsRows},
    {"Pad", kSmooth},
    {"PadV2", kSmooth},
    {"PlaceholderWithDefault", kSmooth},
    {"Pow", kSmooth},
    {"PreventGradient", kSmooth},
    {"Prod", kSmooth},
    {"Rank", kStructure},
    {"RealDiv", kSmooth, kPoolsRows},
    {"Reciprocal", kSmooth},
    {"Relu", kSmooth},
    {"Relu6", kSmooth},
    {"Reshape", kSmooth, kPoolsRows},
    {"ResizeBilinear", kSmooth},
    {"ResizeNearestNeighbor", kSmooth},
    {"ResourceGather", kUnknown, kPoolsRows},
    {"ReverseV2", kSmooth},
    {"Round", kStep},
    {"Rsqrt", kSmooth, kPoolsRows},
    {"ScatterNd", kSmooth, kPoolsRows},
    {"Select", kSmooth, kPoolsRows},
    {"SelectV2", kSmooth, kPoolsRows},
    {"Selu", kSmooth},
    {"Shape", kStructure},
    {"ShapeN", kStructure},
    {"Sigmoid", kSmooth},
    {"Sign", kStep},
    {"Sin", kSmooth},
    {"Size", kStructure},
    {"Slice", kSmooth},
    {"Snapshot", kSmooth},
    {"Softmax", kSmooth},
    {"Softplus", kSmooth},
    {"SparseSegmentMean", kSmooth, kPoolsRows},
    {"SparseSegmentMeanWithNumSegments", kSmooth, kPoolsRows},
    {"SparseSegmentSqrtN", kSmooth, kPoolsRows},
    {"SparseSegmentSqrtNWithNumSegments", kSmooth, kPoolsRows},
    {"SparseSegmentSum", kSmooth, kPoolsRows},
    {"SparseSegmentSumWithNumSegments", kSmooth, kPoolsRows},
    {"SparseToDense", kSmooth, kPoolsRows},
    {"Split", kSmooth},
    {"SplitV", kSmooth},
    {"Sqrt", kSmooth, kPoolsRows},
    {"Square", kSmooth, kPoolsRows},
    {"SquaredDifference", kSmooth},
    {"Squeeze", kSmooth, kPoolsRows},
    {"StopGradient", kSmooth},
    {"StridedSlice", kSmooth, kPoolsRows},
    {"Sub", kSmooth},
    {"Sum", kSmooth, kPoolsRows},
    {"Tanh", kSmooth},
    {"Tile", kSmooth, kPoolsRows},
    {"TopKV2", kSmooth},
    {"Transpose", kSmooth, kPoolsRows},
    {"TruncateDiv", kStep},
    {"TruncateMod", kStep},
    {"Unpack", kSmooth},
    {"UnsortedSegmentSum", kSmooth, kPoolsRows},
    {"ZerosLike", kStructure},
});
static_assert(std::ranges::is_sorted(kExplainedOps, {}, &ExplainedOp::name));

const ExplainedOp* find_explained(std::string_view name) {
  const auto found = std::ranges::lower_bound(kExplainedOps, name, {}, &ExplainedOp::name);
  return found != kExplainedOps.end() && found->name == name ? found : nullptr;
}

}  // namespace

GradientRole gradient_role(std::string_view op) {
  const ExplainedOp* const explained = find_explained(op);
  return explained != nullptr ? explained->role : kUnknown;
}

bool pools_rows(std::string_view op) {
  const ExplainedOp* const explained = find_explained(op);
  return explained != nullptr && explained->pools_rows;
}

bool needs_fixed_filter(std::string_view op) {
  return op == "Conv2D" || op == "Conv2DBackpropInput" || op == "Conv3D" ||
         op == "DepthwiseConv2dNative";
}

}  // namespace muster::executor
