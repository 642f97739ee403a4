#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"
#include "muster/saved_model/executor/whole_arithmetic_internal.h"

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

// Whole numbers may become floating-point ones.
at::ScalarType widest(const at::Tensor& in) {
  return in.is_floating_point() ? in.scalar_type() : at::kLong;
}

void add_unary(OpTable& table, const char* name, Unary compute) {
  table.add_plain(name, [compute](const Inputs& in) {
    const at::Tensor held = in.tensor(0);
    in.check_room(held.sizes(), widest(held));
    return Slots{paced_map(std::array{held}, in.budget(),
                           [compute](auto operands) { return compute(operands[0]); })};
  });
}

// Not element by element.
void add_softmax(OpTable& table, const char* name, Unary compute) {
  table.add_plain(name, [compute](const Inputs& in) {
    const at::Tensor held = in.tensor(0);
    in.check_room(held.sizes(), widest(held));
    return Slots{compute(held)};
  });
}

at::Tensor paced_pair(const Inputs& in, Binary compute, const at::Tensor& left,
                      const at::Tensor& right) {
  return paced_map(std::array{left, right}, in.budget(),
                   [compute](auto operands) { return compute(operands[0], operands[1]); });
}

void add_binary(OpTable& table, const char* name, Binary compute,
                std::optional<FewOp> few = std::nullopt) {
  table.add_plain(name, [compute, few](const Inputs& in) {
    const at::Tensor left = in.tensor(0);
    const at::Tensor right = in.tensor(1);
    check_same_type(left, right);
    if (few) {
      if (auto made = combine_few(*few, left, right)) return Slots{std::move(*made)};
    }
    in.check_room(broadcast_sizes(left.sizes(), right.sizes()), left);
    return Slots{paced_pair(in, compute, left, right)};
  });
}

// Strings whose axes of size 1 are repeated as the other's want.
at::Tensor compare_each(const Inputs& in, const StringTensor& left, const StringTensor& right,
                        bool equal) {
  const auto sizes = broadcast_sizes(left.shape(), right.shape());
  in.check_room(sizes, at::kLong);
  // Three of them: the numbers of both, and the answer.
  in.check_room(3 * *graph::element_count(sizes), sizeof(std::int64_t));
  const auto numbers = [&](const StringTensor& of) {
    const auto count = static_cast<std::int64_t>(of.values().size());
    return at::arange(count, at::kLong).reshape(of.shape()).expand(sizes).contiguous();
  };
  const at::Tensor left_numbers = numbers(left);
  const at::Tensor right_numbers = numbers(right);
  at::Tensor out = at::empty(sizes, at::kBool);
  const auto* of_left = left_numbers.data_ptr<std::int64_t>();
  const auto* of_right = right_numbers.data_ptr<std::int64_t>();
  Pace pace(in.budget());
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    pace.add(left.values()[static_cast<std::size_t>(of_left[i])].size() + sizeof(std::string));
    const bool same = left.values()[static_cast<std::size_t>(of_left[i])] ==
                      right.values()[static_cast<std::size_t>(of_right[i])];
    out.data_ptr<bool>()[i] = same == equal;
  }
  return out;
}

// Equal and NotEqual, which also compare strings; a string with one element is compared with all.
Kernel compare(bool equal) {
  return [equal](const Inputs& in) {
    if (!in.is_strings(0)) {
      const at::Tensor left = in.tensor(0);
      const at::Tensor right = in.tensor(1);
      check_same_type(left, right);
      const auto few = combine_few(equal ? FewOp::kEqual : FewOp::kNotEqual, left, right);
      if (few) return Slots{*few};
      in.check_room(broadcast_sizes(left.sizes(), right.sizes()), at::kBool);
      const Binary compute = equal
                                 ? [](const at::Tensor& a, const at::Tensor& b) { return a.eq(b); }
                                 : [](const at::Tensor& a, const at::Tensor& b) { return a.ne(b); };
      return Slots{paced_pair(in, compute, left, right)};
    }
    const StringTensor left = in.strings(0);
    const StringTensor right = in.strings(1);
    const bool one_left = left.values().size() == 1;
    const bool one_right = right.values().size() == 1;
    if (!one_left && !one_right && left.shape() != right.shape()) {
      return Slots{compare_each(in, left, right, equal)};
    }
    const bool spread_left = one_left && (!one_right || left.shape().size() < right.shape().size());
    const StringTensor& larger = spread_left ? right : left;
    const at::Tensor out = empty_on_host(larger.shape(), at::kBool);
    Pace pace(in.budget());
    for (std::size_t i = 0; i < larger.values().size(); ++i) {
      pace.add(sizeof(std::string) + larger.values()[i].size());
      const bool same = left.values()[one_left ? 0 : i] == right.values()[one_right ? 0 : i];
      out.data_ptr<bool>()[i] = same == equal;
    }
    return Slots{out};
  };
}

