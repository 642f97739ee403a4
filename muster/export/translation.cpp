#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "muster/base/error.h"
#include "muster/export/translation_internal.h"

namespace muster::exporting {

using graph::DataType;
using graph::TensorValue;

Order identity_order(std::size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

Order with_axis_last(std::size_t rank, std::int64_t axis) {
  Order order = identity_order(rank);
  std::erase(order, axis);
  order.push_back(axis);
  return order;
}

Order without_axis(const Order& order, std::int64_t axis) {
  Order left;
  for (const std::int64_t one : order) {
    if (one != axis) left.push_back(one > axis ? one - 1 : one);
  }
  return left;
}

std::int64_t place_of(const Order& order, std::int64_t axis) {
  return std::find(order.begin(), order.end(), axis) - order.begin();
}

graph::AttrValue over_image(HeightWidth both) {
  return graph::AttrValue::list(std::vector<std::int64_t>{1, both.first, both.second, 1});
}

DataType graph_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return DataType::kFloat;
    case at::kDouble:
      return DataType::kDouble;
    case at::kInt:
      return DataType::kInt32;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
      return DataType::kUint8;
    case at::kChar:
      return DataType::kInt8;
    case at::kShort:
      return DataType::kInt16;
    case at::kBool:
      return DataType::kBool;
    case at::kHalf:
      return DataType::kHalf;
    case at::kBFloat16:
      return DataType::kBfloat16;
    default:
      throw Unimplemented("tensors of {} have no type in a TensorFlow graph", c10::toString(type));
  }
}

