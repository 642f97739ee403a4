#include <algorithm>
#include <array>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

// Over `axes`, whatever order the input stands in.
void reduce(Call& call, const char* op, std::vector<std::int64_t> axes, bool keep) {
  const std::size_t rank = call.rank(0);
  for (auto& axis : axes) {
    if (axis < 0) axis += static_cast<std::int64_t>(rank);
  }
  if (axes.empty()) axes = identity_order(rank);
  const auto reduced = [&](std::int64_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  const Order order = call.to.order_of(call.id(0));
  std::vector<std::int64_t> places;
  Order left;
  for (std::size_t i = 0; i < rank; ++i) {
    if (reduced(order[i])) places.push_back(static_cast<std::int64_t>(i));
    if (keep) {
      left.push_back(order[i]);
    } else if (!reduced(order[i])) {
      const auto before = std::count_if(axes.begin(), axes.end(),
                                        [&](std::int64_t axis) { return axis < order[i]; });
      left.push_back(order[i] - before);
    }
  }
  call.give(call.to.add(op, op, {call.operand(0, call.result().dtype, order), call.to.ints(places)},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}, {"keep_dims", keep}}),
            left);
}

// mean(x, dtype) or mean(x, axes, keep, dtype)
template <const char* kOp>
void reduction(Call& call) {
  const bool with_axes = call.count() > 2 && (call.is_list(1) || call.is_none(1));
  if (!with_axes || call.is_none(1)) return reduce(call, kOp, {}, with_axes && call.truth(2));
  reduce(call, kOp, call.integers(1), call.truth(2));
}

void argmax(Call& call) {
  call.require(!call.is_none(1), "it needs an axis");
  const std::int64_t axis = call.axis(1, call.rank(0));
  auto found =
      call.to.add("ArgMax", "ArgMax",
                  {call.tensor(0),
                   call.to.constant(graph::TensorValue::scalar(static_cast<std::int32_t>(axis)))},
                  {{"T", graph_type(call.value(0).dtype)},
                   {"Tidx", DataType::kInt32},
                   {"output_type", DataType::kInt64}});
  if (call.truth(2)) {
    found = call.to.add(
        "ExpandDims", "ExpandDims",
        {found, call.to.constant(graph::TensorValue::scalar(static_cast<std::int32_t>(axis)))},
        {{"T", DataType::kInt64}, {"Tdim", DataType::kInt32}});
  }
  call.give(found);
}

constexpr char kMax[] = "Max", kMean[] = "Mean", kMin[] = "Min", kSum[] = "Sum";

constexpr std::array kTranslations{
    OpTranslation{"aten::amax", "Max", reduction<kMax>},
    OpTranslation{"aten::amin", "Min", reduction<kMin>},
    OpTranslation{"aten::argmax", "ArgMax, ExpandDims", argmax},
    OpTranslation{"aten::mean", "Mean", reduction<kMean>},
    OpTranslation{"aten::sum", "Sum", reduction<kSum>},
};

}  // namespace

std::span<const OpTranslation> reduction_translations() { return kTranslations; }

}  // namespace muster::exporting