// Whole numbers are combined in one way on every processor, others as libtorch does it.
void add_binary(OpTable& table, const char* name, WholeOp whole, Binary compute) {
  table.add_plain(name, [whole, compute](const Inputs& in) {
    const at::Tensor left = in.tensor(0);
    const at::Tensor right = in.tensor(1);
    check_same_type(left, right);
    if (at::isIntegralType(left.scalar_type(), /*includeBool=*/false)) {
      return Slots{combine_whole(whole, in, left, right)};
    }
    in.check_room(broadcast_sizes(left.sizes(), right.sizes()), left);
    return Slots{paced_pair(in, compute, left, right)};
  });
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
  return [type](const Inputs& in) {
    const at::Tensor held = in.tensor(0);
    if (held.scalar_type() == type) return Slots{held};
    if (auto few = cast_few(held, type)) return Slots{std::move(*few)};
    in.check_room(held.sizes(), type);
    const bool is_rounded =
        held.is_floating_point() && at::isIntegralType(type, /*includeBool=*/false);
    return Slots{paced_map(std::array{held}, in.budget(), [=](auto operands) {
      return is_rounded ? cast_to_whole(operands[0], type) : operands[0].to(type);
    })};
  };
}

Kernel leaky_relu(const KernelContext& context) {
  const auto alpha = graph::attr_or<float>(context.node, "alpha", 0.2F);
  return [alpha](const Inputs& in) { return Slots{at::leaky_relu(in.tensor(0), alpha)}; };
}

// Room for the products, and for matrices that are repeated for each product of a batch.
void check_product_room(const Inputs& in, const at::Tensor& left, const at::Tensor& right) {
  if (left.size(-1) != right.size(-2)) {
    throw InvalidArgument("the matrices {} and {} do not fit", describe(left), describe(right));
  }
  const auto batch = broadcast_sizes(left.sizes().slice(0, left.sizes().size() - 2),
                                     right.sizes().slice(0, right.sizes().size() - 2));
  const auto check = [&](std::int64_t rows, std::int64_t columns) {
    auto sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    in.check_room(sizes, left);
  };
  check(left.size(-2), right.size(-1));
  if (batch.empty()) return;
  check(left.size(-2), left.size(-1));
  check(right.size(-2), right.size(-1));
}

// The size of each letter of one side of an equation, and the sizes that an ellipsis stands for.
struct EinsteinSizes {
  void add(std::string_view letters, const at::Tensor& factor) {
    const auto dots = letters.find("...");
    const auto named = letters.size() - (dots == std::string_view::npos ? 0 : 3);
    const auto rank = static_cast<std::size_t>(factor.dim());
    if (named > rank || (dots == std::string_view::npos && named != rank)) {
      throw InvalidArgument("\"{}\" does not fit {}", letters, describe(factor));
    }
    const auto hidden = factor.sizes().slice(std::min(dots, rank), rank - named);
    ellipsis = broadcast_sizes(ellipsis, hidden);
    for (std::size_t i = 0, axis = 0; i < letters.size(); ++i) {
      if (i == dots) {
        axis += hidden.size();
        i += 2;
        continue;
      }
      auto& size = of[letters[i]];
      size = std::max(size, factor.sizes()[axis++]);
    }
  }
  std::vector<std::int64_t> sizes(std::string_view letters) const {
    std::vector<std::int64_t> out;
    for (const char letter : letters) {
      const auto found = of.find(letter);
      if (found != of.end()) out.push_back(found->second);
    }
    if (letters.find("...") != std::string_view::npos) {
      out.insert(out.end(), ellipsis.begin(), ellipsis.end());
    }
    return out;
  }

  std::map<char, std::int64_t> of;
  std::vector<std::int64_t> ellipsis;
};

