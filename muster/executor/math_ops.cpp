#include <ATen/Functions.h>

#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/executor/op_table_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using Unary = at::Tensor (*)(const at::Tensor&);
using Binary = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

void check_same_type(const at::Tensor& left, const at::Tensor& right) {
  if (left.scalar_type() != right.scalar_type()) {
    throw InvalidArgument("inputs 0 and 1 differ in type: {} and {}", describe(left),
                          describe(right));
  }
}

void add_unary(OpTable& table, const char* name, Unary compute) {
  table.add_plain(name, [compute](const Inputs& in) { return Slots{compute(in.tensor(0))}; });
}

void add_binary(OpTable& table, const char* name, Binary compute) {
  table.add_plain(name, [compute](const Inputs& in) {
    const at::Tensor left = in.tensor(0);
    const at::Tensor right = in.tensor(1);
    check_same_type(left, right);
    return Slots{compute(left, right)};
  });
}

// Equal and NotEqual, which also compare strings; a string with one element is compared with all.
Kernel compare(bool equal) {
  return [equal](const Inputs& in) {
    if (!in.is_strings(0)) {
      const at::Tensor left = in.tensor(0);
      const at::Tensor right = in.tensor(1);
      check_same_type(left, right);
      return Slots{equal ? left.eq(right) : left.ne(right)};
    }
    const StringTensor left = in.strings(0);
    const StringTensor right = in.strings(1);
    const bool one_left = left.values().size() == 1;
    const bool one_right = right.values().size() == 1;
    if (!one_left && !one_right && left.shape() != right.shape()) {
      throw InvalidArgument("strings of the shapes of {} and {} cannot be compared", describe(left),
                            describe(right));
    }
    const bool spread_left = one_left && (!one_right || left.shape().size() < right.shape().size());
    const StringTensor& larger = spread_left ? right : left;
    const at::Tensor out = at::empty(larger.shape(), at::kBool);
    for (std::size_t i = 0; i < larger.values().size(); ++i) {
      const bool same = left.values()[one_left ? 0 : i] == right.values()[one_right ? 0 : i];
      out.data_ptr<bool>()[i] = same == equal;
    }
    return Slots{out};
  };
}

// Whole numbers are divided towards zero.
at::Tensor divide(const at::Tensor& left, const at::Tensor& right) {
  return left.is_floating_point() ? at::div(left, right) : at::div(left, right, "trunc");
}

at::Tensor divide_or_zero(const at::Tensor& left, const at::Tensor& right) {
  return at::where(right.eq(0), at::zeros({}, left.options()), at::div(left, right));
}

at::Tensor squared_difference(const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor difference = at::sub(left, right);
  return at::mul(difference, difference);
}

Kernel cast(const KernelContext& context) {
  const auto type = scalar_type(graph::attr<DataType>(context.node, "DstT"));
  return [type](const Inputs& in) { return Slots{in.tensor(0).to(type)}; };
}

Kernel leaky_relu(const KernelContext& context) {
  const auto alpha = graph::attr_or<float>(context.node, "alpha", 0.2F);
  return [alpha](const Inputs& in) { return Slots{at::leaky_relu(in.tensor(0), alpha)}; };
}

// "transpose_a" and "transpose_b", or "adj_x" and "adj_y" of products of batches.
KernelFactory product(const char* left_attr, const char* right_attr, bool batches) {
  return [=](const KernelContext& context) -> Kernel {
    const bool left_turned = graph::attr_or<bool>(context.node, left_attr, false);
    const bool right_turned = graph::attr_or<bool>(context.node, right_attr, false);
    return [=](const Inputs& in) {
      const at::Tensor left = in.tensor(0);
      const at::Tensor right = in.tensor(1);
      check_same_type(left, right);
      if (left.dim() < 2 || right.dim() < 2 || (!batches && left.dim() + right.dim() != 4)) {
        throw InvalidArgument("inputs 0 and 1 must be matrices, but are {} and {}", describe(left),
                              describe(right));
      }
      return Slots{at::matmul(left_turned ? left.transpose(-2, -1) : left,
                              right_turned ? right.transpose(-2, -1) : right)};
    };
  };
}

Kernel einstein_sum(const KernelContext& context) {
  const auto equation = graph::attr<std::string>(context.node, "equation");
  return [equation](const Inputs& in) {
    std::vector<at::Tensor> factors;
    for (std::size_t i = 0; i < in.size(); ++i) {
      factors.push_back(in.tensor(i));
      check_same_type(factors.front(), factors.back());
    }
    return Slots{at::einsum(equation, factors)};
  };
}

Slots add_n(const Inputs& in) {
  at::Tensor sum = in.tensor(0);
  for (std::size_t i = 1; i < in.size(); ++i) sum = at::add(sum, in.tensor(i));
  return {sum};
}

}  // namespace

