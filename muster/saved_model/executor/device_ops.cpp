#include "muster/saved_model/executor/device_ops_internal.h"

#include <algorithm>
#include <array>

namespace muster::executor {
namespace {

constexpr DeviceOp plain(std::string_view name) { return {.name = name}; }
constexpr DeviceOp heavy(std::string_view name, std::uint32_t host_operands = 0) {
  return {.name = name, .host_operands = host_operands, .is_heavy = true};
}
constexpr DeviceOp of_shape(std::string_view name) { return {.name = name, .is_shape = true}; }
constexpr DeviceOp with_host(std::string_view name, std::uint32_t host_operands) {
  return {.name = name, .host_operands = host_operands};
}

constexpr std::uint32_t kOperand0 = 1U << 0;
constexpr std::uint32_t kOperand1 = 1U << 1;
constexpr std::uint32_t kOperand2 = 1U << 2;
constexpr std::uint32_t kOperand3 = 1U << 3;

// By name.
constexpr auto kDeviceOps = std::to_array<DeviceOp>({
    plain("Abs"),
    plain("Add"),
    plain("AddN"),
    plain("AddV2"),
    with_host("All", kOperand1),
    with_host("Any", kOperand1),
    with_host("ArgMax", kOperand1),
    with_host("ArgMin", kOperand1),
    plain("AvgPool"),
    heavy("BatchMatMul"),
    heavy("BatchMatMulV2"),
    heavy("BatchMatMulV3"),
    plain("BiasAdd"),
    with_host("BroadcastTo", kOperand1),
    plain("Cast"),
    plain("Ceil"),
    {.name = "ConcatV2", .host_reads_last = true},
    heavy("Conv2D"),
    heavy("Conv2DBackpropInput", kOperand0),
    heavy("Conv3D"),
    plain("Cos"),
    heavy("DepthwiseConv2dNative"),
    plain("Div"),
    plain("DivNoNan"),
    heavy("Einsum"),
    plain("Elu"),
    plain("Equal"),
    plain("Erf"),
    plain("Exp"),
    with_host("ExpandDims", kOperand1),
    plain("Expm1"),
    with_host("Fill", kOperand0),
    plain("Floor"),
    plain("FloorDiv"),
    plain("FloorMod"),
    plain("FusedBatchNorm"),
    plain("FusedBatchNormV2"),
    plain("FusedBatchNormV3"),
    plain("Greater"),
    plain("GreaterEqual"),
    plain("Identity"),
    plain("IsFinite"),
    plain("IsInf"),
    plain("IsNan"),
    plain("LeakyRelu"),
    plain("Less"),
    plain("LessEqual"),
    plain("Log"),
    plain("Log1p"),
    plain("LogSoftmax"),
    plain("LogicalAnd"),
    plain("LogicalNot"),
    plain("LogicalOr"),
    heavy("MatMul"),
    with_host("Max", kOperand1),
    plain("MaxPool"),
    plain("Maximum"),
    with_host("Mean", kOperand1),
    with_host("Min", kOperand1),
    plain("Minimum"),
    plain("Mul"),
    plain("Neg"),
    plain("NotEqual"),
    with_host("OneHot", kOperand1),
    plain("OnesLike"),
    plain("Pack"),
    with_host("Pad", kOperand1),
    plain("Pow"),
    with_host("Prod", kOperand1),
    of_shape("Rank"),
    plain("RealDiv"),
    plain("Reciprocal"),
    plain("Relu"),
    plain("Relu6"),
    with_host("Reshape", kOperand1),
    with_host("ResizeBilinear", kOperand1),
    with_host("ResizeNearestNeighbor", kOperand1),
    plain("Round"),
    plain("Rsqrt"),
    plain("Select"),
    plain("SelectV2"),
    plain("Selu"),
    of_shape("Shape"),
    of_shape("ShapeN"),
    plain("Sigmoid"),
    plain("Sign"),
    plain("Sin"),
    of_shape("Size"),
    with_host("Slice", kOperand1 | kOperand2),
    plain("Softmax"),
    plain("Softplus"),
    with_host("Split", kOperand0),
    with_host("SplitV", kOperand1 | kOperand2),
    plain("Sqrt"),
    plain("Square"),
    plain("SquaredDifference"),
    plain("Squeeze"),
    with_host("StridedSlice", kOperand1 | kOperand2 | kOperand3),
    plain("Sub"),
    with_host("Sum", kOperand1),
    plain("Tanh"),
    with_host("Tile", kOperand1),
    with_host("Transpose", kOperand1),
    plain("Unpack"),
    plain("ZerosLike"),
});
static_assert(std::ranges::is_sorted(kDeviceOps, {}, &DeviceOp::name));

}  // namespace

const DeviceOp* find_device_op(std::string_view op) {
  const auto* const found = std::ranges::lower_bound(kDeviceOps, op, {}, &DeviceOp::name);
  return found != kDeviceOps.end() && found->name == op ? &*found : nullptr;
}

}  // namespace muster::executor
