#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>

#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {
namespace {

using graph::DataType;
using graph::TensorValue;

// ONNX's "to the end" for slices.
constexpr std::int64_t kFar = std::numeric_limits<std::int32_t>::max();

void shape(Call& call) {
  const auto type = call.attr_or("out_type", DataType::kInt32);
  const Order order = call.to.order_of(call.tensor(0));
  auto sizes = call.add("Shape", {call.input(0, order)});
  if (!order.empty() && order != full_order({}, order.size())) {
    std::vector<std::int64_t> places;
    for (std::size_t i = 0; i < order.size(); ++i) {
      places.push_back(call.place_of(static_cast<std::int64_t>(i), order, order.size()));
    }
    sizes = call.add("Gather", {sizes, call.to.ints(places)}, {{"axis", std::int64_t{0}}});
  }
  call.give_wide(sizes, type, 1);
}

void size(Call& call) {
  const auto type = call.attr_or("out_type", DataType::kInt32);
  const Order order = call.to.order_of(call.tensor(0));
  call.give_wide(call.add("Size", {call.input(0, order)}), type, 0);
}

void reshape(Call& call) {
  const TensorValue* sizes = call.constant(1);
  if (sizes == nullptr) {
    const auto made = call.last("Reshape", {call.input(0), call.to.get_wide(call.tensor(1))});
    return call.give(made, call.type());
  }
  const auto values = call.numbers(1, "shape");
  if (const TensorValue* constant = call.constant(0)) {
    TensorValue reshaped = *constant;
    reshaped.shape = values;
    if (graph::element_count(std::span(values)) ==
        graph::element_count(std::span(constant->shape))) {
      return call.give_constant(std::move(reshaped));
    }
  }
  Attributes attributes;
  // Without it a size of 0 would mean the input's.
  if (std::find(values.begin(), values.end(), 0) != values.end()) attributes["allowzero"] = 1;
  const bool empty = !attributes.empty();
  const auto input = call.input(0);
  const auto made = call.last("Reshape", {input, call.to.ints(values)}, attributes);
  call.to.hold(call.node.name, {.type = call.type(),
                                .rank = values.size(),
                                .sizes = empty ? std::vector<std::int64_t>{} : values,
                                .reshaped = input,
                                .forms = {{Order{}, made}}});
}

// The constant with other sizes, as many elements as before.
void give_reshaped(Call& call, TensorValue value, std::vector<std::int64_t> sizes) {
  value.shape = std::move(sizes);
  call.give_constant(std::move(value));
}

void expand_dims(Call& call) {
  const auto rank = call.held(0).rank;
  if (const TensorValue* constant = call.constant(0)) {
    const auto size = static_cast<std::int64_t>(constant->shape.size());
    const auto axis = call.number(1, "axis");
    const auto place = axis < 0 ? axis + size + 1 : axis;
    call.require(place >= 0 && place <= size, "its input has no such axis");
    auto sizes = constant->shape;
    sizes.insert(sizes.begin() + place, 1);
    return give_reshaped(call, *constant, std::move(sizes));
  }
  const auto axes = call.to.ints({call.number(1, "axis")});
  call.give(call.last("Unsqueeze", {call.input(0), axes}), call.type(),
            rank ? std::optional(*rank + 1) : std::nullopt);
}

void squeeze(Call& call) {
  const auto axes = call.attr_or("squeeze_dims", graph::AttrList{}).ints;
  const auto rank = call.held(0).rank;
  std::vector<std::string> inputs{call.input(0)};
  if (!axes.empty()) inputs.push_back(call.to.ints(axes));
  const bool known = rank && !axes.empty() && axes.size() <= *rank;
  call.give(call.last("Squeeze", std::move(inputs)), call.type(),
            known ? std::optional(*rank - axes.size()) : std::nullopt);
}

void transpose(Call& call) { call.give_permuted(0, call.numbers(1, "permutation")); }

// Whether all are sizes, not all of them constant.
bool all_wide(Call& call, std::size_t count) {
  bool constant = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (!call.is_wide(i)) return false;
    constant = constant && call.constant(i) != nullptr;
  }
  return !constant;
}

void concat(Call& call) {
  call.require(call.count() >= 2, "it has no inputs");
  const std::size_t count = call.count() - 1;
  const auto axis = call.number(count, "axis");
  std::vector<std::string> inputs;
  if (all_wide(call, count)) {
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(call.to.get_wide(call.tensor(i)));
    return call.give_wide(call.last("Concat", std::move(inputs), {{"axis", axis}}),
                          DataType::kInt32, 1);
  }
  Order order;
  std::optional<std::size_t> rank;
  for (std::size_t i = 0; i < count; ++i) {
    if (order.empty()) order = call.to.order_of(call.tensor(i));
    if (!rank) rank = call.held(i).rank;
  }
  for (std::size_t i = 0; i < count; ++i) inputs.push_back(call.input(i, order));
  call.give(call.last("Concat", std::move(inputs), {{"axis", call.place_of(axis, order, rank)}}),
            call.type(), rank, order);
}

