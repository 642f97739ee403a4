#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/train/compiler/passes.h"
#include "muster/train/compiler/program_builder.h"
#include "muster/train/compiler/uses.h"

namespace muster::compiler {
namespace {

using Op = ScalarOp;

/// The arguments of an operation, as instructions.
class Arguments {
 public:
  Arguments(const Node& node, ProgramBuilder& builder) : node_(node), builder_(builder) {}

  /// A tensor's element, or a number. -1 where it is neither.
  int at(std::size_t place) {
    if (const auto value = tensor_at(node_, place)) return builder_.load(*value);
    if (const auto number = number_at(node_, place)) return builder_.constant(*number);
    return -1;
  }
  std::optional<double> number(std::size_t place) const { return number_at(node_, place); }
  std::string text(std::size_t place) const {
    const auto& given = node_.arguments[place].constant;
    return given.isString() ? given.toStringRef() : std::string();
  }

  int constant(double value) { return builder_.constant(value); }
  int op(Op what, int a, int b = -1, int c = -1) { return builder_.op(what, a, b, c); }
  int add(int a, int b) { return op(Op::kAdd, a, b); }
  int subtract(int a, int b) { return op(Op::kSubtract, a, b); }
  int multiply(int a, int b) { return op(Op::kMultiply, a, b); }
  int multiply(int a, double b) { return multiply(a, constant(b)); }
  int divide(int a, int b) { return op(Op::kDivide, a, b); }
  int select(int condition, int then, int otherwise) {
    return op(Op::kSelect, condition, then, otherwise);
  }
  int one_minus(int a) { return subtract(constant(1), a); }
  int sigmoid(int x) {
    return divide(constant(1), add(constant(1), op(Op::kExp, op(Op::kNegate, x))));
  }

