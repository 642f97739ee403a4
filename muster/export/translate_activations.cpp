#include <array>
#include <cmath>
#include <numbers>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

/// The input and what is made of it element by element: whatever the order of the axes, it stays.
class Elementwise {
 public:
  explicit Elementwise(Call& call)
      : call_(call),
        order_(call.to.order_of(call.id(0))),
        input_(call.operand(0, call.result().dtype, order_)) {}

  const std::string& input() const { return input_; }
  std::string op(const char* name, const std::string& a) { return call_.node(name, {a}); }
  std::string op(const char* name, const std::string& a, const std::string& b) {
    return call_.node(name, {a, b});
  }
  std::string op(const char* name, const std::string& a, double b) {
    return op(name, a, call_.scalar(b));
  }
  /// a * factor, or a where that is the same.
  std::string scaled(const std::string& a, double factor) {
    return factor == 1 ? a : op("Mul", a, factor);
  }
  void give(const std::string& node) { call_.give(node, order_); }

 private:
  Call& call_;
  Order order_;
  std::string input_;
};

// elu(x, alpha, scale, input_scale): scale * (x above 0, alpha * (exp(input_scale * x) - 1) below)
void exponential(Call& call, double alpha, double scale, double input_scale) {
  Elementwise x(call);
  if (alpha == 1 && input_scale == 1) return x.give(x.scaled(x.op("Elu", x.input()), scale));
  const auto below = x.op("Elu", x.scaled(x.op("Minimum", x.input(), 0.0), input_scale));
  const auto sum = x.op("AddV2", x.op("Relu", x.input()), x.scaled(below, alpha));
  x.give(x.scaled(sum, scale));
}

double number_or(Call& call, std::size_t index, double otherwise) {
  return index < call.count() ? call.number(index) : otherwise;
}

void elu(Call& call) {
  exponential(call, number_or(call, 1, 1), number_or(call, 2, 1), number_or(call, 3, 1));
}

void celu(Call& call) {
  const double alpha = call.number(1);
  exponential(call, alpha, 1, 1 / alpha);
}

void selu(Call& call) {
  Elementwise x(call);
  x.give(x.op("Selu", x.input()));
}

void gelu(Call& call) {
  Elementwise x(call);
  const bool approximate = call.count() > 1 && call.text(1) == "tanh";
  std::string part;
  if (approximate) {
    const auto cube = x.op("Mul", x.op("Square", x.input()), x.input());
    const auto sum = x.op("AddV2", x.input(), x.op("Mul", cube, 0.044715));
    part = x.op("Tanh", x.op("Mul", sum, std::sqrt(2 / std::numbers::pi)));
  } else {
    part = x.op("Erf", x.op("Mul", x.input(), std::numbers::sqrt2 / 2));
  }
  x.give(x.op("Mul", x.op("Mul", x.input(), 0.5), x.op("AddV2", part, 1.0)));
}

// Half of an axis times the sigmoid of the other half.
void glu(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  const auto place = place_of(order, call.axis(1, call.rank(0)));
  const auto halves = call.to.add("split", "Split", {call.int32(place), call.tensor(0, order)},
                                  {{"T", call.type()}, {"num_split", 2}});
  call.give(call.node("Mul", {halves, call.node("Sigmoid", {halves + ":1"})}), order);
}

std::string hard_gate(Elementwise& x) {
  return x.op("Mul", x.op("Relu6", x.op("AddV2", x.input(), 3.0)), 1.0 / 6);
}

void hardsigmoid(Call& call) {
  Elementwise x(call);
  x.give(hard_gate(x));
}

void hardswish(Call& call) {
  Elementwise x(call);
  x.give(x.op("Mul", x.input(), hard_gate(x)));
}

void leaky_relu(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  call.give(call.to.add("LeakyRelu", "LeakyRelu", {call.tensor(0, order)},
                        {{"T", call.type()}, {"alpha", static_cast<float>(call.number(1))}}),
            order);
}

void log_sigmoid(Call& call) {
  Elementwise x(call);
  x.give(x.op("Neg", x.op("Softplus", x.op("Neg", x.input()))));
}

void mish(Call& call) {
  Elementwise x(call);
  x.give(x.op("Mul", x.input(), x.op("Tanh", x.op("Softplus", x.input()))));
}

// prelu(x, slope): one slope, or one a channel.
void prelu(Call& call) {
  const Order order =
      call.rank(0) > 1 ? with_axis_last(call.rank(0), 1) : identity_order(call.rank(0));
  const auto input = call.tensor(0, order);
  const auto below = call.node("Minimum", {input, call.scalar(0)});
  call.give(
      call.node("AddV2", {call.node("Relu", {input}), call.node("Mul", {below, call.tensor(1)})}),
      order);
}

void silu(Call& call) {
  Elementwise x(call);
  x.give(x.op("Mul", x.input(), x.op("Sigmoid", x.input())));
}

// softplus(x, beta, threshold): above the threshold libtorch gives x, which it nearly is.
void softplus(Call& call) {
  Elementwise x(call);
  const double beta = number_or(call, 1, 1);
  x.give(x.scaled(x.op("Softplus", x.scaled(x.input(), beta)), 1 / beta));
}

// threshold(x, limit, value): x above the limit, the value elsewhere.
void threshold(Call& call) {
  Elementwise x(call);
  const auto above = x.op("Greater", x.input(), call.number(1));
  x.give(call.node("SelectV2", {above, x.input(), call.scalar(call.number(2))}));
}

constexpr std::array kActivationsTranslations{
    OpTranslation{"aten::celu", "Elu, Minimum, Relu, Mul, AddV2", celu},
    OpTranslation{"aten::elu", "Elu, or with Minimum, Relu, Mul, AddV2", elu},
    OpTranslation{"aten::gelu", "Erf or Tanh, Square, Mul, AddV2", gelu},
    OpTranslation{"aten::glu", "Split, Sigmoid, Mul", glu},
    OpTranslation{"aten::hardsigmoid", "AddV2, Relu6, Mul", hardsigmoid},
    OpTranslation{"aten::hardswish", "AddV2, Relu6, Mul", hardswish},
    OpTranslation{"aten::leaky_relu", "LeakyRelu", leaky_relu},
    OpTranslation{"aten::log_sigmoid", "Neg, Softplus", log_sigmoid},
    OpTranslation{"aten::mish", "Softplus, Tanh, Mul", mish},
    OpTranslation{"aten::prelu", "Relu, Minimum, Mul, AddV2", prelu},
    OpTranslation{"aten::selu", "Selu", selu},
    OpTranslation{"aten::silu", "Sigmoid, Mul", silu},
    OpTranslation{"aten::softplus", "Softplus, Mul", softplus},
    OpTranslation{"aten::threshold", "Greater, SelectV2", threshold},
};

}  // namespace

std::span<const OpTranslation> activation_translations() { return kActivationsTranslations; }

}  // namespace muster::exporting