void pack(Call& call) {
  const auto axis = call.attr_or<std::int64_t>("axis", 0);
  const bool wide = all_wide(call, call.count());
  const auto rank = call.held(0).rank;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (wide && call.constant(i) != nullptr && rank == std::size_t{0}) {
      parts.push_back(call.to.ints({call.number(i, "size")}));
      continue;
    }
    const auto value = wide ? call.to.get_wide(call.tensor(i)) : call.input(i);
    parts.push_back(call.add("Unsqueeze", {value, call.to.ints({axis})}));
  }
  const auto made = call.last("Concat", std::move(parts), {{"axis", axis}});
  const auto made_rank = rank ? std::optional(*rank + 1) : std::nullopt;
  if (wide && rank == std::size_t{0}) {
    std::vector<std::int64_t> elements;
    for (std::size_t i = 0; i < call.count(); ++i) {
      elements.push_back(call.constant(i) == nullptr ? -1 : call.number(i, "size"));
    }
    return call.to.hold(
        call.node.name,
        {.type = DataType::kInt32, .rank = 1, .wide = made, .elements = std::move(elements)});
  }
  if (wide) return call.give_wide(made, DataType::kInt32, made_rank);
  call.give(made, call.type(), made_rank);
}

void unpack(Call& call) {
  const auto axis = call.attr_or<std::int64_t>("axis", 0);
  const auto count = static_cast<std::size_t>(graph::attr<std::int64_t>(call.node, "num"));
  const auto rank = call.held(0).rank;
  const auto input = call.input(0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = call.to.constant(TensorValue::scalar(static_cast<std::int64_t>(i)));
    const auto part = call.to.add(fmt::format("{}:{}", call.node.name, i), "Gather", {input, index},
                                  {{"axis", axis}});
    call.give(part, call.type(), rank ? std::optional(*rank - 1) : std::nullopt, {},
              static_cast<int>(i));
  }
}

// A kernel in parts, for groups, stays constant.
std::vector<TensorValue> split_constant(Call& call, const TensorValue& value, std::int64_t axis,
                                        std::size_t count, const std::vector<std::int64_t>& sizes) {
  const auto rank = static_cast<std::int64_t>(value.shape.size());
  call.require(axis >= 0 && axis < rank && count > 0, "it has no such axis");
  const auto place = static_cast<std::size_t>(axis);
  const std::span<const std::int64_t> shape(value.shape);
  const std::int64_t outer = *graph::element_count(shape.first(place));
  const std::int64_t inner = *graph::element_count(shape.subspan(place + 1)) *
                             static_cast<std::int64_t>(graph::element_bytes(value.dtype));
  const std::int64_t each = shape[place] / static_cast<std::int64_t>(count);
  std::int64_t begin = 0;
  std::vector<TensorValue> parts;
  for (std::size_t i = 0; i < count; ++i) {
    TensorValue part{value.dtype, value.shape, {}};
    part.shape[place] = sizes.empty() ? each : sizes[i];
    call.require(part.shape[place] >= 0 && begin + part.shape[place] <= shape[place],
                 "its sizes are not those of its input");
    for (std::int64_t row = 0; row < outer; ++row) {
      const auto from = static_cast<std::size_t>((row * shape[place] + begin) * inner);
      part.bytes.append(value.bytes, from, static_cast<std::size_t>(part.shape[place] * inner));
    }
    begin += part.shape[place];
    parts.push_back(std::move(part));
  }
  return parts;
}

void split_into(Call& call, std::size_t from, std::int64_t axis, std::size_t count,
                const std::vector<std::int64_t>& sizes) {
  const auto rank = call.held(from).rank;
  if (const TensorValue* constant = call.constant(from)) {
    const auto place = axis < 0 ? axis + static_cast<std::int64_t>(*rank) : axis;
    const std::vector<TensorValue> parts = split_constant(call, *constant, place, count, sizes);
    for (std::size_t i = 0; i < count; ++i) call.give_constant(parts[i], static_cast<int>(i));
    return;
  }
  std::vector<std::string> inputs{call.input(from)};
  if (!sizes.empty()) inputs.push_back(call.to.ints(sizes));
  const auto parts =
      call.to.add_several(call.node.name, "Split", std::move(inputs), count, {{"axis", axis}});
  for (std::size_t i = 0; i < count; ++i) {
    call.give(parts[i], call.type(), rank, {}, static_cast<int>(i));
  }
}