 private:
  const Node& node_;
  ProgramBuilder& builder_;
};

using Lowering = std::function<int(Arguments&)>;

// a + alpha * b, where alpha is the third argument.
Lowering sum_with(Op what) {
  return [what](Arguments& in) {
    const int a = in.at(0);
    const int b = in.at(1);
    const double alpha = in.number(2).value_or(1.0);
    return in.op(what, a, alpha == 1.0 ? b : in.multiply(b, alpha));
  };
}

Lowering unary(Op what) {
  return [what](Arguments& in) { return in.op(what, in.at(0)); };
}

Lowering binary(Op what) {
  return [what](Arguments& in) {
    const int a = in.at(0);
    return in.op(what, a, in.at(1));
  };
}

// NaN continues, as in libtorch.
int zero_up_to(Arguments& in, int x, double threshold, int otherwise) {
  const int limit = in.constant(threshold);
  const int zero = in.constant(0);
  const int at_limit = in.select(in.op(Op::kEqual, x, limit), zero, otherwise);
  return in.select(in.op(Op::kLess, x, limit), zero, at_limit);
}

int gelu(Arguments& in) {
  const int x = in.at(0);
  if (in.text(1) == "tanh") {
    const int cube = in.multiply(in.multiply(in.multiply(x, x), x), 0.044715);
    const int inner = in.multiply(in.add(x, cube), 0.7978845608028654);
    return in.multiply(in.multiply(x, 0.5), in.add(in.constant(1), in.op(Op::kTanh, inner)));
  }
  const int erf = in.op(Op::kErf, in.multiply(x, M_SQRT1_2));
  return in.multiply(in.multiply(x, 0.5), in.add(in.constant(1), erf));
}

int gelu_backward(Arguments& in) {
  const int gradient = in.at(0);
  const int x = in.at(1);
  if (in.text(2) == "tanh") {
    const int square = in.multiply(x, x);
    const int cube = in.multiply(in.multiply(square, x), 0.044715);
    const int inner = in.op(Op::kTanh, in.multiply(in.add(x, cube), 0.7978845608028654));
    const int left = in.multiply(in.add(in.constant(1), inner), 0.5);
    const int slope =
        in.multiply(in.add(in.constant(1), in.multiply(square, 3 * 0.044715)), 0.7978845608028654);
    const int right = in.multiply(
        in.multiply(in.multiply(x, 0.5), in.one_minus(in.multiply(inner, inner))), slope);
    return in.multiply(gradient, in.add(left, right));
  }
  const int scaled = in.multiply(x, M_SQRT1_2);
  const int erf = in.op(Op::kErf, scaled);
  const int share = in.multiply(in.add(in.constant(1), erf), 0.5);
  const int power = in.op(Op::kNegate, in.multiply(scaled, scaled));
  const int density = in.multiply(in.op(Op::kExp, power), 0.3989422804014327);
  return in.multiply(gradient, in.add(share, in.multiply(x, density)));
}

int silu_backward(Arguments& in) {
  const int gradient = in.at(0);
  const int x = in.at(1);
  const int share = in.sigmoid(x);
  const int slope = in.add(in.constant(1), in.multiply(x, in.one_minus(share)));
  return in.multiply(in.multiply(gradient, share), slope);
}

int power(Arguments& in) {
  const int x = in.at(0);
  const double exponent = in.number(1).value_or(0);
  if (exponent == 2) return in.multiply(x, x);
  if (exponent == 3) return in.multiply(in.multiply(x, x), x);
  if (exponent == 0.5) return in.op(Op::kSqrt, x);
  if (exponent == -1) return in.divide(in.constant(1), x);
  return -1;
}

int copy(Arguments& in) { return in.at(0); }

const std::map<std::string, Lowering, std::less<>>& lowerings() {
  static const std::map<std::string, Lowering, std::less<>> all{
      {"aten::add.Tensor", sum_with(Op::kAdd)},
      {"aten::add.Scalar", sum_with(Op::kAdd)},
      {"aten::sub.Tensor", sum_with(Op::kSubtract)},
      {"aten::sub.Scalar", sum_with(Op::kSubtract)},
      {"aten::mul.Tensor", binary(Op::kMultiply)},
      {"aten::mul.Scalar", binary(Op::kMultiply)},
      {"aten::div.Tensor", binary(Op::kDivide)},
      {"aten::div.Scalar", binary(Op::kDivide)},
      {"aten::neg", unary(Op::kNegate)},
      {"aten::abs", unary(Op::kAbsolute)},
      {"aten::exp", unary(Op::kExp)},
      {"aten::log", unary(Op::kLog)},
      {"aten::sqrt", unary(Op::kSqrt)},
      {"aten::tanh", unary(Op::kTanh)},
      {"aten::erf", unary(Op::kErf)},
      {"aten::reciprocal", [](Arguments& in) { return in.divide(in.constant(1), in.at(0)); }},
      {"aten::rsqrt",
       [](Arguments& in) { return in.divide(in.constant(1), in.op(Op::kSqrt, in.at(0))); }},
      {"aten::sigmoid", [](Arguments& in) { return in.sigmoid(in.at(0)); }},
      {"aten::sigmoid_backward",
       [](Arguments& in) {
         const int y = in.at(1);
         return in.multiply(in.at(0), in.multiply(in.one_minus(y), y));
       }},
      {"aten::tanh_backward",
       [](Arguments& in) {
         const int y = in.at(1);
         return in.multiply(in.at(0), in.one_minus(in.multiply(y, y)));
       }},
      {"aten::relu",
       [](Arguments& in) {
         const int x = in.at(0);
         return in.select(in.op(Op::kLess, x, in.constant(0)), in.constant(0), x);
       }},
      {"aten::threshold_backward",
       [](Arguments& in) {
         const int gradient = in.at(0);
         return zero_up_to(in, in.at(1), in.number(2).value_or(0), gradient);
       }},
      {"aten::leaky_relu",
       [](Arguments& in) {
         const int x = in.at(0);
         return in.select(in.op(Op::kGreater, x, in.constant(0)), x,
                          in.multiply(x, in.number(1).value_or(0.01)));
       }},
      {"aten::leaky_relu_backward",
       [](Arguments& in) {
         const int gradient = in.at(0);
         return in.select(in.op(Op::kGreater, in.at(1), in.constant(0)), gradient,
                          in.multiply(gradient, in.number(2).value_or(0.01)));
       }},
      {"aten::gelu", gelu},
      {"aten::gelu_backward", gelu_backward},
      {"aten::silu",
       [](Arguments& in) {
         const int x = in.at(0);
         return in.multiply(x, in.sigmoid(x));
       }},
      {"aten::silu_backward", silu_backward},
      {"aten::pow.Tensor_Scalar", power},
      {"aten::where.self",
       [](Arguments& in) {
         const int condition = in.at(0);
         const int then = in.at(1);
         return in.select(condition, then, in.at(2));
       }},
      {"aten::gt.Scalar", binary(Op::kGreater)},
      {"aten::gt.Tensor", binary(Op::kGreater)},
      {"aten::lt.Scalar", binary(Op::kLess)},
      {"aten::lt.Tensor", binary(Op::kLess)},
      {"aten::_to_copy", copy},
      {"aten::clone", copy},
  };
  return all;
}

// Whether each element has a place of its own.
bool has_places(const Geometry& geometry) {
  for (std::size_t d = 0; d < geometry.sizes.size(); ++d) {
    if (geometry.sizes[d] != 1 && geometry.strides[d] == 0) return false;
  }
  return true;
}

bool can_be_broadcast(const Geometry& from, const Geometry& to) {
  if (from.sizes.size() > to.sizes.size()) return false;
  const std::size_t missing = to.sizes.size() - from.sizes.size();
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] != 1 && from.sizes[d] != to.sizes[d + missing]) return false;
  }
  return true;
}

