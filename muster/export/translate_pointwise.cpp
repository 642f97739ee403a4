#include <torch/types.h>

#include <array>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

// One tensor in, one out, element by element: whatever the order of the axes, it stays.
template <const char* kOp>
void unary(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  call.give(
      call.to.add(kOp, kOp, {call.operand(0, call.result().dtype, order)}, {{"T", call.type()}}),
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

void binary(Call& call, const char* op, at::ScalarType type) {
  const Order order = common_order(call);
  const auto a = call.operand(0, type, order);
  auto b = call.operand(1, type, order);
  call.give(call.to.add(op, op, {a, b}, {{"T", graph_type(type)}}), order);
}

template <const char* kOp>
void arithmetic(Call& call) {
  binary(call, kOp, call.result().dtype);
}

// a + alpha * b
template <const char* kOp>
void scaled(Call& call) {
  call.require(call.count() < 3 || call.number(2) == 1, "alpha must be 1");
  binary(call, kOp, call.result().dtype);
}

void divide(Call& call) {
  call.require(call.count() < 3 || call.is_none(2), "rounding modes are not translated");
  binary(call, "RealDiv", call.result().dtype);
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

template <const char* kOp>
void comparison(Call& call) {
  const auto first = call.value(0).dtype;
  const auto type = at::promote_types(first, type_of(call, 1, first));
  const Order order = common_order(call);
  graph::Attrs attrs{{"T", graph_type(type)}};
  const std::string_view op = kOp;
  if (op == "Equal" || op == "NotEqual") attrs.emplace("incompatible_shape_error", true);
  call.give(call.to.add(kOp, kOp, {call.operand(0, type, order), call.operand(1, type, order)},
                        std::move(attrs)),
            order);
}

void bounded(Call& call, std::size_t low, std::size_t high) {
  const Order order = call.to.order_of(call.id(0));
  const auto type = call.result().dtype;
  auto value = call.operand(0, type, order);
  if (low < call.count() && !call.is_none(low)) {
    value =
        call.to.add("Maximum", "Maximum", {value, call.operand(low, type)}, {{"T", call.type()}});
  }
  if (high < call.count() && !call.is_none(high)) {
    value =
        call.to.add("Minimum", "Minimum", {value, call.operand(high, type)}, {{"T", call.type()}});
  }
  call.give(value, order);
}

void clamp(Call& call) { bounded(call, 1, 2); }
void clamp_min(Call& call) { bounded(call, 1, call.count()); }
void clamp_max(Call& call) { bounded(call, call.count(), 1); }

void leaky_relu(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  call.give(call.to.add("LeakyRelu", "LeakyRelu", {call.tensor(0, order)},
                        {{"T", call.type()}, {"alpha", static_cast<float>(call.number(1))}}),
            order);
}

void silu(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  const auto input = call.tensor(0, order);
  const auto gate = call.to.add("Sigmoid", "Sigmoid", {input}, {{"T", call.type()}});
  call.give(call.to.add("Mul", "Mul", {input, gate}, {{"T", call.type()}}), order);
}

// TensorFlow's works on the last axis.
template <const char* kOp>
void softmax(Call& call) {
  const std::size_t rank = call.rank(0);
  const std::int64_t axis = call.axis(1, rank);
  Order order;
  for (std::size_t i = 0; i < rank; ++i) {
    if (static_cast<std::int64_t>(i) != axis) order.push_back(static_cast<std::int64_t>(i));
  }
  order.push_back(axis);
  call.give(
      call.to.add(kOp, kOp, {call.operand(0, call.result().dtype, order)}, {{"T", call.type()}}),
      order);
}

// What changes nothing in prediction.
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
  for (const std::size_t index : {0U, 1U, 2U}) {
    call.require(call.is_tensor(index), "its operands must be tensors of the model");
  }
  call.give(call.to.add(
      "SelectV2", "SelectV2",
      {call.tensor(0), call.operand(1, call.result().dtype), call.operand(2, call.result().dtype)},
      {{"T", call.type()}}));
}

// Names as template arguments need an address.
constexpr char kAbs[] = "Abs", kAddV2[] = "AddV2", kElu[] = "Elu", kEqual[] = "Equal",
               kErf[] = "Erf", kExp[] = "Exp", kFloor[] = "Floor", kGreater[] = "Greater",
               kGreaterEqual[] = "GreaterEqual", kLess[] = "Less", kLessEqual[] = "LessEqual",
               kLog[] = "Log", kLog1p[] = "Log1p", kLogSoftmax[] = "LogSoftmax",
               kMaximum[] = "Maximum", kMinimum[] = "Minimum", kMul[] = "Mul", kNeg[] = "Neg",
               kNotEqual[] = "NotEqual", kOnesLike[] = "OnesLike", kPow[] = "Pow",
               kReciprocal[] = "Reciprocal", kRelu[] = "Relu", kRelu6[] = "Relu6",
               kRsqrt[] = "Rsqrt", kSigmoid[] = "Sigmoid", kSoftmax[] = "Softmax",
               kSoftplus[] = "Softplus", kSqrt[] = "Sqrt", kSquare[] = "Square", kSub[] = "Sub",
               kTanh[] = "Tanh", kZerosLike[] = "ZerosLike";

void softplus(Call& call) {
  call.require(call.number(1) == 1, "beta must be 1");
  unary<kSoftplus>(call);
}

void elu(Call& call) {
  for (std::size_t i = 1; i < call.count(); ++i) {
    call.require(call.number(i) == 1, "alpha and both scales must be 1");
  }
  unary<kElu>(call);
}

constexpr std::array kTranslations{
    OpTranslation{"aten::abs", "Abs", unary<kAbs>},
    OpTranslation{"aten::add", "AddV2", scaled<kAddV2>},
    OpTranslation{"aten::alias", "(nothing)", same},
    OpTranslation{"aten::clamp", "Maximum, Minimum", clamp},
    OpTranslation{"aten::clamp_max", "Minimum", clamp_max},
    OpTranslation{"aten::clamp_min", "Maximum", clamp_min},
    OpTranslation{"aten::clone", "(nothing)", same},
    OpTranslation{"aten::contiguous", "(nothing)", same},
    OpTranslation{"aten::detach", "(nothing)", same},
    OpTranslation{"aten::div", "RealDiv", divide},
    OpTranslation{"aten::dropout", "(nothing)", dropout},
    OpTranslation{"aten::elu", "Elu", elu},
    OpTranslation{"aten::eq", "Equal", comparison<kEqual>},
    OpTranslation{"aten::erf", "Erf", unary<kErf>},
    OpTranslation{"aten::exp", "Exp", unary<kExp>},
    OpTranslation{"aten::feature_dropout", "(nothing)", dropout},
    OpTranslation{"aten::floor", "Floor", unary<kFloor>},
    OpTranslation{"aten::ge", "GreaterEqual", comparison<kGreaterEqual>},
    OpTranslation{"aten::gt", "Greater", comparison<kGreater>},
    OpTranslation{"aten::hardtanh", "Maximum, Minimum", clamp},
    OpTranslation{"aten::le", "LessEqual", comparison<kLessEqual>},
    OpTranslation{"aten::leaky_relu", "LeakyRelu", leaky_relu},
    OpTranslation{"aten::log", "Log", unary<kLog>},
    OpTranslation{"aten::log1p", "Log1p", unary<kLog1p>},
    OpTranslation{"aten::log_softmax", "LogSoftmax", softmax<kLogSoftmax>},
    OpTranslation{"aten::lt", "Less", comparison<kLess>},
    OpTranslation{"aten::maximum", "Maximum", arithmetic<kMaximum>},
    OpTranslation{"aten::minimum", "Minimum", arithmetic<kMinimum>},
    OpTranslation{"aten::mul", "Mul", arithmetic<kMul>},
    OpTranslation{"aten::ne", "NotEqual", comparison<kNotEqual>},
    OpTranslation{"aten::neg", "Neg", unary<kNeg>},
    OpTranslation{"aten::ones_like", "OnesLike", unary<kOnesLike>},
    OpTranslation{"aten::pow", "Pow", arithmetic<kPow>},
    OpTranslation{"aten::reciprocal", "Reciprocal", unary<kReciprocal>},
    OpTranslation{"aten::relu", "Relu", unary<kRelu>},
    OpTranslation{"aten::relu6", "Relu6", unary<kRelu6>},
    OpTranslation{"aten::rsqrt", "Rsqrt", unary<kRsqrt>},
    OpTranslation{"aten::sigmoid", "Sigmoid", unary<kSigmoid>},
    OpTranslation{"aten::silu", "Sigmoid, Mul", silu},
    OpTranslation{"aten::softmax", "Softmax", softmax<kSoftmax>},
    OpTranslation{"aten::softplus", "Softplus", softplus},
    OpTranslation{"aten::sqrt", "Sqrt", unary<kSqrt>},
    OpTranslation{"aten::square", "Square", unary<kSquare>},
    OpTranslation{"aten::sub", "Sub", scaled<kSub>},
    OpTranslation{"aten::tanh", "Tanh", unary<kTanh>},
    OpTranslation{"aten::to", "Cast", convert},
    OpTranslation{"aten::where", "SelectV2", where},
    OpTranslation{"aten::zeros_like", "ZerosLike", unary<kZerosLike>},
};

}  // namespace

std::span<const OpTranslation> pointwise_translations() { return kTranslations; }

}  // namespace muster::exporting
