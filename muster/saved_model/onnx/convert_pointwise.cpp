#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "muster/saved_model/graph/pointwise_ops.h"
#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::DataType;
using graph::TensorValue;

TensorValue number_of(Call& call, DataType type, double value) {
  switch (type) {
    case DataType::kFloat:
      return TensorValue::scalar(static_cast<float>(value));
    case DataType::kDouble:
      return TensorValue::scalar(value);
    case DataType::kInt32:
      return TensorValue::scalar(static_cast<std::int32_t>(value));
    case DataType::kInt64:
      return TensorValue::scalar(static_cast<std::int64_t>(value));
    default:
      call.require(false, fmt::format("it is not converted for {}", graph::name_of(type)));
      return {};
  }
}

std::string constant(Call& call, double value) {
  return call.to.constant(number_of(call, call.type(), value));
}

// One tensor in, one out, element by element: whatever the order of the axes, it stays.
struct Unary {
  explicit Unary(Call& call)
      : order(call.to.order_of(call.tensor(0))),
        rank(call.held(0).rank),
        input(call.input(0, order)) {}
  Order order;
  std::optional<std::size_t> rank;
  std::string input;
};

template <std::size_t kRow>
void unary(Call& call) {
  const std::string_view op = graph::kUnaryOps[kRow].onnx;
  const Unary x(call);
  call.give(call.last(op, {x.input}), call.type(), x.rank, x.order);
}

void same(Call& call) {
  Held held = call.held(0);
  held.padding.reset();
  call.to.hold(call.node.name, std::move(held));
}

// The order that both operands can be had in without a transpose of more than one.
Order common_order(Call& call, std::size_t first, std::size_t second) {
  for (const auto& [index, other] : {std::pair{first, second}, std::pair{second, first}}) {
    Order order = call.to.order_of(call.tensor(index));
    if (order.empty() || order == full_order({}, order.size())) continue;
    const Held& beside = call.held(other);
    if (!beside.rank || *beside.rank > order.size()) continue;
    const bool fits = *beside.rank == 0 || *beside.rank == order.size();
    if (fits || beside.constant != nullptr) return order;
  }
  return {};
}

// An operand in this order; a constant of lower rank gets axes of size 1 in front.
std::string operand(Call& call, std::size_t index, const Order& order) {
  const Held& held = call.held(index);
  if (order.empty() || held.rank == order.size()) return call.input(index, order);
  if (held.rank == std::size_t{0}) return call.input(index);
  TensorValue widened = *held.constant;
  widened.shape.insert(widened.shape.begin(), order.size() - widened.shape.size(), 1);
  return call.to.constant(permuted(widened, order), call.tensor(index));
}

std::optional<std::size_t> common_rank(Call& call, std::size_t first, std::size_t second) {
  const auto a = call.held(first).rank;
  const auto b = call.held(second).rank;
  if (!a || !b) return std::nullopt;
  return std::max(*a, *b);
}

// a and b as they go into an operator.
struct Binary {
  explicit Binary(Call& call)
      : order(common_order(call, 0, 1)),
        rank(common_rank(call, 0, 1)),
        a(operand(call, 0, order)),
        b(operand(call, 1, order)) {}
  Order order;
  std::optional<std::size_t> rank;
  std::string a;
  std::string b;
};

// Sizes are computed as int64, where they already are.
bool among_sizes(Call& call) {
  return call.is_wide(0) && call.is_wide(1) &&
         (call.constant(0) == nullptr || call.constant(1) == nullptr);
}

template <std::size_t kRow>
void binary(Call& call) {
  const std::string_view op = graph::kArithmeticOps[kRow].onnx;
  if (among_sizes(call)) {
    const auto rank = common_rank(call, 0, 1);
    const auto made =
        call.last(op, {call.to.get_wide(call.tensor(0)), call.to.get_wide(call.tensor(1))});
    return call.give_wide(made, DataType::kInt32, rank);
  }
  const Binary x(call);
  call.give(call.last(op, {x.a, x.b}), call.type(), x.rank, x.order);
}

