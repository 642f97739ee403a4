#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

const Order kSwapped{1, 0};

std::string product(Call& call, const std::string& a, const std::string& b, bool matrices) {
  if (matrices) {
    return call.to.add("MatMul", "MatMul", {a, b},
                       {{"T", call.type()}, {"transpose_a", false}, {"transpose_b", false}});
  }
  return call.to.add("MatMul", "BatchMatMulV2", {a, b},
                     {{"T", call.type()}, {"adj_x", false}, {"adj_y", false}});
}

std::string with_bias(Call& call, const std::string& input, const std::string& bias,
                      std::size_t bias_rank) {
  if (bias_rank == 1) {
    return call.to.add("BiasAdd", "BiasAdd", {input, bias},
                       {{"T", call.type()}, {"data_format", "NHWC"}});
  }
  return call.to.add("add", "AddV2", {input, bias}, {{"T", call.type()}});
}

void linear(Call& call) {
  call.require(call.rank(0) >= 2, "its input has no rows");
  const auto multiplied =
      product(call, call.tensor(0), call.tensor(1, kSwapped), call.rank(0) == 2);
  if (call.is_none(2)) return call.give(multiplied);
  call.give(with_bias(call, multiplied, call.tensor(2), 1));
}

// beta * a + alpha * b * c, with the arguments a, b, c, beta, alpha
void add_product(Call& call) {
  const double beta = call.count() > 3 ? call.number(3) : 1;
  const double alpha = call.count() > 4 ? call.number(4) : 1;
  const auto scaled = [&](const std::string& node, double factor) {
    return factor == 1 ? node : call.node("Mul", {node, call.scalar(factor)});
  };
  const auto multiplied = product(call, call.tensor(1), call.tensor(2), call.rank(1) == 2);
  call.give(with_bias(call, scaled(multiplied, alpha), scaled(call.tensor(0), beta),
                      beta == 1 && alpha == 1 ? call.rank(0) : 0));
}

// A vector instead of a matrix has one row, or as the second factor one column.
std::string as_matrix(Call& call, std::size_t index) {
  const auto node = call.tensor(index);
  if (call.rank(index) > 1) return node;
  const Size size = call.value(index).sizes.at(0);
  return call.reshaped(node, index == 0 ? std::vector{Size{1}, size} : std::vector{size, Size{1}});
}

void matmul(Call& call) {
  call.require(call.rank(0) >= 1 && call.rank(1) >= 1, "a factor is a number");
  const bool vectors = call.rank(0) == 1 || call.rank(1) == 1;
  const bool matrices = call.rank(0) <= 2 && call.rank(1) <= 2;
  const auto multiplied = product(call, as_matrix(call, 0), as_matrix(call, 1), matrices);
  call.give(vectors ? call.reshaped(multiplied, call.result().sizes) : multiplied);
}

// TensorFlow wants the result spelled out, and no blanks.
std::string whole_equation(std::string equation) {
  std::erase(equation, ' ');
  if (equation.find("->") != std::string::npos) return equation;
  std::map<char, int> letters;
  for (const char letter : equation) {
    if (std::isalpha(static_cast<unsigned char>(letter)) != 0) ++letters[letter];
  }
  std::string result = equation.find("...") == std::string::npos ? "" : "...";
  for (const auto& [letter, times] : letters) {
    if (times == 1) result += letter;
  }
  return equation + "->" + result;
}

void einsum(Call& call) {
  const auto operands = call.ids(1);
  call.require(operands.size() <= 2, "TensorFlow's einsum takes one or two tensors");
  std::vector<std::string> inputs;
  for (const ValueId id : operands) inputs.push_back(call.to.get(id));
  call.give(call.to.add("Einsum", "Einsum", std::move(inputs),
                        {{"equation", whole_equation(call.text(0))},
                         {"N", static_cast<std::int64_t>(operands.size())},
                         {"T", call.type()}}));
}

constexpr std::array kLinearTranslations{
    OpTranslation{"aten::addmm", "MatMul, BiasAdd or AddV2, Mul", add_product},
    OpTranslation{"aten::baddbmm", "BatchMatMulV2, AddV2, Mul", add_product},
    OpTranslation{"aten::bmm", "BatchMatMulV2", matmul},
    OpTranslation{"aten::einsum", "Einsum", einsum},
    OpTranslation{"aten::linear", "MatMul or BatchMatMulV2, BiasAdd", linear},
    OpTranslation{"aten::matmul", "MatMul or BatchMatMulV2, Reshape", matmul},
    OpTranslation{"aten::mm", "MatMul", matmul},
    OpTranslation{"aten::mv", "MatMul, Reshape", matmul},
};

}  // namespace

std::span<const OpTranslation> linear_translations() { return kLinearTranslations; }

}  // namespace muster::exporting
