#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;

// view, reshape, flatten, squeeze, ...: the traced result tells the sizes.
void reshape(Call& call) {
  if (call.value(0).sizes == call.result().sizes) {
    return call.to.set_permuted(call.result_id(), call.id(0), identity_order(call.rank(0)));
  }
  call.give(call.reshaped(call.tensor(0), call.result().sizes));
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

// mT: the last two axes
void transpose_matrices(Call& call) {
  Order axes = identity_order(call.rank(0));
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  call.to.set_permuted(call.result_id(), call.id(0), axes);
}

void t(Call& call) {
  Order axes = identity_order(call.rank(0));
  std::reverse(axes.begin(), axes.end());
  call.to.set_permuted(call.result_id(), call.id(0), axes);
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
  for (const ValueId id : ids) {
    inputs.push_back(
        call.to.cast(call.to.get(id), graph_type(call.to.value(id).dtype), call.type()));
  }
  const auto count = static_cast<std::int64_t>(inputs.size());
  call.give(call.to.add(
      "stack", "Pack", std::move(inputs),
      {{"N", count}, {"T", call.type()}, {"axis", call.axis(1, call.result().sizes.size())}}));
}

/// Gives a part of one axis; `shrink` takes the axis away.
void give_strided(Call& call, std::int64_t axis, std::int64_t begin,
                  std::optional<std::int64_t> end, std::int64_t step, bool shrink) {
  const std::size_t rank = call.rank(0);
  const Order order = call.to.order_of(call.id(0));
  const auto place = static_cast<std::size_t>(place_of(order, axis));
  std::vector<std::int64_t> begins(rank, 0);
  std::vector<std::int64_t> ends(rank, 0);
  std::vector<std::int64_t> steps(rank, 1);
  begins[place] = begin;
  ends[place] = end.value_or(0);
  steps[place] = step;
  const std::int64_t bit = std::int64_t{1} << place;
  const std::int64_t whole = ((std::int64_t{1} << rank) - 1) & ~bit;
  const auto part = call.to.add(
      "strided_slice", "StridedSlice",
      {call.tensor(0, order), call.to.ints(begins), call.to.ints(ends), call.to.ints(steps)},
      {{"T", call.type()},
       {"Index", DataType::kInt32},
       {"begin_mask", whole},
       {"end_mask", end ? whole : whole | bit},
       {"ellipsis_mask", 0},
       {"new_axis_mask", 0},
       {"shrink_axis_mask", shrink ? bit : 0}});
  call.give(part, shrink ? without_axis(order, axis) : order);
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
  give_strided(call, axis, begin, end, step, false);
}

void narrow(Call& call) {
  if (call.value(0).sizes == call.result().sizes) return reshape(call);
  const std::int64_t axis = call.axis(1, call.rank(0));
  const std::int64_t begin = call.integer(2);
  give_strided(call, axis, begin, begin + call.integer(3), 1, false);
}

void select(Call& call) {
  const std::int64_t index = call.integer(2);
  // The end is not looked at where the axis goes away, but must not be before the beginning.
  give_strided(call, call.axis(1, call.rank(0)), index,
               index == -1 ? std::nullopt : std::optional(index + 1), 1, true);
}

void pad(Call& call, std::size_t value_at) {
  const std::size_t rank = call.rank(0);
  const auto pads = call.integers(1);
  std::vector<std::int64_t> both(rank * 2, 0);
  for (std::size_t i = 0; i + 1 < pads.size(); i += 2) {
    const std::size_t axis = rank - 1 - i / 2;
    call.require(pads[i] >= 0 && pads[i + 1] >= 0, "negative padding cuts");
    both[axis * 2] = pads[i];
    both[axis * 2 + 1] = pads[i + 1];
  }
  const Order order = call.to.order_of(call.id(0));
  std::vector<std::int64_t> ordered;
  for (const std::int64_t axis : order) {
    ordered.push_back(both[static_cast<std::size_t>(axis) * 2]);
    ordered.push_back(both[static_cast<std::size_t>(axis) * 2 + 1]);
  }
  const bool given = value_at < call.count() && !call.is_none(value_at);
  call.give(call.padded(call.tensor(0, order), ordered, given ? call.number(value_at) : 0), order);
}

void constant_pad_nd(Call& call) { pad(call, 2); }

void pad_with_mode(Call& call) {
  call.require(call.text(2) == "constant", "only padding with a constant is translated");
  pad(call, 3);
}

// _pad_enum(x, amounts, mode, value), with the place of a mode in at::padding_mode
void pad_with_number(Call& call) {
  constexpr std::int64_t kConstant = 3;
  call.require(call.integer(2) == kConstant, "only padding with a constant is translated");
  pad(call, 3);
}

void expand(Call& call) {
  if (call.value(0).sizes == call.result().sizes) return reshape(call);
  call.give(call.to.add("BroadcastTo", "BroadcastTo",
                        {call.tensor(0), call.to.shape_vector(call.result().sizes)},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}}));
}

