#include <algorithm>
#include <array>

#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

const Order kSwapped{1, 0};

void matrix_product(Call& call) {
  const bool first = call.attr_or("transpose_a", false);
  const bool second = call.attr_or("transpose_b", false);
  const auto a = call.input(0, first ? kSwapped : Order{});
  const auto b = call.input(1, second ? kSwapped : Order{});
  call.give(call.last("MatMul", {a, b}), call.type(), 2);
}

// The order with the last two axes swapped.
Order swapped(Call& call, std::size_t index) {
  const auto rank = call.held(index).rank;
  call.require(rank && *rank >= 2, "the rank of what it transposes is unknown");
  Order order = full_order({}, *rank);
  std::swap(order[*rank - 1], order[*rank - 2]);
  return order;
}

void batch_product(Call& call) {
  const auto a = call.input(0, call.attr_or("adj_x", false) ? swapped(call, 0) : Order{});
  const auto b = call.input(1, call.attr_or("adj_y", false) ? swapped(call, 1) : Order{});
  const auto rank = call.held(0).rank;
  const auto other = call.held(1).rank;
  call.give(call.last("MatMul", {a, b}), call.type(),
            rank && other ? std::optional(std::max(*rank, *other)) : std::nullopt);
}

void einsum(Call& call) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < call.count(); ++i) inputs.push_back(call.input(i));
  call.give(call.last("Einsum", std::move(inputs),
                      {{"equation", graph::attr<std::string>(call.node, "equation")}}),
            call.type());
}

constexpr std::array kLinearConversions{
    OpConversion{"BatchMatMul", "MatMul", batch_product},
    OpConversion{"BatchMatMulV2", "MatMul", batch_product},
    OpConversion{"Einsum", "Einsum", einsum},
    OpConversion{"MatMul", "MatMul", matrix_product},
};

}  // namespace

std::span<const OpConversion> linear_conversions() { return kLinearConversions; }

}  // namespace muster::onnx