bool all_for_programs(const Graph& graph, const Node& node, const Geometry& loop) {
  return std::ranges::all_of(values_read(node), [&](ValueId value) {
    const Geometry& geometry = graph.geometry(value);
    return is_for_programs(geometry) && geometry.device == loop.device &&
           can_be_broadcast(geometry, loop);
  });
}

std::string short_name(std::string name) { return name.substr(name.find(':') + 2); }

std::optional<Node> lower_into(const Graph& graph, const Node& node) {
  const ValueId place = node.writes[0];
  const Geometry& loop = graph.geometry(place);
  std::string name = node.name();
  const auto underscore = name.find("_.") == std::string::npos ? name.rfind('_') : name.find("_.");
  const bool is_copy = name == "aten::copy_";
  if (!is_copy) name.erase(underscore, 1);
  const auto found = lowerings().find(name);
  if (!is_copy && found == lowerings().end()) return std::nullopt;
  if (!has_places(loop) || !all_for_programs(graph, node, loop)) return std::nullopt;
  ProgramBuilder builder(graph, loop);
  Arguments arguments(node, builder);
  const int value = is_copy ? arguments.at(1) : found->second(arguments);
  if (value < 0) return std::nullopt;
  builder.store_into(value, place);
  return builder.take(short_name(node.name()));
}

std::optional<Node> lower(const Graph& graph, const Uses& uses, NodeId id) {
  const Node& node = graph.nodes[Graph::index(id)];
  if (!node.operation || node.random) return std::nullopt;
  if (node.writes.size() == 1 && tensor_at(node, 0) == node.writes[0]) {
    return lower_into(graph, node);
  }
  const auto found = lowerings().find(node.name());
  if (found == lowerings().end() || !node.writes.empty()) return std::nullopt;
  const auto made = node.results[0].value;
  if (!made || uses.of_value(*made).maker != id) return std::nullopt;
  const Geometry& loop = graph.geometry(*made);
  if (!loop.is_dense() || loop.offset != 0 || !is_for_programs(loop) || values_read(node).empty() ||
      !all_for_programs(graph, node, loop)) {
    return std::nullopt;
  }
  ProgramBuilder builder(graph, loop);
  Arguments arguments(node, builder);
  const int value = found->second(arguments);
  if (value < 0) return std::nullopt;
  builder.store(value, *made);
  return builder.take(short_name(node.name()));
}

}  // namespace

void lower_elements(Graph& graph) {
  const Uses uses(graph);
  std::vector<std::pair<std::size_t, Node>> lowered;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (auto node = lower(graph, uses, static_cast<NodeId>(i))) {
      lowered.emplace_back(i, std::move(*node));
    }
  }
  for (auto& [place, node] : lowered) graph.nodes[place] = std::move(node);
}

}  // namespace muster::compiler
