#include <torch/types.h>

#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "muster/export/translation_internal.h"
#include "muster/saved_model/graph/pointwise_ops.h"

namespace muster::exporting {
namespace {

// One tensor in, one out, element by element: whatever the order of the axes, it stays.
template <std::size_t kRow>
void unary(Call& call) {
  const std::string_view op = graph::kUnaryOps[kRow].tensorflow;
  const Order order = call.to.order_of(call.id(0));
  call.give(
      call.to.add(op, op, {call.operand(0, call.result().dtype, order)}, {{"T", call.type()}}),
      order);
}

// The order in which both operands can be had: that of the one with the result's rank.
Order common_order(Call& call) {
  const std::size_t rank = call.result().sizes.size();
  for (const std::size_t index : {0U, 1U}) {
    if (!call.is_tensor(index) || call.rank(index) != rank) continue;
    const std::size_t other = 1 - index;
    const bool free = !call.is_tensor(other) || call.rank(other) == rank || call.rank(other) == 0;
    const auto* held = std::get_if<at::Tensor>(&call.argument(other));
    const bool fits =
        held == nullptr || held->dim() == 0 || held->dim() == static_cast<std::int64_t>(rank);
    if (free && fits) return call.to.order_of(call.id(index));
  }
  return identity_order(rank);
}

void binary(Call& call, std::string_view op, at::ScalarType type) {
  const Order order = common_order(call);
  const auto a = call.operand(0, type, order);
  auto b = call.operand(1, type, order);
  call.give(call.to.add(op, op, {a, b}, {{"T", graph_type(type)}}), order);
}

template <std::size_t kRow>
void arithmetic(Call& call) {
  const std::string_view op = graph::kArithmeticOps[kRow].tensorflow;
  binary(call, op, call.result().dtype);
}

// a + alpha * b, with the operands at these places
void scaled_sum(Call& call, const char* op, std::size_t first, std::size_t second) {
  const auto type = call.result().dtype;
  const Order order = common_order(call);
  const double alpha = call.count() > 2 ? call.number(2) : 1;
  const auto scaled = [&](std::size_t index) {
    const auto node = call.operand(index, type, order);
    // libtorch's alpha belongs to its second operand.
    return alpha == 1 || index == 0 ? node : call.node("Mul", {node, call.scalar(alpha)});
  };
  const auto a = scaled(first);
  const auto b = scaled(second);
  call.give(call.node(op, {a, b}), order);
}

void add(Call& call) { scaled_sum(call, "AddV2", 0, 1); }
void subtract(Call& call) { scaled_sum(call, "Sub", 0, 1); }

// other - alpha * self
void subtract_from(Call& call) {
  call.require(call.count() < 3 || call.number(2) == 1, "alpha must be 1");
  scaled_sum(call, "Sub", 1, 0);
}

void divide(Call& call) {
  const auto type = call.result().dtype;
  if (call.count() < 3 || call.is_none(2)) return binary(call, "RealDiv", type);
  if (call.text(2) == "floor") return binary(call, "FloorDiv", type);
  call.require(!at::isFloatingType(type), "rounding towards zero is translated for integers only");
  binary(call, "Div", type);
}

at::ScalarType type_of(Call& call, std::size_t index, at::ScalarType beside) {
  if (call.is_tensor(index)) return call.value(index).dtype;
  const auto& given = call.argument(index);
  if (const auto* held = std::get_if<at::Tensor>(&given)) {
    if (held->dim() > 0) return held->scalar_type();
    return held->is_floating_point() && !at::isFloatingType(beside) ? at::kFloat : beside;
  }
  return std::holds_alternative<double>(given) && !at::isFloatingType(beside) ? at::kFloat : beside;
}

template <std::size_t kRow>
void comparison(Call& call) {
  const std::string_view op = graph::kComparisonOps[kRow].tensorflow;
  const auto first = call.value(0).dtype;
  const auto type = at::promote_types(first, type_of(call, 1, first));
  const Order order = common_order(call);
  graph::Attrs attrs{{"T", graph_type(type)}};
  if (op == "Equal" || op == "NotEqual") attrs.emplace("incompatible_shape_error", true);
  call.give(call.to.add(op, op, {call.operand(0, type, order), call.operand(1, type, order)},
                        std::move(attrs)),
            order);
}

void bounded(Call& call, std::size_t low, std::size_t high) {
  const auto given = [&](std::size_t index) {
    return index < call.count() && !call.is_none(index);
  };
  // A limit that is a tensor is broadcast as it was traced.
  const auto is_wide = [&](std::size_t index) {
    return given(index) && call.is_tensor(index) && call.rank(index) > 0;
  };
  const Order order =
      is_wide(low) || is_wide(high) ? identity_order(call.rank(0)) : call.to.order_of(call.id(0));
  const auto type = call.result().dtype;
  auto value = call.operand(0, type, order);
  if (given(low)) value = call.node("Maximum", {value, call.operand(low, type)});
  if (given(high)) value = call.node("Minimum", {value, call.operand(high, type)});
  call.give(value, order);
}

void clamp(Call& call) { bounded(call, 1, 2); }
void clamp_min(Call& call) { bounded(call, 1, call.count()); }
void clamp_max(Call& call) { bounded(call, call.count(), 1); }

// TensorFlow's works on the last axis.
template <std::size_t kRow>
void softmax(Call& call) {
  const std::string_view op = graph::kSoftmaxOps[kRow].tensorflow;
  const std::size_t rank = call.rank(0);
  const std::int64_t axis = call.axis(1, rank);
  Order order;
  for (std::size_t i = 0; i < rank; ++i) {
    if (static_cast<std::int64_t>(i) != axis) order.push_back(static_cast<std::int64_t>(i));
  }
  order.push_back(axis);
  call.give(
      call.to.add(op, op, {call.operand(0, call.result().dtype, order)}, {{"T", call.type()}}),
      order);
}

// Operations that change nothing in prediction.
void same(Call& call) {
  call.to.set_permuted(call.result_id(), call.id(0), identity_order(call.rank(0)));
}

void dropout(Call& call) {
  call.require(!call.truth(2), "dropout is on although the model is in eval mode");
  same(call);
}

void convert(Call& call) {
  if (call.value(0).dtype == call.result().dtype) return same(call);
  const Order order = call.to.order_of(call.id(0));
  call.give(call.operand(0, call.result().dtype, order), order);
}

void where(Call& call) {
  call.require(call.count() == 3, "it needs a condition and two values");
  const auto type = call.result().dtype;
  call.give(call.node("SelectV2", {call.tensor(0), call.operand(1, type), call.operand(2, type)}));
}

// masked_fill(x, mask, value)
void masked_fill(Call& call) {
  const auto type = call.result().dtype;
  call.give(call.node("SelectV2",
                      {call.operand(1, at::kBool), call.operand(2, type), call.operand(0, type)}));
}

// True or false for each number.
template <std::size_t kRow>
void predicate(Call& call) {
  const std::string_view op = graph::kPredicateOps[kRow].tensorflow;
  const Order order = call.to.order_of(call.id(0));
  call.give(call.to.add(op, op, {call.tensor(0, order)}, {{"T", graph_type(call.value(0).dtype)}}),
            order);
}

// TensorFlow's logical operations have no type.
template <std::size_t kRow>
void logical(Call& call) {
  const std::string_view op = graph::kLogicalOps[kRow].tensorflow;
  call.require(call.result().dtype == at::kBool, "only truth values are translated");
  const Order order = common_order(call);
  call.give(call.to.add(op, op,
                        {call.operand(0, at::kBool, order), call.operand(1, at::kBool, order)}, {}),
            order);
}

void logical_not(Call& call) {
  call.require(call.result().dtype == at::kBool, "only truth values are translated");
  const Order order = call.to.order_of(call.id(0));
  call.give(call.to.add("LogicalNot", "LogicalNot", {call.operand(0, at::kBool, order)}, {}),
            order);
}

// log2 and log10
void scaled_log(Call& call, double base) {
  const Order order = call.to.order_of(call.id(0));
  const auto logarithm = call.node("Log", {call.operand(0, call.result().dtype, order)});
  call.give(call.node("Mul", {logarithm, call.scalar(1 / std::log(base))}), order);
}

void log2(Call& call) { scaled_log(call, 2); }
void log10(Call& call) { scaled_log(call, 10); }

// addcmul and addcdiv: x + value * (a op b)
void add_combined(Call& call, std::string_view op) {
  const auto type = call.result().dtype;
  auto combined = call.node(op, {call.operand(1, type), call.operand(2, type)});
  const double value = call.count() > 3 ? call.number(3) : 1;
  if (value != 1) combined = call.node("Mul", {combined, call.scalar(value)});
  call.give(call.node("AddV2", {call.operand(0, type), combined}));
}

void add_quotient(Call& call) { add_combined(call, "RealDiv"); }
void add_elementwise_product(Call& call) { add_combined(call, "Mul"); }

// lerp(x, end, weight): x + weight * (end - x)
void interpolate(Call& call) {
  const auto type = call.result().dtype;
  const auto from = call.operand(0, type);
  const auto way = call.node("Sub", {call.operand(1, type), from});
  call.give(call.node("AddV2", {from, call.node("Mul", {way, call.operand(2, type)})}));
}

// Pointwise operations that are not in the tables of pointwise_ops.h.
constexpr std::array kOwnPointwiseTranslations{
    OpTranslation{"aten::add", "AddV2, Mul", add},
    OpTranslation{"aten::addcdiv", "RealDiv, Mul, AddV2", add_quotient},
    OpTranslation{"aten::addcmul", "Mul, AddV2", add_elementwise_product},
    OpTranslation{"aten::alias", "(nothing)", same},
    OpTranslation{"aten::bitwise_not", "LogicalNot", logical_not},
    OpTranslation{"aten::clamp", "Maximum, Minimum", clamp},
    OpTranslation{"aten::clamp_max", "Minimum", clamp_max},
    OpTranslation{"aten::clamp_min", "Maximum", clamp_min},
    OpTranslation{"aten::clone", "(nothing)", same},
    OpTranslation{"aten::contiguous", "(nothing)", same},
    OpTranslation{"aten::detach", "(nothing)", same},
    OpTranslation{"aten::div", "RealDiv, FloorDiv or Div", divide},
    OpTranslation{"aten::dropout", "(nothing)", dropout},
    OpTranslation{"aten::feature_dropout", "(nothing)", dropout},
    OpTranslation{"aten::hardtanh", "Maximum, Minimum", clamp},
    OpTranslation{"aten::lerp", "Sub, Mul, AddV2", interpolate},
    OpTranslation{"aten::log10", "Log, Mul", log10},
    OpTranslation{"aten::log2", "Log, Mul", log2},
    OpTranslation{"aten::logical_not", "LogicalNot", logical_not},
    OpTranslation{"aten::masked_fill", "SelectV2", masked_fill},
    OpTranslation{"aten::rsub", "Sub", subtract_from},
    OpTranslation{"aten::sub", "Sub, Mul", subtract},
    OpTranslation{"aten::to", "Cast", convert},
    OpTranslation{"aten::type_as", "Cast", convert},
    OpTranslation{"aten::where", "SelectV2", where},
};

std::vector<OpTranslation> make_pointwise_translations() {
  std::vector<OpTranslation> all(kOwnPointwiseTranslations.begin(),
                                 kOwnPointwiseTranslations.end());
  const auto add_row = [&](const graph::PointwiseOp& op, void (*translate)(Call&)) {
    if (!op.aten.empty()) all.push_back({op.aten, op.tensorflow, translate});
  };
  graph::for_each_row<graph::kUnaryOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kUnaryOps[kRow], unary<kRow>); });
  graph::for_each_row<graph::kArithmeticOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kArithmeticOps[kRow], arithmetic<kRow>); });
  graph::for_each_row<graph::kComparisonOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kComparisonOps[kRow], comparison<kRow>); });
  graph::for_each_row<graph::kPredicateOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kPredicateOps[kRow], predicate<kRow>); });
  graph::for_each_row<graph::kLogicalOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kLogicalOps[kRow], logical<kRow>); });
  graph::for_each_row<graph::kSoftmaxOps.size()>(
      [&]<std::size_t kRow>() { add_row(graph::kSoftmaxOps[kRow], softmax<kRow>); });
  return all;
}

}  // namespace

std::span<const OpTranslation> pointwise_translations() {
  static const std::vector<OpTranslation> all = make_pointwise_translations();
  return all;
}

}  // namespace muster::exporting
