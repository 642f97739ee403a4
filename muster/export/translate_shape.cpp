#include <torch/types.h>

#include <algorithm>
#include <array>
#include <limits>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

// view, reshape, flatten, squeeze, ...: the traced result tells the sizes.
void reshape(Call& call) {
  if (call.value(0).sizes == call.result().sizes) {
    return call.to.set_permuted(call.result_id(), call.id(0), identity_order(call.rank(0)));
  }
  call.give(call.to.add("Reshape", "Reshape",
                        {call.tensor(0), call.to.reshape_vector(call.result().sizes)},
                        {{"T", call.type()}, {"Tshape", DataType::kInt32}}));
}

void permute(Call& call) {
  Order axes = call.integers(1);
  for (auto& axis : axes) {
    if (axis < 0) axis += static_cast<std::int64_t>(axes.size());
  }
  call.to.set_permuted(call.result_id(), call.id(0), axes);
}

void transpose(Call& call) {
  const std::size_t rank = call.rank(0);
  Order axes = identity_order(rank);
  std::swap(axes[static_cast<std::size_t>(call.axis(1, rank))],
            axes[static_cast<std::size_t>(call.axis(2, rank))]);
  call.to.set_permuted(call.result_id(), call.id(0), axes);
}

void t(Call& call) {
  Order axes = identity_order(call.rank(0));
  std::reverse(axes.begin(), axes.end());
  call.to.set_permuted(call.result_id(), call.id(0), axes);
}

std::int64_t place_of(const Order& order, std::int64_t axis) {
  return std::find(order.begin(), order.end(), axis) - order.begin();
}

void cat(Call& call) {
  const auto ids = call.ids(0);
  const std::int64_t axis = call.axis(1, call.result().sizes.size());
  const Order order = call.to.order_of(ids.front());
  std::vector<std::string> inputs;
  for (const ValueId id : ids) {
    inputs.push_back(
        call.to.cast(call.to.get(id, order), graph_type(call.to.value(id).dtype), call.type()));
  }
  if (inputs.size() == 1) return call.give(inputs[0], order);
  const auto count = static_cast<std::int64_t>(inputs.size());
  inputs.push_back(call.to.constant(
      graph::TensorValue::scalar(static_cast<std::int32_t>(place_of(order, axis)))));
  call.give(call.to.add("concat", "ConcatV2", std::move(inputs),
                        {{"N", count}, {"T", call.type()}, {"Tidx", DataType::kInt32}}),
            order);
}

void stack(Call& call) {
  const auto ids = call.ids(0);
  std::vector<std::string> inputs;
  for (const ValueId id : ids) inputs.push_back(call.to.get(id));
  const auto count = static_cast<std::int64_t>(inputs.size());
  call.give(call.to.add(
      "stack", "Pack", std::move(inputs),
      {{"N", count}, {"T", call.type()}, {"axis", call.axis(1, call.result().sizes.size())}}));
}

/// A part of one axis; `shrink` takes the axis away.
std::string strided(Call& call, std::int64_t axis, std::int64_t begin,
                    std::optional<std::int64_t> end, std::int64_t step, bool shrink) {
  const std::size_t rank = call.rank(0);
  std::vector<std::int64_t> begins(rank, 0);
  std::vector<std::int64_t> ends(rank, 0);
  std::vector<std::int64_t> steps(rank, 1);
  const auto place = static_cast<std::size_t>(axis);
  begins[place] = begin;
  ends[place] = end.value_or(0);
  steps[place] = step;
  const std::int64_t whole = ((std::int64_t{1} << rank) - 1) & ~(std::int64_t{1} << axis);
  return call.to.add(
      "strided_slice", "StridedSlice",
      {call.tensor(0), call.to.ints(begins), call.to.ints(ends), call.to.ints(steps)},
      {{"T", call.type()},
       {"Index", DataType::kInt32},
       {"begin_mask", whole},
       {"end_mask", end ? whole : whole | (std::int64_t{1} << axis)},
       {"ellipsis_mask", 0},
       {"new_axis_mask", 0},
       {"shrink_axis_mask", shrink ? std::int64_t{1} << axis : 0}});
}

void slice(Call& call) {
  const std::int64_t axis = call.axis(1, call.rank(0));
  const std::int64_t begin = call.is_none(2) ? 0 : call.integer(2);
  const std::int64_t step = call.integer(4);
  if (call.value(0).sizes == call.result().sizes && step == 1) return reshape(call);
  std::optional<std::int64_t> end;
  if (!call.is_none(3)) end = call.integer(3);
  const Size size = call.value(0).sizes[static_cast<std::size_t>(axis)];
  if (end && (*end > std::numeric_limits<std::int32_t>::max() ||
              (!size.follows_batch() && *end >= size.constant))) {
    end.reset();
  }
  call.give(strided(call, axis, begin, end, step, false));
}

void narrow(Call& call) {
  if (call.value(0).sizes == call.result().sizes) return reshape(call);
  const std::int64_t axis = call.axis(1, call.rank(0));
  const std::int64_t begin = call.integer(2);
  call.give(strided(call, axis, begin, begin + call.integer(3), 1, false));
}