TensorValue graph_value(const at::Tensor& tensor) {
  const auto flat = tensor.detach().cpu().contiguous();
  TensorValue value;
  value.dtype = graph_type(flat.scalar_type());
  value.shape = flat.sizes().vec();
  value.bytes.assign(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  return value;
}

// ------------------------------------------------------------------------------- Translation

std::string Translation::shape_vector(const std::vector<Size>& sizes) {
  std::vector<std::int64_t> known;
  for (const Size& size : sizes) {
    if (!size.follows_batch()) known.push_back(size.constant);
  }
  if (known.size() == sizes.size()) return ints(known);
  std::vector<std::string> parts;
  for (const Size& size : sizes) {
    if (!size.follows_batch()) {
      parts.push_back(constant(TensorValue::scalar(static_cast<std::int32_t>(size.constant))));
    } else if (size.per_row == 1) {
      parts.push_back(builder_.batch_size());
    } else {
      const auto factor = constant(TensorValue::scalar(static_cast<std::int32_t>(size.per_row)));
      parts.push_back(
          add("mul", "Mul", {builder_.batch_size(), factor}, {{"T", DataType::kInt32}}));
    }
  }
  const auto count = static_cast<std::int64_t>(parts.size());
  return add("shape", "Pack", std::move(parts),
             {{"N", count}, {"T", DataType::kInt32}, {"axis", 0}});
}

std::string Translation::reshape_vector(const std::vector<Size>& sizes) {
  const auto following = std::count_if(sizes.begin(), sizes.end(),
                                       [](const Size& size) { return size.follows_batch(); });
  const bool empty = std::any_of(sizes.begin(), sizes.end(), [](const Size& size) {
    return !size.follows_batch() && size.constant == 0;
  });
  if (following != 1 || empty) return shape_vector(sizes);
  std::vector<std::int64_t> values;
  for (const Size& size : sizes) values.push_back(size.follows_batch() ? -1 : size.constant);
  return ints(values);
}

std::string Translation::count(const Size& size) {
  return add("Reshape", "Reshape", {shape_vector({size}), ints({})},
             {{"T", DataType::kInt32}, {"Tshape", DataType::kInt32}});
}

const Operation* Translation::producer(ValueId id) const {
  for (const auto& operation : program_.operations) {
    if (std::ranges::find(operation.outputs, id) != operation.outputs.end()) return &operation;
  }
  return nullptr;
}

void Translation::set(ValueId id, const std::string& node, Order order) {
  if (order.empty()) order = identity_order(value(id).sizes.size());
  held_[id.index].emplace_back(std::move(order), node);
}

void Translation::set_permuted(ValueId output, ValueId input, const Order& axes) {
  Order place(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    place[static_cast<std::size_t>(axes[i])] = static_cast<std::int64_t>(i);
  }
  const auto forms = forms_of(input);
  for (const auto& [order, node] : forms) {
    Order seen;
    for (const std::int64_t axis : order) seen.push_back(place[static_cast<std::size_t>(axis)]);
    set(output, node, seen);
  }
}

const Translation::Forms& Translation::forms_of(ValueId id) const {
  const auto found = held_.find(id.index);
  if (found != held_.end()) return found->second;
  if (packed_.contains(id.index)) {
    throw Unimplemented(
        "packed sequences are read by another operation than a recurrent layer and "
        "pad_packed_sequence: pad them first");
  }
  throw Unimplemented(
      "the ids of a feature column are read by an operation of the model's own: an exported graph "
      "reads them through InputLayer and LinearModel alone");
}

const ColumnNodes& Translation::ids(ValueId id) const {
  const auto found = ids_.find(id.index);
  if (found != ids_.end()) return found->second;
  throw Unimplemented("muster::lookup reads ids that are not those of a feature column");
}

const PackedSteps& Translation::packed(ValueId id) const {
  const auto found = packed_.find(id.index);
  if (found != packed_.end()) return found->second;
  throw Unimplemented(
      "a recurrent layer reads packed sequences that pack_padded_sequence did not make");
}

const Order& Translation::order_of(ValueId id) const { return forms_of(id).front().first; }

bool Translation::has(ValueId id, const Order& order) const {
  const auto& forms = forms_of(id);
  return std::any_of(forms.begin(), forms.end(),
                     [&](const auto& form) { return form.first == order; });
}

std::string Translation::get(ValueId id, Order order) {
  if (order.empty()) order = identity_order(value(id).sizes.size());
  for (const auto& form : forms_of(id)) {
    if (form.first == order) return form.second;
  }
  auto& forms = held_.at(id.index);
  const auto& [from, node] = forms.front();
  std::vector<std::int64_t> permutation;
  for (const std::int64_t axis : order) {
    const auto place = std::find(from.begin(), from.end(), axis);
    permutation.push_back(place - from.begin());
  }
  const std::string made = add("transpose", "Transpose", {node, ints(permutation)},
                               {{"T", graph_type(value(id).dtype)}, {"Tperm", DataType::kInt32}});
  forms.emplace_back(order, made);
  return made;
}

// -------------------------------------------------------------------------------------- Call

const Argument& Call::argument(std::size_t index) const {
  require(index < operation_.arguments.size(), "it has fewer arguments than expected");
  return operation_.arguments[index];
}

bool Call::is_none(std::size_t index) const {
  return std::holds_alternative<std::monostate>(argument(index));
}

bool Call::is_list(std::size_t index) const {
  return std::holds_alternative<std::vector<Size>>(argument(index));
}

bool Call::is_tensor(std::size_t index) const {
  return std::holds_alternative<ValueId>(argument(index));
}

ValueId Call::id(std::size_t index) const {
  const auto* found = std::get_if<ValueId>(&argument(index));
  require(found != nullptr, fmt::format("argument {} is no tensor of the model", index));
  return *found;
}

std::vector<ValueId> Call::ids(std::size_t index) const {
  const auto* found = std::get_if<std::vector<ValueId>>(&argument(index));
  require(found != nullptr, fmt::format("argument {} is no list of tensors", index));
  return *found;
}

std::int64_t Call::integer(std::size_t index) const {
  const auto* found = std::get_if<Size>(&argument(index));
  require(found != nullptr, fmt::format("argument {} is no integer", index));
  require(!found->follows_batch(), fmt::format("argument {} follows the batch size", index));
  return found->constant;
}

std::int64_t Call::axis(std::size_t index, std::size_t rank) const {
  const std::int64_t given = integer(index);
  return given < 0 ? given + static_cast<std::int64_t>(rank) : given;
}

std::vector<std::int64_t> Call::integers(std::size_t index) const {
  if (std::holds_alternative<Size>(argument(index))) return {integer(index)};
  std::vector<std::int64_t> values;
  for (const Size& size : sizes(index)) {
    require(!size.follows_batch(), fmt::format("argument {} follows the batch size", index));
    values.push_back(size.constant);
  }
  return values;
}

std::vector<Size> Call::sizes(std::size_t index) const {
  const auto* found = std::get_if<std::vector<Size>>(&argument(index));
  require(found != nullptr, fmt::format("argument {} is no list of integers", index));
  return *found;
}

double Call::number(std::size_t index) const {
  if (const auto* real = std::get_if<double>(&argument(index))) return *real;
  if (const auto* flag = std::get_if<bool>(&argument(index))) return *flag ? 1 : 0;
  if (const auto* constant = std::get_if<at::Tensor>(&argument(index))) {
    require(constant->numel() == 1, fmt::format("argument {} is no single number", index));
    return constant->item<double>();
  }
  return static_cast<double>(integer(index));
}

bool Call::truth(std::size_t index) const {
  if (const auto* flag = std::get_if<bool>(&argument(index))) return *flag;
  return integer(index) != 0;
}

std::string Call::text(std::size_t index) const {
  const auto* found = std::get_if<std::string>(&argument(index));
  require(found != nullptr, fmt::format("argument {} is no text", index));
  return *found;
}

HeightWidth Call::height_width(std::size_t index, std::int64_t missing) const {
  const auto values = integers(index);
  const bool sequence = rank(0) == 3;
  require(values.size() == 1 || (!sequence && values.size() == 2),
          "it is not over one or two dimensions");
  return {sequence ? missing : values.front(), values.back()};
}

std::string Call::operand(std::size_t index, at::ScalarType type, const Order& order) {
  if (is_tensor(index)) {
    const auto id_of = id(index);
    // One of fewer axes is broadcast, which common orders leave as it was traced.
    const bool fewer = to.value(id_of).sizes.size() != order.size();
    return to.cast(to.get(id_of, fewer ? Order{} : order), graph_type(to.value(id_of).dtype),
                   graph_type(type));
  }
  if (const auto* held = std::get_if<at::Tensor>(&argument(index))) {
    auto constant = held->to(type);
    if (!order.empty() && constant.dim() == static_cast<std::int64_t>(order.size())) {
      constant = constant.permute(order);
    }
    return to.constant(graph_value(constant));
  }
  return to.constant(graph_value(torch::scalar_tensor(number(index), type)));
}

std::string Call::scalar(double value) {
  return to.constant(graph_value(torch::scalar_tensor(value, result().dtype)));
}

std::string Call::int32(std::int64_t value) {
  return to.constant(TensorValue::scalar(static_cast<std::int32_t>(value)));
}

std::string Call::reshaped(const std::string& input, const std::vector<Size>& sizes) {
  return to.add("Reshape", "Reshape", {input, to.reshape_vector(sizes)},
                {{"T", type()}, {"Tshape", DataType::kInt32}});
}

std::string Call::padded(const std::string& input, const std::vector<std::int64_t>& amounts,
                         double value) {
  if (std::all_of(amounts.begin(), amounts.end(), [](std::int64_t it) { return it == 0; })) {
    return input;
  }
  const std::vector<std::int32_t> both(amounts.begin(), amounts.end());
  const auto paddings = to.constant(TensorValue::of<std::int32_t>(
      {static_cast<std::int64_t>(both.size()) / 2, 2}, std::span<const std::int32_t>(both)));
  const graph::Attrs attrs{{"T", type()}, {"Tpaddings", DataType::kInt32}};
  if (value == 0) return to.add("Pad", "Pad", {input, paddings}, attrs);
  return to.add("PadV2", "PadV2", {input, paddings, scalar(value)}, attrs);
}

std::string Call::spread(std::string input, std::vector<Size> sizes,
                         const std::vector<std::int64_t>& dilations) {
  for (std::size_t axis = 0; axis < dilations.size(); ++axis) {
    const std::int64_t dilation = dilations[axis];
    const std::int64_t size = sizes[axis].constant;
    if (dilation == 1 || size == 1) continue;
    std::int64_t before = 1;
    std::int64_t after = 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (i != axis) (i < axis ? before : after) *= sizes[i].constant;
    }
    const auto parted = reshaped(input, {Size{before * size}, Size{1}, Size{after}});
    const auto filled = reshaped(padded(parted, {0, 0, 0, dilation - 1, 0, 0}),
                                 {Size{before}, Size{size * dilation}, Size{after}});
    sizes[axis].constant = (size - 1) * dilation + 1;
    const auto cut = to.add("Slice", "Slice",
                            {filled, to.ints({0, 0, 0}), to.ints({-1, sizes[axis].constant, -1})},
                            {{"T", type()}, {"Index", DataType::kInt32}});
    input = reshaped(cut, sizes);
  }
  return input;
}

