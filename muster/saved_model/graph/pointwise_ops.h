#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

/// Operations on elements that have one name each in libtorch, TensorFlow and ONNX. Models are
/// translated from the first to the second and from that to the third by these tables; whatever
/// takes more than one operation is written out beside the translation.
namespace muster::graph {

struct PointwiseOp {
  /// Empty where the name is not translated, or by a function of its own.
  std::string_view aten;
  std::string_view tensorflow;
  /// Empty where the operation is converted by a function of its own.
  std::string_view onnx;
};

/// One tensor in, one of its type out.
inline constexpr std::array kUnaryOps{
    PointwiseOp{"aten::abs", "Abs", "Abs"},
    PointwiseOp{"aten::ceil", "Ceil", "Ceil"},
    PointwiseOp{"aten::cos", "Cos", "Cos"},
    PointwiseOp{"", "Elu", "Elu"},
    PointwiseOp{"aten::erf", "Erf", "Erf"},
    PointwiseOp{"aten::exp", "Exp", "Exp"},
    PointwiseOp{"aten::expm1", "Expm1", ""},
    PointwiseOp{"aten::floor", "Floor", "Floor"},
    PointwiseOp{"aten::log", "Log", "Log"},
    PointwiseOp{"aten::log1p", "Log1p", ""},
    PointwiseOp{"aten::neg", "Neg", "Neg"},
    PointwiseOp{"aten::ones_like", "OnesLike", ""},
    PointwiseOp{"aten::reciprocal", "Reciprocal", "Reciprocal"},
    PointwiseOp{"aten::relu", "Relu", "Relu"},
    PointwiseOp{"aten::relu6", "Relu6", ""},
    PointwiseOp{"aten::round", "Round", "Round"},
    PointwiseOp{"aten::rsqrt", "Rsqrt", ""},
    PointwiseOp{"", "Selu", "Selu"},
    PointwiseOp{"aten::sigmoid", "Sigmoid", "Sigmoid"},
    PointwiseOp{"aten::sign", "Sign", "Sign"},
    PointwiseOp{"aten::sin", "Sin", "Sin"},
    PointwiseOp{"", "Softplus", "Softplus"},
    PointwiseOp{"", "Softsign", "Softsign"},
    PointwiseOp{"aten::sqrt", "Sqrt", "Sqrt"},
    PointwiseOp{"aten::square", "Square", ""},
    PointwiseOp{"aten::tanh", "Tanh", "Tanh"},
    PointwiseOp{"aten::zeros_like", "ZerosLike", ""},
};

/// Two tensors in, one of their type out.
inline constexpr std::array kArithmeticOps{
    PointwiseOp{"", "Add", "Add"},
    PointwiseOp{"", "AddV2", "Add"},
    PointwiseOp{"aten::floor_divide", "FloorDiv", ""},
    PointwiseOp{"aten::maximum", "Maximum", "Max"},
    PointwiseOp{"aten::minimum", "Minimum", "Min"},
    PointwiseOp{"aten::mul", "Mul", "Mul"},
    PointwiseOp{"aten::pow", "Pow", "Pow"},
    PointwiseOp{"aten::remainder", "FloorMod", ""},
    PointwiseOp{"", "Sub", "Sub"},
};

/// Two tensors in, truth values out.
inline constexpr std::array kComparisonOps{
    PointwiseOp{"aten::eq", "Equal", ""},
    PointwiseOp{"aten::ge", "GreaterEqual", "GreaterOrEqual"},
    PointwiseOp{"aten::gt", "Greater", "Greater"},
    PointwiseOp{"aten::le", "LessEqual", "LessOrEqual"},
    PointwiseOp{"aten::lt", "Less", "Less"},
    PointwiseOp{"aten::ne", "NotEqual", ""},
};

/// One tensor of numbers in, truth values out.
inline constexpr std::array kPredicateOps{
    PointwiseOp{"aten::isfinite", "IsFinite", ""},
    PointwiseOp{"aten::isinf", "IsInf", "IsInf"},
    PointwiseOp{"aten::isnan", "IsNan", "IsNaN"},
};

/// Two tensors of truth values in, one out.
inline constexpr std::array kLogicalOps{
    PointwiseOp{"aten::__and__", "LogicalAnd", ""},
    PointwiseOp{"aten::__or__", "LogicalOr", ""},
    PointwiseOp{"aten::bitwise_and", "LogicalAnd", ""},
    PointwiseOp{"aten::bitwise_or", "LogicalOr", ""},
    PointwiseOp{"aten::logical_and", "LogicalAnd", "And"},
    PointwiseOp{"aten::logical_or", "LogicalOr", "Or"},
    PointwiseOp{"", "LogicalXor", "Xor"},
};

/// Probabilities along one axis.
inline constexpr std::array kSoftmaxOps{
    PointwiseOp{"aten::log_softmax", "LogSoftmax", "LogSoftmax"},
    PointwiseOp{"aten::softmax", "Softmax", "Softmax"},
};

/// Calls visit.operator()<row>() for each of this many rows.
template <std::size_t kCount, typename Visit>
void for_each_row(Visit&& visit) {
  [&]<std::size_t... kRow>(std::index_sequence<kRow...>) {
    (visit.template operator()<kRow>(), ...);
  }
  (std::make_index_sequence<kCount>());
}

}  // namespace muster::graph