void split(Call& call) {
  const auto count = static_cast<std::size_t>(graph::attr<std::int64_t>(call.node, "num_split"));
  split_into(call, 1, call.number(0, "axis"), count, {});
}

void split_v(Call& call) {
  const auto sizes = call.numbers(1, "sizes");
  call.require(std::find(sizes.begin(), sizes.end(), -1) == sizes.end(),
               "sizes that it is to compute are not converted");
  split_into(call, 0, call.number(2, "axis"), sizes.size(), sizes);
}

/// Parameters of a strided slice, axis by axis of its input.
struct Slices {
  std::vector<std::int64_t> axes{};
  std::vector<std::int64_t> starts{};
  std::vector<std::int64_t> ends{};
  std::vector<std::int64_t> steps{};
  /// Axes of which one place is taken, with that place.
  std::vector<std::pair<std::int64_t, std::int64_t>> taken{};
  /// Axes of the result that are new.
  std::vector<std::int64_t> added{};
};

Slices slices_of(Call& call) {
  const auto begin = call.numbers(1, "begin");
  const auto end = call.numbers(2, "end");
  const auto step = call.numbers(3, "strides");
  call.require(begin.size() == end.size() && end.size() == step.size(),
               "begin, end and strides differ in length");
  const auto bit = [&](const char* mask, std::size_t i) {
    return ((call.attr_or<std::int64_t>(mask, 0) >> i) & 1) != 0;
  };
  Slices made;
  std::int64_t axis = 0;
  std::int64_t out = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (bit("ellipsis_mask", i)) {
      call.require(call.held(0).rank.has_value(), "the rank of its input is unknown");
      auto rest = static_cast<std::int64_t>(*call.held(0).rank) - axis;
      for (std::size_t j = i + 1; j < begin.size(); ++j) rest -= bit("new_axis_mask", j) ? 0 : 1;
      axis += rest;
      out += rest;
    } else if (bit("new_axis_mask", i)) {
      made.added.push_back(out++);
    } else if (bit("shrink_axis_mask", i)) {
      made.taken.emplace_back(axis++, begin[i]);
    } else {
      const bool forward = step[i] > 0;
      const bool from_start = bit("begin_mask", i);
      const bool to_end = bit("end_mask", i);
      if (!from_start || !to_end || step[i] != 1) {
        made.axes.push_back(axis);
        made.starts.push_back(from_start ? (forward ? 0 : kFar) : begin[i]);
        made.ends.push_back(to_end ? (forward ? kFar : -kFar) : end[i]);
        made.steps.push_back(step[i]);
      }
      ++axis;
      ++out;
    }
  }
  return made;
}

std::string sliced(Call& call, std::string value, const Slices& slices) {
  if (!slices.axes.empty()) {
    value = call.add("Slice", {value, call.to.ints(slices.starts), call.to.ints(slices.ends),
                               call.to.ints(slices.axes), call.to.ints(slices.steps)});
  }
  // From the last one on, so that the others keep their numbers.
  for (auto each = slices.taken.rbegin(); each != slices.taken.rend(); ++each) {
    const auto index = call.to.constant(TensorValue::scalar(each->second));
    value = call.add("Gather", {value, index}, {{"axis", each->first}});
  }
  if (!slices.added.empty()) {
    value = call.add("Unsqueeze", {value, call.to.ints(slices.added)});
  }
  return value;
}

void strided_slice(Call& call) {
  const Slices slices = slices_of(call);
  auto rank = call.held(0).rank;
  if (rank) rank = *rank - std::min(*rank, slices.taken.size()) + slices.added.size();
  if (call.is_wide(0) && call.constant(0) == nullptr) {
    const auto made = sliced(call, call.to.get_wide(call.tensor(0)), slices);
    return call.give_wide(made, DataType::kInt32, rank);
  }
  call.give(sliced(call, call.input(0), slices), call.type(), rank);
}

void slice(Call& call) {
  const auto begin = call.numbers(1, "begin");
  const auto length = call.numbers(2, "size");
  call.require(begin.size() == length.size(), "begin and size differ in length");
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    axes.push_back(static_cast<std::int64_t>(i));
    ends.push_back(length[i] < 0 ? kFar : begin[i] + length[i]);
  }
  const auto rank = call.held(0).rank;
  call.give(call.last("Slice",
                      {call.input(0), call.to.ints(begin), call.to.ints(ends), call.to.ints(axes)}),
            call.type(), rank);
}