void compare(Call& call, std::string_view op) {
  const Binary x(call);
  call.give(call.last(op, {x.a, x.b}), DataType::kBool, x.rank, x.order);
}

template <std::size_t kRow>
void comparison(Call& call) {
  compare(call, graph::kComparisonOps[kRow].onnx);
}

void not_equal(Call& call) {
  if (compares_words(call, /*equal=*/false)) return;
  const Binary x(call);
  call.give(call.last("Not", {call.add("Equal", {x.a, x.b})}), DataType::kBool, x.rank, x.order);
}

void logical_not(Call& call) {
  const Unary x(call);
  call.give(call.last("Not", {x.input}), DataType::kBool, x.rank, x.order);
}

template <std::size_t kRow>
void logical(Call& call) {
  const std::string_view op = graph::kLogicalOps[kRow].onnx;
  const Binary x(call);
  call.give(call.last(op, {x.a, x.b}), DataType::kBool, x.rank, x.order);
}

bool is_whole(DataType type) {
  return type != DataType::kFloat && type != DataType::kDouble && type != DataType::kHalf &&
         type != DataType::kBfloat16;
}

// ONNX divides whole numbers towards zero, as TensorFlow's Div does.
void divide(Call& call) {
  const Binary x(call);
  call.give(call.last("Div", {x.a, x.b}), call.type(), x.rank, x.order);
}

void floor_divide(Call& call) {
  call.require(!is_whole(call.type()), "only division of floating numbers is converted");
  const Binary x(call);
  call.give(call.last("Floor", {call.add("Div", {x.a, x.b})}), call.type(), x.rank, x.order);
}

// Both round the quotient down.
void floor_mod(Call& call) {
  const Binary x(call);
  if (is_whole(call.type())) {
    return call.give(call.last("Mod", {x.a, x.b}), call.type(), x.rank, x.order);
  }
  const auto times = call.add("Floor", {call.add("Div", {x.a, x.b})});
  call.give(call.last("Sub", {x.a, call.add("Mul", {times, x.b})}), call.type(), x.rank, x.order);
}

template <std::size_t kRow>
void test(Call& call) {
  const std::string_view op = graph::kPredicateOps[kRow].onnx;
  const Unary x(call);
  call.give(call.last(op, {x.input}), DataType::kBool, x.rank, x.order);
}

void is_finite(Call& call) {
  const Unary x(call);
  const auto other = call.add("Or", {call.add("IsNaN", {x.input}), call.add("IsInf", {x.input})});
  call.give(call.last("Not", {other}), DataType::kBool, x.rank, x.order);
}

void divide_no_nan(Call& call) {
  const Binary x(call);
  const auto zero = constant(call, 0);
  const auto is_zero = call.add("Equal", {x.b, zero});
  // A divisor that is no zero, so that nothing becomes infinite on the way.
  const auto divisor = call.add("Where", {is_zero, constant(call, 1), x.b});
  const auto quotient = call.add("Div", {x.a, divisor});
  call.give(call.last("Where", {is_zero, zero, quotient}), call.type(), x.rank, x.order);
}

void squared_difference(Call& call) {
  const Binary x(call);
  const auto difference = call.add("Sub", {x.a, x.b});
  call.give(call.last("Mul", {difference, difference}), call.type(), x.rank, x.order);
}