// As TensorFlow has it: one or two factors, and always an arrow.
void check_einstein_room(const Inputs& in, const std::string& equation,
                         const std::vector<at::Tensor>& factors) {
  std::string text = equation;
  std::erase(text, ' ');
  const auto arrow = text.find("->");
  if (arrow == std::string::npos || factors.empty() || factors.size() > 2) {
    throw InvalidArgument("the equation \"{}\" for {} inputs", equation, factors.size());
  }
  const std::string_view all = text;
  std::string_view left = all.substr(0, arrow);
  EinsteinSizes sizes;
  for (const auto& factor : factors) {
    sizes.add(left.substr(0, left.find(',')), factor);
    left.remove_prefix(std::min(left.size(), left.substr(0, left.find(',')).size() + 1));
  }
  in.check_room(sizes.sizes(all.substr(arrow + 2)), factors[0]);
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
      const at::Tensor first = left_turned ? left.transpose(-2, -1) : left;
      const at::Tensor second = right_turned ? right.transpose(-2, -1) : right;
      check_product_room(in, first, second);
      return Slots{paced_product(first, second, in.budget())};
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
    check_einstein_room(in, equation, factors);
    return Slots{at::einsum(equation, factors)};
  };
}

Slots add_n(const Inputs& in) {
  at::Tensor sum = in.tensor(0);
  for (std::size_t i = 1; i < in.size(); ++i) {
    const at::Tensor more = in.tensor(i);
    in.check_room(broadcast_sizes(sum.sizes(), more.sizes()), sum);
    sum = at::add(sum, more);
  }
  return {sum};
}

}  // namespace

void add_math_ops(OpTable& table) {
  using T = const at::Tensor&;
  const auto add = [](T a, T b) { return at::add(a, b); };
  add_binary(table, "Add", add, FewOp::kAdd);
  add_binary(table, "AddV2", add, FewOp::kAdd);
  add_binary(
      table, "Sub", [](T a, T b) { return at::sub(a, b); }, FewOp::kSub);
  add_binary(
      table, "Mul", [](T a, T b) { return at::mul(a, b); }, FewOp::kMul);
  add_binary(table, "RealDiv", [](T a, T b) { return at::div(a, b); });
  add_binary(table, "Div", WholeOp::kDivide, [](T a, T b) { return at::div(a, b); });
  add_binary(table, "DivNoNan", divide_or_zero);
  add_binary(table, "FloorDiv", WholeOp::kFloorDivide,
             [](T a, T b) { return at::div(a, b, "floor"); });
  add_binary(table, "FloorMod", WholeOp::kFloorModulo,
             [](T a, T b) { return at::remainder(a, b); });
  add_binary(table, "TruncateDiv", WholeOp::kDivide,
             [](T a, T b) { return at::div(a, b, "trunc"); });
  for (const auto* name : {"Mod", "TruncateMod"}) {
    add_binary(table, name, WholeOp::kTruncateModulo, [](T a, T b) { return at::fmod(a, b); });
  }
  add_binary(table, "Maximum", [](T a, T b) { return at::maximum(a, b); });
  add_binary(table, "Minimum", [](T a, T b) { return at::minimum(a, b); });
  add_binary(table, "Pow", WholeOp::kPower, [](T a, T b) { return at::pow(a, b); });
  add_binary(table, "SquaredDifference", squared_difference);
  add_binary(
      table, "Less", [](T a, T b) { return at::lt(a, b); }, FewOp::kLess);
  add_binary(
      table, "LessEqual", [](T a, T b) { return at::le(a, b); }, FewOp::kLessEqual);
  add_binary(
      table, "Greater", [](T a, T b) { return at::gt(a, b); }, FewOp::kGreater);
  add_binary(
      table, "GreaterEqual", [](T a, T b) { return at::ge(a, b); }, FewOp::kGreaterEqual);
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
  add_softmax(table, "Softmax", [](T x) { return at::softmax(x, -1); });
  add_softmax(table, "LogSoftmax", [](T x) { return at::log_softmax(x, -1); });
  table.add("LeakyRelu", leaky_relu);
  table.add("Cast", cast);
  table.add("MatMul", product("transpose_a", "transpose_b", /*batches=*/false));
  table.add("BatchMatMul", product("adj_x", "adj_y", /*batches=*/true));
  table.add("BatchMatMulV2", product("adj_x", "adj_y", /*batches=*/true));
  table.add("BatchMatMulV3", product("adj_x", "adj_y", /*batches=*/true));
  table.add("Einsum", einstein_sum);
  table.add_plain("AddN", add_n);
}

}  // namespace muster::executor