std::string Call::reduced(std::string_view op, const std::string& input,
                          const std::vector<std::int64_t>& places) {
  return to.add(op, op, {input, to.ints(places)},
                {{"T", type()}, {"Tidx", DataType::kInt32}, {"keep_dims", true}});
}

std::string Call::images(std::size_t index) {
  if (rank(index) == 4) return tensor(index, kChannelsLast);
  require(rank(index) == 3, "only batches of images and of sequences are translated");
  return to.add("ExpandDims", "ExpandDims", {tensor(index, Order{0, 2, 1}), int32(1)},
                {{"T", graph_type(value(index).dtype)}, {"Tdim", DataType::kInt32}});
}

void Call::give_images(const std::string& node) {
  if (result().sizes.size() == 4) return give(node, kChannelsLast);
  give(to.add(
           "Squeeze", "Squeeze", {node},
           {{"T", type()}, {"squeeze_dims", graph::AttrValue::list(std::vector<std::int64_t>{1})}}),
       Order{0, 2, 1});
}

HeightWidth Call::image_size(const Value& value) const {
  const auto& sizes = value.sizes;
  require(!sizes.back().follows_batch() && !sizes[sizes.size() - 2].follows_batch(),
          "the size of its images follows the batch");
  return {sizes.size() == 3 ? 1 : sizes[2].constant, sizes.back().constant};
}

void Call::require(bool holds, std::string_view why) const {
  if (!holds)
    throw Unimplemented("no translation to TensorFlow: {}: {}", describe(operation_), why);
}

}  // namespace muster::exporting