void filled(Call& call, double value) {
  call.give(call.to.add("Fill", "Fill",
                        {call.to.shape_vector(call.result().sizes), call.scalar(value)},
                        {{"T", call.type()}, {"index_type", DataType::kInt32}}));
}

void zeros(Call& call) { filled(call, 0); }
void ones(Call& call) { filled(call, 1); }
// full(sizes, value, ...) and full_like(x, value, ...)
void full(Call& call) { filled(call, call.number(1)); }
void new_full(Call& call) { filled(call, call.number(2)); }

// `1 - x` is traced as a tensor like x, one full of 1 in its place, minus x. What an empty one
// holds before, no model may read: it might as well be x.
void empty_like(Call& call) {
  call.to.set_permuted(call.result_id(), call.id(0), identity_order(call.rank(0)));
}

// split(x, size or sizes, axis), chunk(x, parts, axis): the results tell the sizes.
void split(Call& call) {
  const std::int64_t axis = call.axis(2, call.rank(0));
  const auto along = static_cast<std::size_t>(axis);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < call.results(); ++i) {
    const Size size = call.result(i).sizes[along];
    call.require(!size.follows_batch(), "it splits the rows of the batch");
    sizes.push_back(size.constant);
  }
  const Order order = call.to.order_of(call.id(0));
  const auto input = call.tensor(0, order);
  const auto place = call.int32(place_of(order, axis));
  const auto parts = static_cast<std::int64_t>(sizes.size());
  const bool even = std::count(sizes.begin(), sizes.end(), sizes[0]) == parts;
  const auto node =
      even ? call.to.add("split", "Split", {place, input},
                         {{"T", call.type()}, {"num_split", parts}})
           : call.to.add("split", "SplitV", {input, call.to.ints(sizes), place},
                         {{"T", call.type()}, {"num_split", parts}, {"Tlen", DataType::kInt32}});
  call.give(node, order);
  for (std::size_t i = 1; i < call.results(); ++i) {
    call.give_one(i, fmt::format("{}:{}", node, i), order);
  }
}

// unbind(x, axis)
void unbind(Call& call) {
  const std::int64_t axis = call.axis(1, call.rank(0));
  call.require(!call.value(0).sizes[static_cast<std::size_t>(axis)].follows_batch(),
               "it takes the rows of the batch apart");
  const Order order = call.to.order_of(call.id(0));
  const auto node = call.to.add("unstack", "Unpack", {call.tensor(0, order)},
                                {{"T", call.type()},
                                 {"num", static_cast<std::int64_t>(call.results())},
                                 {"axis", place_of(order, axis)}});
  const Order left = without_axis(order, axis);
  call.give(node, left);
  for (std::size_t i = 1; i < call.results(); ++i) {
    call.give_one(i, fmt::format("{}:{}", node, i), left);
  }
}

// repeat(x, times): one number an axis, where there may be more axes than before.
void repeat(Call& call) {
  const auto times = call.integers(1);
  auto sizes = call.value(0).sizes;
  auto input = call.tensor(0);
  if (times.size() > sizes.size()) {
    sizes.insert(sizes.begin(), times.size() - sizes.size(), Size{1});
    input = call.reshaped(input, sizes);
  }
  call.give(call.to.add("Tile", "Tile", {input, call.to.ints(times)},
                        {{"T", call.type()}, {"Tmultiples", DataType::kInt32}}));
}

// flip(x, axes)
void flip(Call& call) {
  const Order order = call.to.order_of(call.id(0));
  std::vector<std::int64_t> places;
  for (const std::int64_t axis : call.integers(1)) {
    const auto rank = static_cast<std::int64_t>(call.rank(0));
    places.push_back(place_of(order, axis < 0 ? axis + rank : axis));
  }
  call.give(call.to.add("ReverseV2", "ReverseV2", {call.tensor(0, order), call.to.ints(places)},
                        {{"T", call.type()}, {"Tidx", DataType::kInt32}}),
            order);
}

// The part of a matrix on one side of a diagonal; the other is zero.
void triangle(Call& call, bool upper) {
  const auto& sizes = call.value(0).sizes;
  call.require(sizes.size() >= 2 && !sizes.back().follows_batch() &&
                   !sizes[sizes.size() - 2].follows_batch(),
               "the size of its matrices follows the batch");
  const auto ones = torch::ones({sizes[sizes.size() - 2].constant, sizes.back().constant});
  const auto mask = upper ? torch::triu(ones, call.integer(1)) : torch::tril(ones, call.integer(1));
  call.give(call.node("SelectV2", {call.to.constant(graph_value(mask.to(torch::kBool))),
                                   call.tensor(0), call.scalar(0)}));
}

void tril(Call& call) { triangle(call, /*upper=*/false); }
void triu(Call& call) { triangle(call, /*upper=*/true); }

