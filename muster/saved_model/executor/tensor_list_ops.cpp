#include <ATen/Functions.h>

#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using graph::Shape;
using Items = TensorList::Items;

constexpr std::int64_t kItemBytes = sizeof(Items::value_type);

// A shape as an input: a vector of sizes with -1 for any, or the scalar -1 for any rank.
Shape shape_input(const Inputs& inputs, std::size_t index) {
  const auto sizes = inputs.ints(index);
  if (shape_of(inputs.value(index)).empty()) {
    if (sizes[0] != -1) throw InvalidArgument("input {} is {} and no shape", index, sizes[0]);
    return Shape::any();
  }
  return sizes;
}

// The sizes of an item that was never set. Both shapes are those that it has to fit.
std::vector<std::int64_t> known_sizes(const Shape& first, const Shape& second) {
  if (first.is_known()) return first.dims;
  if (second.is_known()) return second.dims;
  throw InvalidArgument("an item that was not set has no known shape: {}", graph::to_string(first));
}

Value zeros(const Inputs& inputs, DataType type, const std::vector<std::int64_t>& sizes) {
  check_shape(sizes);
  const auto count = *graph::element_count(sizes);
  if (type == DataType::kString) {
    inputs.check_room(count, sizeof(std::string));
    return StringTensor(std::vector<std::string>(static_cast<std::size_t>(count)), sizes);
  }
  inputs.check_room(sizes, scalar_type(type));
  return at::zeros(sizes, scalar_type(type));
}

void check_item(const TensorList& list, const Value& item) {
  if (data_type_of(item) == list.type() && graph::fits(list.element_shape(), shape_of(item)))
    return;
  throw InvalidArgument("a list of {} {} cannot take {}", graph::name_of(list.type()),
                        graph::to_string(list.element_shape()), describe(item));
}

std::size_t item_index(const TensorList& list, std::int64_t index) {
  if (index < 0 || index >= static_cast<std::int64_t>(list.items().size())) {
    throw InvalidArgument("there is no item {} in a list of {}", index, list.items().size());
  }
  return static_cast<std::size_t>(index);
}

// A copy of the items, with room for more.
Items copied(const Inputs& inputs, const TensorList& list, std::int64_t more) {
  inputs.check_room(static_cast<std::int64_t>(list.items().size()) + more, kItemBytes);
  return list.items();
}

// A list of items that are not set: `count` is input 1 of Reserve, and 0 for an empty list.
KernelFactory reserve(bool empty) {
  return [empty](const KernelContext& context) -> Kernel {
    const auto type = graph::attr<DataType>(context.node, "element_dtype");
    return [type, empty](const Inputs& inputs) {
      const auto count = empty ? 0 : inputs.integer(1);
      if (count < 0) throw InvalidArgument("a list of {} items", count);
      inputs.check_room(count, kItemBytes);
      return Slots{
          TensorList(type, shape_input(inputs, 0), Items(static_cast<std::size_t>(count)))};
    };
  };
}

Slots from_tensor(const Inputs& inputs) {
  constexpr std::size_t kTensor[] = {0};
  constexpr std::int64_t kViewBytes = 256;
  const Shape shape = shape_input(inputs, 1);
  const auto sizes = shape_of(inputs.value(0));
  if (sizes.empty()) throw InvalidArgument("input 0 must have an axis");
  inputs.check_room(sizes[0], kItemBytes + kViewBytes);
  const Slots parts =
      rearrange(inputs, kTensor, [](const std::vector<at::Tensor>& in) { return in[0].unbind(0); });
  Items items;
  for (std::size_t i = 0; i < parts.size(); ++i) items.emplace_back(value_of(parts[i], i));
  TensorList list(data_type_of(inputs.value(0)), shape, std::move(items));
  for (const auto& item : list.items()) check_item(list, *item);
  return {list};
}

Slots get_item(const Inputs& inputs) {
  const TensorList& list = inputs.list(0);
  const auto& item = list.items()[item_index(list, inputs.integer(1))];
  if (item) return {to_slot(*item)};
  return {to_slot(
      zeros(inputs, list.type(), known_sizes(shape_input(inputs, 2), list.element_shape())))};
}

Slots set_item(const Inputs& inputs) {
  const TensorList& list = inputs.list(0);
  const auto index = item_index(list, inputs.integer(1));
  Value item = inputs.value(2);
  check_item(list, item);
  Items items = copied(inputs, list, 0);
  items[index] = std::move(item);
  return {list.with(std::move(items))};
}

Slots push_back(const Inputs& inputs) {
  const TensorList& list = inputs.list(0);
  Value item = inputs.value(1);
  check_item(list, item);
  Items items = copied(inputs, list, 1);
  items.emplace_back(std::move(item));
  return {list.with(std::move(items))};
}

Slots pop_back(const Inputs& inputs) {
  const TensorList& list = inputs.list(0);
  if (list.items().empty()) throw InvalidArgument("the list is empty");
  Items items = copied(inputs, list, 0);
  std::optional<Value> last = std::move(items.back());
  items.pop_back();
  if (!last) {
    last = zeros(inputs, list.type(), known_sizes(shape_input(inputs, 1), list.element_shape()));
  }
  return {list.with(std::move(items)), to_slot(std::move(*last))};
}

// The sizes of all items: those of one that is set, or the known ones.
std::vector<std::int64_t> common_sizes(const TensorList& list, const Shape& wanted) {
  for (const auto& item : list.items()) {
    if (item) return shape_of(*item);
  }
  return known_sizes(wanted, list.element_shape());
}

Kernel stack(const KernelContext& context) {
  const auto count = graph::attr_or<std::int64_t>(context.node, "num_elements", -1);
  return [count](const Inputs& inputs) {
    const TensorList& list = inputs.list(0);
    const auto length = static_cast<std::int64_t>(list.items().size());
    if (count >= 0 && count != length) {
      throw InvalidArgument("a list of {} items has {}", count, length);
    }
    auto sizes = common_sizes(list, shape_input(inputs, 1));
    if (length == 0) {
      sizes.insert(sizes.begin(), 0);
      return Slots{to_slot(zeros(inputs, list.type(), sizes))};
    }
    const Value unset = zeros(inputs, list.type(), sizes);
    Slots items;
    std::vector<std::size_t> all;
    for (const auto& item : list.items()) {
      all.push_back(items.size());
      items.push_back(to_slot(item ? *item : unset));
    }
    return rearrange(Inputs(items, inputs.device(), inputs.budget()), all,
                     [&](const std::vector<at::Tensor>& in) {
                       auto whole = sizes;
                       whole.insert(whole.begin(), length);
                       inputs.check_room(whole, in[0]);
                       return std::vector{at::stack(in)};
                     });
  };
}

Slots list_length(const Inputs& inputs) {
  return {at::scalar_tensor(static_cast<std::int64_t>(inputs.list(0).items().size()), at::kInt)};
}

}  // namespace

void add_tensor_list_ops(OpTable& table) {
  table.add("EmptyTensorList", reserve(/*empty=*/true));
  table.add("TensorListReserve", reserve(/*empty=*/false));
  table.add_plain("TensorListFromTensor", from_tensor);
  table.add_plain("TensorListGetItem", get_item);
  table.add_plain("TensorListSetItem", set_item);
  table.add_plain("TensorListPushBack", push_back);
  table.add("TensorListPopBack", Op{[](const KernelContext&) -> Kernel { return pop_back; },
                                    {"output_handle", "tensor"}});
  table.add("TensorListStack", stack);
  table.add_plain("TensorListLength", list_length);
}

}  // namespace muster::executor
