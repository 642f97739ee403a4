#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"

// TensorArrays of TensorFlow 1, which its loops collect values with. There an array changes, and a
// number, the flow, goes from one operation to the next to keep their order. Here the flow is the
// array, which never changes, and the handle only says whether it may grow.
namespace muster::executor {
namespace {

using graph::DataType;
using ArrayItems = TensorList::Items;

Kernel tensor_array(const KernelContext& context) {
  const auto type = graph::attr<DataType>(context.node, "dtype");
  const auto shape = graph::attr_or(context.node, "element_shape", graph::Shape::any());
  const bool grows = graph::attr_or<bool>(context.node, "dynamic_size", false);
  return [=](const Inputs& inputs) {
    const auto count = inputs.integer(0);
    if (count < 0) throw InvalidArgument("a TensorArray of {} items", count);
    inputs.check_room(count, sizeof(ArrayItems::value_type));
    return Slots{at::scalar_tensor(grows, at::kBool),
                 TensorList(type, shape, ArrayItems(static_cast<std::size_t>(count)))};
  };
}

// The items, with room for those that are to be written.
ArrayItems items_with(const Inputs& inputs, const TensorList& array, std::int64_t last) {
  const auto size = static_cast<std::int64_t>(array.items().size());
  const bool grows = inputs.host_tensor(0).item<bool>();
  if (last < 0 || (last >= size && !grows)) {
    throw InvalidArgument("there is no item {} in a TensorArray of {}", last, size);
  }
  if (last >= kMaxElements) throw ResourceExhausted("a TensorArray of {} items", last);
  const auto wanted = std::max(size, last + 1);
  inputs.check_room(wanted, sizeof(ArrayItems::value_type));
  ArrayItems items = array.items();
  items.resize(static_cast<std::size_t>(wanted));
  return items;
}

void put(const TensorList& array, ArrayItems& items, std::int64_t index, Value value) {
  if (data_type_of(value) != array.type() || !graph::fits(array.element_shape(), shape_of(value))) {
    throw InvalidArgument("a TensorArray of {} {} cannot take {}", graph::name_of(array.type()),
                          graph::to_string(array.element_shape()), describe(value));
  }
  items[static_cast<std::size_t>(index)] = std::move(value);
}

const Value& item_of(const TensorList& array, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(array.items().size());
  if (index < 0 || index >= size) {
    throw InvalidArgument("there is no item {} in a TensorArray of {}", index, size);
  }
  const auto& item = array.items()[static_cast<std::size_t>(index)];
  if (!item) throw InvalidArgument("item {} of the TensorArray was never written", index);
  return *item;
}

Slots array_write(const Inputs& inputs) {
  const TensorList& array = inputs.list(3);
  const auto index = inputs.integer(1);
  ArrayItems items = items_with(inputs, array, index);
  put(array, items, index, inputs.value(2));
  return {array.with(std::move(items))};
}

Slots array_read(const Inputs& inputs) {
  return {to_slot(item_of(inputs.list(2), inputs.integer(1)))};
}

Slots array_gather(const Inputs& inputs) {
  const TensorList& array = inputs.list(2);
  Slots items;
  std::vector<std::size_t> all;
  for (const auto index : inputs.ints(1)) {
    all.push_back(items.size());
    items.push_back(to_slot(item_of(array, index)));
  }
  if (items.empty()) throw Unimplemented("no item of a TensorArray is asked for");
  return rearrange(Inputs(items, inputs.device(), inputs.budget()), all,
                   [&](const std::vector<at::Tensor>& in) {
                     auto sizes = in[0].sizes().vec();
                     sizes.insert(sizes.begin(), static_cast<std::int64_t>(in.size()));
                     inputs.check_room(sizes, in[0]);
                     return std::vector{at::stack(in)};
                   });
}

Slots array_scatter(const Inputs& inputs) {
  constexpr std::size_t kValues[] = {2};
  constexpr std::int64_t kViewBytes = 256;
  const TensorList& array = inputs.list(3);
  const auto indices = inputs.ints(1);
  const auto sizes = shape_of(inputs.value(2));
  if (sizes.empty() || sizes[0] != static_cast<std::int64_t>(indices.size())) {
    throw InvalidArgument("{} indices for {}", indices.size(), describe(inputs.value(2)));
  }
  if (indices.empty()) return {array};
  inputs.check_room(sizes[0], kViewBytes);
  const Slots parts =
      rearrange(inputs, kValues, [](const std::vector<at::Tensor>& in) { return in[0].unbind(0); });
  if (std::ranges::min(indices) < 0) throw InvalidArgument("an index is negative");
  ArrayItems items = items_with(inputs, array, std::ranges::max(indices));
  for (std::size_t i = 0; i < parts.size(); ++i)
    put(array, items, indices[i], value_of(parts[i], i));
  return {array.with(std::move(items))};
}

Slots array_size(const Inputs& inputs) {
  return {at::scalar_tensor(static_cast<std::int64_t>(inputs.list(1).items().size()), at::kInt)};
}

}  // namespace

void add_tensor_array_ops(OpTable& table) {
  table.add("TensorArrayV3", Op{tensor_array, {"handle", "flow"}});
  table.add_plain("TensorArrayWriteV3", array_write);
  table.add_plain("TensorArrayReadV3", array_read);
  table.add_plain("TensorArrayGatherV3", array_gather);
  table.add_plain("TensorArrayScatterV3", array_scatter);
  table.add_plain("TensorArraySizeV3", array_size);
  table.add_plain("TensorArrayCloseV3", [](const Inputs&) { return Slots{}; });
}

}  // namespace muster::executor