// With one, two or three numbers in front of the options, which are dtype, layout, device, pin.
void arange(Call& call) {
  constexpr std::size_t kOptions = 4;
  call.require(call.count() > kOptions && call.count() <= kOptions + 3, "its form is unknown");
  const std::size_t numbers = call.count() - kOptions;
  const std::size_t end_at = numbers == 1 ? 0 : 1;
  const double begin = numbers == 1 ? 0 : call.number(0);
  const double step = numbers == 3 ? call.number(2) : 1;
  const auto* end = std::get_if<Size>(&call.argument(end_at));
  if (end != nullptr && end->follows_batch()) {
    call.require(begin == std::floor(begin) && step == std::floor(step),
                 "it counts rows in broken steps");
    const auto made =
        call.to.add("range", "Range",
                    {call.int32(static_cast<std::int64_t>(begin)), call.to.count(*end),
                     call.int32(static_cast<std::int64_t>(step))},
                    {{"Tidx", DataType::kInt32}});
    return call.give(call.to.cast(made, DataType::kInt32, call.type()));
  }
  call.give(call.to.constant(graph_value(
      torch::arange(begin, call.number(end_at), step, torch::kDouble).to(call.result().dtype))));
}

// movedim(x, from, to)
void movedim(Call& call) {
  const auto rank = static_cast<std::int64_t>(call.rank(0));
  auto from = call.integers(1);
  auto to = call.integers(2);
  Order axes(static_cast<std::size_t>(rank), -1);
  Order rest = identity_order(static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t source = from[i] < 0 ? from[i] + rank : from[i];
    axes[static_cast<std::size_t>(to[i] < 0 ? to[i] + rank : to[i])] = source;
    std::erase(rest, source);
  }
  auto next = rest.begin();
  for (auto& axis : axes) {
    if (axis < 0) axis = *next++;
  }
  call.to.set_permuted(call.result_id(), call.id(0), axes);
}

constexpr std::array kShapeTranslations{
    OpTranslation{"aten::_pad_enum", "Pad or PadV2", pad_with_number},
    OpTranslation{"aten::arange", "Const or Range", arange},
    OpTranslation{"aten::cat", "ConcatV2", cat},
    OpTranslation{"aten::chunk", "Split or SplitV", split},
    OpTranslation{"aten::constant_pad_nd", "Pad or PadV2", constant_pad_nd},
    OpTranslation{"aten::empty_like", "(nothing)", empty_like},
    OpTranslation{"aten::expand", "BroadcastTo", expand},
    OpTranslation{"aten::expand_as", "BroadcastTo", expand},
    OpTranslation{"aten::flatten", "Reshape", reshape},
    OpTranslation{"aten::flip", "ReverseV2", flip},
    OpTranslation{"aten::full", "Fill", full},
    OpTranslation{"aten::full_like", "Fill", full},
    OpTranslation{"aten::mT", "Transpose, where needed", transpose_matrices},
    OpTranslation{"aten::movedim", "Transpose, where needed", movedim},
    OpTranslation{"aten::narrow", "StridedSlice", narrow},
    OpTranslation{"aten::new_full", "Fill", new_full},
    OpTranslation{"aten::new_ones", "Fill", ones},
    OpTranslation{"aten::new_zeros", "Fill", zeros},
    OpTranslation{"aten::ones", "Fill", ones},
    OpTranslation{"aten::pad", "Pad or PadV2", pad_with_mode},
    OpTranslation{"aten::permute", "Transpose, where needed", permute},
    OpTranslation{"aten::repeat", "Tile", repeat},
    OpTranslation{"aten::reshape", "Reshape", reshape},
    OpTranslation{"aten::reshape_as", "Reshape", reshape},
    OpTranslation{"aten::select", "StridedSlice", select},
    OpTranslation{"aten::slice", "StridedSlice", slice},
    OpTranslation{"aten::split", "Split or SplitV", split},
    OpTranslation{"aten::split_with_sizes", "Split or SplitV", split},
    OpTranslation{"aten::squeeze", "Reshape", reshape},
    OpTranslation{"aten::stack", "Pack", stack},
    OpTranslation{"aten::t", "Transpose, where needed", t},
    OpTranslation{"aten::transpose", "Transpose, where needed", transpose},
    OpTranslation{"aten::tril", "SelectV2", tril},
    OpTranslation{"aten::triu", "SelectV2", triu},
    OpTranslation{"aten::unbind", "Unpack", unbind},
    OpTranslation{"aten::unflatten", "Reshape", reshape},
    OpTranslation{"aten::unsafe_chunk", "Split or SplitV", split},
    OpTranslation{"aten::unsqueeze", "Reshape", reshape},
    OpTranslation{"aten::view", "Reshape", reshape},
    OpTranslation{"aten::view_as", "Reshape", reshape},
    OpTranslation{"aten::zeros", "Fill", zeros},
};

}  // namespace

std::span<const OpTranslation> shape_translations() { return kShapeTranslations; }

}  // namespace muster::exporting
