#include <algorithm>
#include <array>

#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::DataType;

/// Which axes of the value are reduced, and what is left of its order.
struct Reduction {
  std::vector<std::int64_t> places{};
  Order left{};
  std::optional<std::size_t> rank{};
};

Reduction over_axes(Call& call, std::vector<std::int64_t> axes, bool keep) {
  const Order order = call.to.order_of(call.tensor(0));
  const auto rank = call.held(0).rank;
  Reduction made;
  for (auto& axis : axes) {
    if (axis < 0 && rank) axis += static_cast<std::int64_t>(*rank);
    made.places.push_back(call.place_of(axis, order, rank));
  }
  std::sort(made.places.begin(), made.places.end());
  if (rank) made.rank = keep ? *rank : *rank - std::min(*rank, axes.size());
  if (order.empty() || keep) {
    made.left = order;
    return made;
  }
  for (const std::int64_t axis : order) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    const auto before =
        std::count_if(axes.begin(), axes.end(), [&](std::int64_t other) { return other < axis; });
    made.left.push_back(axis - before);
  }
  return made;
}

std::string reduced(Call& call, std::string_view op, const std::string& input,
                    const Reduction& over, bool keep) {
  Attributes attributes{{"keepdims", std::int64_t{keep}}};
  std::vector<std::string> inputs{input};
  // Only this one takes the axes as an input.
  if (op == "ReduceSum") {
    inputs.push_back(call.to.ints(over.places));
  } else {
    attributes.emplace("axes", over.places);
  }
  return call.last(op, std::move(inputs), std::move(attributes));
}

template <const char* kOp>
void reduction(Call& call) {
  const bool keep = call.attr_or("keep_dims", false);
  const auto axes = call.numbers(1, "axes");
  if (axes.empty()) {
    Held held = call.held(0);
    return call.to.hold(call.node.name, std::move(held));
  }
  const Reduction over = over_axes(call, axes, keep);
  const auto input = call.input(0, call.to.order_of(call.tensor(0)));
  call.give(reduced(call, kOp, input, over, keep), call.type(), over.rank, over.left);
}

template <const char* kOp>
void arg(Call& call) {
  const Reduction over = over_axes(call, {call.number(1, "axis")}, false);
  const auto input = call.input(0, call.to.order_of(call.tensor(0)));
  const Attributes attributes{{"axis", over.places.at(0)}, {"keepdims", std::int64_t{0}}};
  const auto type = call.attr_or("output_type", DataType::kInt64);
  if (type == DataType::kInt64) {
    return call.give(call.last(kOp, {input}, attributes), type, over.rank, over.left);
  }
  const auto found = call.add(kOp, {input}, attributes);
  call.give(call.to.cast(call.node.name, found, type), type, over.rank, over.left);
}

// Reduction of booleans, which ONNX reduces as numbers.
template <const char* kOp>
void truths(Call& call) {
  const bool keep = call.attr_or("keep_dims", false);
  const Reduction over = over_axes(call, call.numbers(1, "axes"), keep);
  const Order order = call.to.order_of(call.tensor(0));
  const auto numbers =
      call.to.cast(call.node.name + "/int32", call.input(0, order), DataType::kInt32);
  const auto found =
      call.add(kOp, {numbers}, {{"axes", over.places}, {"keepdims", std::int64_t{keep}}});
  call.give(call.to.cast(call.node.name, found, DataType::kBool), DataType::kBool, over.rank,
            over.left);
}

void cumsum(Call& call) {
  const Order order = call.to.order_of(call.tensor(0));
  const auto rank = call.held(0).rank;
  const auto axis = call.to.constant(
      graph::TensorValue::scalar(call.place_of(call.number(1, "axis"), order, rank)));
  call.give(call.last("CumSum", {call.input(0, order), axis},
                      {{"exclusive", std::int64_t{call.attr_or("exclusive", false)}},
                       {"reverse", std::int64_t{call.attr_or("reverse", false)}}}),
            call.type(), rank, order);
}

// The largest of the last axis, sorted, and where they were.
void top_k(Call& call) {
  const auto count =
      call.constant(1) != nullptr
          ? call.to.ints({call.number(1, "k")})
          : call.add("Reshape", {call.to.get_wide(call.tensor(1)), call.to.ints({1})});
  const auto rank = call.held(0).rank;
  const auto found = call.to.add_several(call.node.name, "TopK", {call.input(0), count}, 2,
                                         {{"axis", std::int64_t{-1}}});
  call.give(found[0], call.type(), rank);
  call.to.hold(call.node.name + ":1", {.type = DataType::kInt32, .rank = rank, .wide = found[1]});
}

constexpr char kArgMax[] = "ArgMax", kArgMin[] = "ArgMin", kReduceMax[] = "ReduceMax",
               kReduceMean[] = "ReduceMean", kReduceMin[] = "ReduceMin",
               kReduceProd[] = "ReduceProd", kReduceSum[] = "ReduceSum";

constexpr std::array kReductionsConversions{
    OpConversion{"All", "Cast, ReduceMin", truths<kReduceMin>},
    OpConversion{"Any", "Cast, ReduceMax", truths<kReduceMax>},
    OpConversion{"ArgMax", "ArgMax", arg<kArgMax>},
    OpConversion{"ArgMin", "ArgMin", arg<kArgMin>},
    OpConversion{"Cumsum", "CumSum", cumsum},
    OpConversion{"Max", "ReduceMax", reduction<kReduceMax>},
    OpConversion{"Mean", "ReduceMean", reduction<kReduceMean>},
    OpConversion{"Min", "ReduceMin", reduction<kReduceMin>},
    OpConversion{"Prod", "ReduceProd", reduction<kReduceProd>},
    OpConversion{"Sum", "ReduceSum", reduction<kReduceSum>},
    OpConversion{"TopKV2", "TopK", top_k},
};

}  // namespace

std::span<const OpConversion> reduction_conversions() { return kReductionsConversions; }

}  // namespace muster::onnx