void select(Call& call) {
  const std::int64_t index = call.integer(2);
  // The end is not looked at where the axis goes away, but must not be before the beginning.
  call.give(strided(call, call.axis(1, call.rank(0)), index,
                    index == -1 ? std::nullopt : std::optional(index + 1), 1, true));
}

void pad(Call& call, std::size_t value_at) {
  const std::size_t rank = call.rank(0);
  const auto pads = call.integers(1);
  std::vector<std::int32_t> both(rank * 2, 0);
  for (std::size_t i = 0; i + 1 < pads.size(); i += 2) {
    const std::size_t axis = rank - 1 - i / 2;
    call.require(pads[i] >= 0 && pads[i + 1] >= 0, "negative padding cuts");
    both[axis * 2] = static_cast<std::int32_t>(pads[i]);
    both[axis * 2 + 1] = static_cast<std::int32_t>(pads[i + 1]);
  }
  const Order order = call.to.order_of(call.id(0));
  std::vector<std::int32_t> ordered;
  for (const std::int64_t axis : order) {
    ordered.push_back(both[static_cast<std::size_t>(axis) * 2]);
    ordered.push_back(both[static_cast<std::size_t>(axis) * 2 + 1]);
  }
  const auto paddings = call.to.constant(graph::TensorValue::of<std::int32_t>(
      {static_cast<std::int64_t>(rank), 2}, std::span<const std::int32_t>(ordered)));
  const bool zero =
      value_at >= call.count() || call.is_none(value_at) || call.number(value_at) == 0;
  if (zero) {
    return call.give(call.to.add("Pad", "Pad", {call.tensor(0, order), paddings},
                                 {{"T", call.type()}, {"Tpaddings", DataType::kInt32}}),
                     order);
  }
  call.give(
      call.to.add("PadV2", "PadV2",
                  {call.tensor(0, order), paddings, call.operand(value_at, call.result().dtype)},
                  {{"T", call.type()}, {"Tpaddings", DataType::kInt32}}),
      order);
}

void constant_pad_nd(Call& call) { pad(call, 2); }

void pad_with_mode(Call& call) {
  call.require(call.text(2) == "constant", "only padding with a constant is translated");
  pad(call, 3);
}

void expand(Call& call) {
  if (call.value(0).sizes == call.result().sizes) return reshape(call);
  call.give(call.to.add("BroadcastTo", "BroadcastTo",
                        {call.tensor(0), call.to.shape_vector(call.result().sizes)},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}}));
}

void filled(Call& call, double value) {
  const auto number =
      call.to.constant(graph_value(torch::scalar_tensor(value, call.result().dtype)));
  call.give(call.to.add("Fill", "Fill", {call.to.shape_vector(call.result().sizes), number},
                        {{"T", call.type()}, {"index_type", DataType::kInt32}}));
}

void zeros(Call& call) { filled(call, 0); }
void ones(Call& call) { filled(call, 1); }
void full(Call& call) { filled(call, call.number(1)); }

// With one, two or three numbers in front of the options, which are dtype, layout, device, pin.
void arange(Call& call) {
  constexpr std::size_t kOptions = 4;
  call.require(call.count() > kOptions && call.count() <= kOptions + 3, "its form is unknown");
  const std::size_t numbers = call.count() - kOptions;
  const double begin = numbers == 1 ? 0 : call.number(0);
  const double end = call.number(numbers == 1 ? 0 : 1);
  const double step = numbers == 3 ? call.number(2) : 1;
  call.give(call.to.constant(
      graph_value(torch::arange(begin, end, step, torch::kDouble).to(call.result().dtype))));
}

constexpr std::array kTranslations{
    OpTranslation{"aten::arange", "Const", arange},
    OpTranslation{"aten::cat", "ConcatV2", cat},
    OpTranslation{"aten::constant_pad_nd", "Pad or PadV2", constant_pad_nd},
    OpTranslation{"aten::expand", "BroadcastTo", expand},
    OpTranslation{"aten::flatten", "Reshape", reshape},
    OpTranslation{"aten::full", "Fill", full},
    OpTranslation{"aten::narrow", "StridedSlice", narrow},
    OpTranslation{"aten::ones", "Fill", ones},
    OpTranslation{"aten::pad", "Pad or PadV2", pad_with_mode},
    OpTranslation{"aten::permute", "Transpose, where needed", permute},
    OpTranslation{"aten::reshape", "Reshape", reshape},
    OpTranslation{"aten::select", "StridedSlice", select},
    OpTranslation{"aten::slice", "StridedSlice", slice},
    OpTranslation{"aten::squeeze", "Reshape", reshape},
    OpTranslation{"aten::stack", "Pack", stack},
    OpTranslation{"aten::t", "Transpose, where needed", t},
    OpTranslation{"aten::transpose", "Transpose, where needed", transpose},
    OpTranslation{"aten::unflatten", "Reshape", reshape},
    OpTranslation{"aten::unsqueeze", "Reshape", reshape},
    OpTranslation{"aten::view", "Reshape", reshape},
    OpTranslation{"aten::zeros", "Fill", zeros},
};

}  // namespace

std::span<const OpTranslation> shape_translations() { return kTranslations; }

}  // namespace muster::exporting
