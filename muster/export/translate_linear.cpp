#include <array>

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

void addmm(Call& call) {
  if (call.count() > 3) {
    call.require(call.number(3) == 1 && (call.count() < 5 || call.number(4) == 1),
                 "alpha and beta must be 1");
  }
  const auto multiplied = product(call, call.tensor(1), call.tensor(2), true);
  call.give(with_bias(call, multiplied, call.tensor(0), call.rank(0)));
}

void matmul(Call& call) {
  call.require(call.rank(0) >= 2 && call.rank(1) >= 2, "products of vectors are not translated");
  const bool matrices = call.rank(0) == 2 && call.rank(1) == 2;
  call.give(product(call, call.tensor(0), call.tensor(1), matrices));
}

std::string gathered(Call& call, const std::string& from, ValueId indices, std::int64_t axis) {
  return call.to.add(
      "GatherV2", "GatherV2",
      {from, call.to.get(indices),
       call.to.constant(graph::TensorValue::scalar(static_cast<std::int32_t>(axis)))},
      {{"Tparams", call.type()},
       {"Tindices", graph_type(call.to.value(indices).dtype)},
       {"Taxis", graph::DataType::kInt32},
       {"batch_dims", 0}});
}

void embedding(Call& call) { call.give(gathered(call, call.tensor(0), call.id(1), 0)); }

void index_select(Call& call) {
  call.give(gathered(call, call.tensor(0), call.id(2), call.axis(1, call.rank(0))));
}

constexpr std::array kTranslations{
    OpTranslation{"aten::addmm", "MatMul, BiasAdd or AddV2", addmm},
    OpTranslation{"aten::bmm", "BatchMatMulV2", matmul},
    OpTranslation{"aten::embedding", "GatherV2", embedding},
    OpTranslation{"aten::index_select", "GatherV2", index_select},
    OpTranslation{"aten::linear", "MatMul or BatchMatMulV2, BiasAdd", linear},
    OpTranslation{"aten::matmul", "MatMul or BatchMatMulV2", matmul},
    OpTranslation{"aten::mm", "MatMul", matmul},
};

}  // namespace

std::span<const OpTranslation> linear_translations() { return kTranslations; }

}  // namespace muster::exporting