// A vector along the channels, where they stand in the input's order.
void bias_add(Call& call) {
  const Held& x = call.held(0);
  const Order order = call.to.order_of(call.tensor(0));
  const bool first = call.attr_or<std::string>("data_format", "NHWC") == "NCHW";
  if (!first && (order.empty() || order == full_order({}, order.size()))) {
    return call.give(call.last("Add", {call.input(0), call.input(1)}), call.type(), x.rank);
  }
  call.require(x.rank.has_value(), "the rank of its input is unknown");
  const std::size_t rank = *x.rank;
  const auto axis = static_cast<std::int64_t>(first ? 1 : rank - 1);
  const auto place = static_cast<std::size_t>(call.place_of(axis, order, rank));
  // A convolution takes it along.
  if (place == 1 && rank == 4 && call.to.add_bias(call.tensor(0), call.input(1))) {
    Held held = x;
    return call.to.hold(call.node.name, std::move(held));
  }
  std::string bias;
  if (const TensorValue* value = call.constant(1)) {
    TensorValue widened = *value;
    widened.shape.insert(widened.shape.end(), rank - 1 - place, 1);
    bias = call.to.constant(widened, call.tensor(1));
  } else {
    std::vector<std::int64_t> axes;
    for (std::size_t i = 1; i < rank - place; ++i) axes.push_back(static_cast<std::int64_t>(i));
    bias =
        axes.empty() ? call.input(1) : call.add("Unsqueeze", {call.input(1), call.to.ints(axes)});
  }
  call.give(call.last("Add", {call.input(0, order), bias}), call.type(), rank, order);
}

void add_all(Call& call) {
  std::vector<std::string> inputs;
  const Order order = call.to.order_of(call.tensor(0));
  for (std::size_t i = 0; i < call.count(); ++i) {
    const bool fits = order.empty() || call.held(i).rank == order.size();
    call.require(fits, "its inputs differ in rank");
    inputs.push_back(call.input(i, order));
  }
  const auto rank = call.held(0).rank;
  call.give(call.last("Sum", std::move(inputs)), call.type(), rank, order);
}

void square(Call& call) {
  const Unary x(call);
  call.give(call.last("Mul", {x.input, x.input}), call.type(), x.rank, x.order);
}

void rsqrt(Call& call) {
  const Unary x(call);
  call.give(call.last("Reciprocal", {call.add("Sqrt", {x.input})}), call.type(), x.rank, x.order);
}

void log1p(Call& call) {
  const Unary x(call);
  call.give(call.last("Log", {call.add("Add", {x.input, constant(call, 1)})}), call.type(), x.rank,
            x.order);
}

void expm1(Call& call) {
  const Unary x(call);
  call.give(call.last("Sub", {call.add("Exp", {x.input}), constant(call, 1)}), call.type(), x.rank,
            x.order);
}

void relu6(Call& call) {
  const Unary x(call);
  call.give(call.last("Clip", {x.input, constant(call, 0), constant(call, 6)}), call.type(), x.rank,
            x.order);
}

void leaky_relu(Call& call) {
  const Unary x(call);
  call.give(call.last("LeakyRelu", {x.input}, {{"alpha", call.attr_or("alpha", 0.2F)}}),
            call.type(), x.rank, x.order);
}

// Softmax over TensorFlow's last axis, wherever it stands.
template <std::size_t kRow>
void softmax(Call& call) {
  const std::string_view op = graph::kSoftmaxOps[kRow].onnx;
  const Unary x(call);
  const std::int64_t axis = x.order.empty() ? -1 : call.place_of(-1, x.order, x.rank);
  call.give(call.last(op, {x.input}, {{"axis", axis}}), call.type(), x.rank, x.order);
}

void cast(Call& call) {
  const auto target = call.type("DstT");
  if (call.type("SrcT") == target) return same(call);
  const Held& held = call.held(0);
  if (target == DataType::kInt64 && !held.wide.empty()) {
    return call.give(held.wide, target, held.rank);
  }
  const Unary x(call);
  call.give(call.to.cast(call.node.name, x.input, target), target, x.rank, x.order);
}

template <int kValue>
void filled_like(Call& call) {
  const Unary x(call);
  call.give(call.last("Expand", {constant(call, kValue), call.add("Shape", {x.input})}),
            call.type(), x.rank, x.order);
}

void choose(Call& call, const Order& order) {
  std::array<std::string, 3> inputs;
  std::optional<std::size_t> rank = std::size_t{0};
  for (std::size_t i = 0; i < 3; ++i) {
    inputs[i] = operand(call, i, order);
    const auto next = call.held(i).rank;
    rank = rank && next ? std::optional(std::max(*rank, *next)) : std::nullopt;
  }
  call.give(call.last("Where", {inputs[0], inputs[1], inputs[2]}), call.type(), rank, order);
}