void add_math_ops(OpTable& table) {
  using T = const at::Tensor&;
  const auto add = [](T a, T b) { return at::add(a, b); };
  add_binary(table, "Add", add);
  add_binary(table, "AddV2", add);
  add_binary(table, "Sub", [](T a, T b) { return at::sub(a, b); });
  add_binary(table, "Mul", [](T a, T b) { return at::mul(a, b); });
  add_binary(table, "RealDiv", [](T a, T b) { return at::div(a, b); });
  add_binary(table, "Div", divide);
  add_binary(table, "DivNoNan", divide_or_zero);
  add_binary(table, "FloorDiv", [](T a, T b) { return at::div(a, b, "floor"); });
  add_binary(table, "FloorMod", [](T a, T b) { return at::remainder(a, b); });
  add_binary(table, "Maximum", [](T a, T b) { return at::maximum(a, b); });
  add_binary(table, "Minimum", [](T a, T b) { return at::minimum(a, b); });
  add_binary(table, "Pow", [](T a, T b) { return at::pow(a, b); });
  add_binary(table, "SquaredDifference", squared_difference);
  add_binary(table, "Less", [](T a, T b) { return at::lt(a, b); });
  add_binary(table, "LessEqual", [](T a, T b) { return at::le(a, b); });
  add_binary(table, "Greater", [](T a, T b) { return at::gt(a, b); });
  add_binary(table, "GreaterEqual", [](T a, T b) { return at::ge(a, b); });
  add_binary(table, "LogicalAnd", [](T a, T b) { return at::logical_and(a, b); });
  add_binary(table, "LogicalOr", [](T a, T b) { return at::logical_or(a, b); });
  table.add_plain("Equal", compare(true));
  table.add_plain("NotEqual", compare(false));
  add_unary(table, "LogicalNot", [](T x) { return at::logical_not(x); });
  add_unary(table, "Neg", [](T x) { return at::neg(x); });
  add_unary(table, "Abs", [](T x) { return at::abs(x); });
  add_unary(table, "Sign", [](T x) { return at::sign(x); });
  add_unary(table, "Exp", [](T x) { return at::exp(x); });
  add_unary(table, "Expm1", [](T x) { return at::expm1(x); });
  add_unary(table, "Log", [](T x) { return at::log(x); });
  add_unary(table, "Log1p", [](T x) { return at::log1p(x); });
  add_unary(table, "Sqrt", [](T x) { return at::sqrt(x); });
  add_unary(table, "Rsqrt", [](T x) { return at::rsqrt(x); });
  add_unary(table, "Square", [](T x) { return at::mul(x, x); });
  add_unary(table, "Reciprocal", [](T x) { return at::reciprocal(x); });
  add_unary(table, "Floor", [](T x) { return at::floor(x); });
  add_unary(table, "Ceil", [](T x) { return at::ceil(x); });
  add_unary(table, "Round", [](T x) { return x.is_floating_point() ? at::round(x) : x; });
  add_unary(table, "Sin", [](T x) { return at::sin(x); });
  add_unary(table, "Cos", [](T x) { return at::cos(x); });
  add_unary(table, "Erf", [](T x) { return at::erf(x); });
  add_unary(table, "IsNan", [](T x) { return at::isnan(x); });
  add_unary(table, "IsInf", [](T x) { return at::isinf(x); });
  add_unary(table, "IsFinite", [](T x) { return at::isfinite(x); });
  add_unary(table, "Sigmoid", [](T x) { return at::sigmoid(x); });
  add_unary(table, "Tanh", [](T x) { return at::tanh(x); });
  add_unary(table, "Relu", [](T x) { return at::relu(x); });
  add_unary(table, "Relu6", [](T x) { return at::clamp(x, 0, 6); });
  add_unary(table, "Elu", [](T x) { return at::elu(x); });
  add_unary(table, "Selu", [](T x) { return at::selu(x); });
  add_unary(table, "Softplus", [](T x) { return at::softplus(x); });
  add_unary(table, "Softmax", [](T x) { return at::softmax(x, -1); });
  add_unary(table, "LogSoftmax", [](T x) { return at::log_softmax(x, -1); });
  table.add("LeakyRelu", leaky_relu);
  table.add("Cast", cast);
  table.add("MatMul", product("transpose_a", "transpose_b", /*batches=*/false));
  table.add("BatchMatMul", product("adj_x", "adj_y", /*batches=*/true));
  table.add("BatchMatMulV2", product("adj_x", "adj_y", /*batches=*/true));
  table.add("Einsum", einstein_sum);
  table.add_plain("AddN", add_n);
}

}  // namespace muster::executor
