#include "muster/saved_model/executor/explain_ops_internal.h"

#include <algorithm>
#include <array>

namespace muster::executor {
namespace {

// Each list is sorted.
constexpr auto kSmoothOps = std::to_array<std::string_view>({
    "Abs",
    "Add",
    "AddN",
    "AddV2",
    "AvgPool",
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "BiasAdd",
    "BroadcastTo",
    "Cast",
    "CheckNumerics",
    "ConcatV2",
    "Conv2D",
    "Conv2DBackpropInput",
    "Cos",
    "Cumsum",
    "DepthwiseConv2dNative",
    "Div",
    "DivNoNan",
    "Einsum",
    "Elu",
    "Erf",
    "Exp",
    "ExpandDims",
    "Expm1",
    "Fill",
    "FusedBatchNorm",
    "FusedBatchNormV2",
    "FusedBatchNormV3",
    "Gather",
    "GatherNd",
    "GatherV2",
    "Identity",
    "IdentityN",
    "LeakyRelu",
    "Log",
    "Log1p",
    "LogSoftmax",
    "MatMul",
    "Max",
    "MaxPool",
    "Maximum",
    "Mean",
    "Min",
    "Minimum",
    "Mul",
    "Neg",
    "Pack",
    "Pad",
    "PadV2",
    "PlaceholderWithDefault",
    "Pow",
    "PreventGradient",
    "Prod",
    "RealDiv",
    "Reciprocal",
    "Relu",
    "Relu6",
    "Reshape",
    "ResizeBilinear",
    "ResizeNearestNeighbor",
    "ReverseV2",
    "Rsqrt",
    "ScatterNd",
    "Select",
    "SelectV2",
    "Selu",
    "Sigmoid",
    "Sin",
    "Slice",
    "Snapshot",
    "Softmax",
    "Softplus",
    "SparseSegmentMean",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtN",
    "SparseSegmentSqrtNWithNumSegments",
    "SparseSegmentSum",
    "SparseSegmentSumWithNumSegments",
    "SparseToDense",
    "Split",
    "SplitV",
    "Sqrt",
    "Square",
    "SquaredDifference",
    "Squeeze",
    "StopGradient",
    "StridedSlice",
    "Sub",
    "Sum",
    "Tanh",
    "Tile",
    "TopKV2",
    "Transpose",
    "Unpack",
    "UnsortedSegmentSum",
});

constexpr auto kStepOps = std::to_array<std::string_view>({
    "Ceil",
    "Floor",
    "FloorDiv",
    "FloorMod",
    "Mod",
    "Round",
    "Sign",
    "TruncateDiv",
    "TruncateMod",
});

constexpr auto kSwitchOps = std::to_array<std::string_view>({
    "Equal",
    "Greater",
    "GreaterEqual",
    "IsFinite",
    "IsInf",
    "IsNan",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "NotEqual",
});

constexpr auto kStructureOps = std::to_array<std::string_view>({
    "OnesLike",
    "Rank",
    "Shape",
    "ShapeN",
    "Size",
    "ZerosLike",
});

constexpr auto kCallingOps = std::to_array<std::string_view>({
    "Case",
    "If",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessWhile",
    "While",
});

constexpr auto kPoolingOps = std::to_array<std::string_view>({
    "Cast",
    "Div",
    "DivNoNan",
    "ExpandDims",
    "Gather",
    "GatherNd",
    "GatherV2",
    "Identity",
    "Max",
    "Maximum",
    "Mean",
    "Min",
    "Minimum",
    "Mul",
    "OneHot",
    "Pack",
    "RealDiv",
    "Reshape",
    "ResourceGather",
    "Rsqrt",
    "ScatterNd",
    "Select",
    "SelectV2",
    "SparseSegmentMean",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtN",
    "SparseSegmentSqrtNWithNumSegments",
    "SparseSegmentSum",
    "SparseSegmentSumWithNumSegments",
    "SparseToDense",
    "Sqrt",
    "Square",
    "Squeeze",
    "StridedSlice",
    "Sum",
    "Tile",
    "Transpose",
    "UnsortedSegmentSum",
});

static_assert(std::ranges::is_sorted(kSmoothOps) && std::ranges::is_sorted(kStepOps) &&
              std::ranges::is_sorted(kSwitchOps) && std::ranges::is_sorted(kStructureOps) &&
              std::ranges::is_sorted(kCallingOps) && std::ranges::is_sorted(kPoolingOps));

}  // namespace

GradientRole gradient_role(std::string_view op) {
  if (std::ranges::binary_search(kSmoothOps, op)) return GradientRole::kSmooth;
  if (std::ranges::binary_search(kStepOps, op)) return GradientRole::kStep;
  if (std::ranges::binary_search(kSwitchOps, op)) return GradientRole::kSwitch;
  if (std::ranges::binary_search(kStructureOps, op)) return GradientRole::kStructure;
  return GradientRole::kUnknown;
}

bool pools_rows(std::string_view op) { return std::ranges::binary_search(kPoolingOps, op); }

bool calls_functions(std::string_view op) { return std::ranges::binary_search(kCallingOps, op); }

bool needs_fixed_filter(std::string_view op) {
  return op == "Conv2D" || op == "Conv2DBackpropInput" || op == "DepthwiseConv2dNative";
}

}  // namespace muster::executor