// Where all three have the rank and order of the first value, that order stays.
void select_v2(Call& call) {
  const Order order = call.to.order_of(call.tensor(1));
  bool alike = !order.empty();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto rank = call.held(i).rank;
    alike = alike && (rank == order.size() || rank == std::size_t{0});
  }
  choose(call, alike ? order : Order{});
}

// The older one takes a vector for rows of any rank.
void select(Call& call) {
  const auto condition = call.held(0).rank;
  const auto values = call.held(1).rank;
  call.require(condition && values && (*condition == *values || *condition == 0),
               "a condition for whole rows is not converted");
  select_v2(call);
}

void equal(Call& call) {
  if (!compares_words(call, /*equal=*/true)) compare(call, "Equal");
}

// Operations that are not in the tables of pointwise_ops.h.
constexpr std::array kOwnPointwiseConversions{
    OpConversion{"AddN", "Sum", add_all},
    OpConversion{"BiasAdd", "Add, or the bias of Conv", bias_add},
    OpConversion{"Cast", "Cast", cast},
    OpConversion{"Div", "Div", divide},
    OpConversion{"DivNoNan", "Equal, Where, Div", divide_no_nan},
    OpConversion{"Equal", "Equal, of words LabelEncoder", equal},
    OpConversion{"Expm1", "Exp, Sub", expm1},
    OpConversion{"FloorDiv", "Div, Floor", floor_divide},
    OpConversion{"FloorMod", "Mod, or Div, Floor, Mul, Sub", floor_mod},
    OpConversion{"Identity", "(nothing)", same},
    OpConversion{"IsFinite", "IsNaN, IsInf, Or, Not", is_finite},
    OpConversion{"LeakyRelu", "LeakyRelu", leaky_relu},
    OpConversion{"Log1p", "Add, Log", log1p},
    OpConversion{"LogicalNot", "Not", logical_not},
    OpConversion{"NotEqual", "Equal, Not, of words LabelEncoder", not_equal},
    OpConversion{"OnesLike", "Shape, Expand", filled_like<1>},
    OpConversion{"RealDiv", "Div", divide},
    OpConversion{"Relu6", "Clip", relu6},
    OpConversion{"Rsqrt", "Sqrt, Reciprocal", rsqrt},
    OpConversion{"Select", "Where", select},
    OpConversion{"SelectV2", "Where", select_v2},
    OpConversion{"Square", "Mul", square},
    OpConversion{"SquaredDifference", "Sub, Mul", squared_difference},
    OpConversion{"StopGradient", "(nothing)", same},
    OpConversion{"ZerosLike", "Shape, Expand", filled_like<0>},
};

std::vector<OpConversion> make_pointwise_conversions() {
  std::vector<OpConversion> all(kOwnPointwiseConversions.begin(), kOwnPointwiseConversions.end());
  const auto add_row = [&](const graph::PointwiseOp& op, void (*convert)(Call&)) {
    if (!op.onnx.empty()) all.push_back({op.tensorflow, op.onnx, convert});
  };
  graph::for_each_row<graph::kUnaryOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kUnaryOps[kRow], unary<kRow>); });
  graph::for_each_row<graph::kArithmeticOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kArithmeticOps[kRow], binary<kRow>); });
  graph::for_each_row<graph::kComparisonOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kComparisonOps[kRow], comparison<kRow>); });
  graph::for_each_row<graph::kPredicateOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kPredicateOps[kRow], test<kRow>); });
  graph::for_each_row<graph::kLogicalOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kLogicalOps[kRow], logical<kRow>); });
  graph::for_each_row<graph::kSoftmaxOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kSoftmaxOps[kRow], softmax<kRow>); });
  return all;
}

}  // namespace

std::span<const OpConversion> pointwise_conversions() {
  static const std::vector<OpConversion> all = make_pointwise_conversions();
  return all;
}

}  // namespace muster::onnx