void reverse(Call& call) {
  const Order order = call.to.order_of(call.tensor(0));
  const auto rank = call.held(0).rank;
  std::vector<std::int64_t> places;
  for (const auto axis : call.numbers(1, "axes")) {
    places.push_back(call.place_of(axis, order, rank));
  }
  const std::vector<std::int64_t> from(places.size(), -1);
  const std::vector<std::int64_t> until(places.size(), -kFar);
  call.give(call.last("Slice", {call.input(0, order), call.to.ints(from), call.to.ints(until),
                                call.to.ints(places), call.to.ints(from)}),
            call.type(), rank, order);
}

void tile(Call& call) {
  const auto rank = call.held(0).rank;
  call.give(call.last("Tile", {call.input(0), call.to.get_wide(call.tensor(1))}), call.type(),
            rank);
}

std::optional<std::size_t> length_of(Call& call, std::size_t index) {
  const TensorValue* sizes = call.constant(index);
  if (sizes == nullptr || sizes->shape.size() != 1) return std::nullopt;
  return static_cast<std::size_t>(sizes->shape[0]);
}

void broadcast_to(Call& call) {
  call.give(call.last("Expand", {call.input(0), call.to.get_wide(call.tensor(1))}), call.type(),
            length_of(call, 1));
}

void fill(Call& call) {
  call.give(call.last("Expand", {call.input(1), call.to.get_wide(call.tensor(0))}), call.type(),
            length_of(call, 0));
}

void range(Call& call) {
  call.give(call.last("Range", {call.input(0), call.input(1), call.input(2)}),
            call.attr_or("Tidx", DataType::kInt32), 1);
}

void gather(Call& call) {
  call.require(call.attr_or<std::int64_t>("batch_dims", 0) == 0, "batch_dims must be 0");
  const std::int64_t axis = call.node.op == "Gather" ? 0 : call.number(2, "axis");
  const auto params = call.held(0).rank;
  const auto indices = call.held(1).rank;
  const auto rank =
      params && indices && *params > 0 ? std::optional(*params - 1 + *indices) : std::nullopt;
  call.give(call.last("Gather", {call.input(0), call.input(1)}, {{"axis", axis}}),
            call.type("Tparams"), rank);
}

void gather_nd(Call& call) {
  call.give(call.last("GatherND", {call.input(0), call.to.get_wide(call.tensor(1))}),
            call.type("Tparams"));
}

void one_hot(Call& call) {
  const auto front = call.to.ints({0});
  const auto on = call.add("Unsqueeze", {call.input(2), front});
  const auto off = call.add("Unsqueeze", {call.input(3), front});
  const auto values = call.add("Concat", {off, on}, {{"axis", std::int64_t{0}}});
  const auto depth = call.to.get_wide(call.tensor(1));
  const auto rank = call.held(0).rank;
  call.give(call.last("OneHot", {call.input(0), depth, values},
                      {{"axis", call.attr_or<std::int64_t>("axis", -1)}}),
            call.type(), rank ? std::optional(*rank + 1) : std::nullopt);
}

constexpr std::array kShapeConversions{
    OpConversion{"BroadcastTo", "Expand", broadcast_to},
    OpConversion{"ConcatV2", "Concat", concat},
    OpConversion{"ExpandDims", "Unsqueeze", expand_dims},
    OpConversion{"Fill", "Expand", fill},
    OpConversion{"Gather", "Gather", gather},
    OpConversion{"GatherNd", "GatherND", gather_nd},
    OpConversion{"GatherV2", "Gather", gather},
    OpConversion{"OneHot", "Unsqueeze, Concat, OneHot", one_hot},
    OpConversion{"Pack", "Unsqueeze, Concat", pack},
    OpConversion{"Range", "Range", range},
    OpConversion{"Reshape", "Reshape", reshape},
    OpConversion{"ReverseV2", "Slice", reverse},
    OpConversion{"Shape", "Shape", shape},
    OpConversion{"Size", "Size", size},
    OpConversion{"Slice", "Slice", slice},
    OpConversion{"Split", "Split", split},
    OpConversion{"SplitV", "Split", split_v},
    OpConversion{"Squeeze", "Squeeze", squeeze},
    OpConversion{"StridedSlice", "Slice, Gather, Unsqueeze", strided_slice},
    OpConversion{"Tile", "Tile", tile},
    OpConversion{"Transpose", "Transpose, where needed", transpose},
    OpConversion{"Unpack", "Gather", unpack},
};

}  // namespace

std::span<const OpConversion> shape_conversions() { return kShapeConversions; }

}  // namespace muster::onnx
