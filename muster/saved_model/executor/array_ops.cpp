#include <ATen/Functions.h>
#include <ATen/InferSize.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"
#include "muster/saved_model/executor/whole_arithmetic_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;

using Tensors = std::vector<at::Tensor>;

constexpr std::size_t kFirst[] = {0};

Slots move_first(const Inputs& inputs, const std::function<at::Tensor(const at::Tensor&)>& move) {
  return rearrange(inputs, kFirst, [&](const Tensors& in) { return Tensors{move(in[0])}; });
}

// Bytes that a view of a tensor takes.
constexpr std::int64_t kTensorBytes = 256;

// For a value that is made of all these together.
void check_room_for_all(const Inputs& inputs, const Tensors& all) {
  std::int64_t elements = 0;
  for (const auto& one : all) elements += one.numel();
  inputs.check_room(std::array{elements}, all[0]);
}

std::vector<std::size_t> range_of(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> range;
  for (; begin < end; ++begin) range.push_back(begin);
  return range;
}

Kernel constant(const KernelContext& context) {
  Value value = to_value(graph::attr<graph::TensorValue>(context.node, "value"));
  if (auto* strings = std::get_if<StringTensor>(&value)) {
    return [held = std::move(*strings)](const Inputs&) { return Slots{held}; };
  }
  at::Tensor held = std::get<at::Tensor>(std::move(value));
  // Whole numbers stay with the host, which reads them as shapes and axes.
  if (held.is_floating_point()) held = held.to(context.device);
  return [held](const Inputs&) { return Slots{held}; };
}

Slots identity(const Inputs& inputs) {
  const Slot& slot = inputs.slot(0);
  // A variable of TensorFlow 1 is read this way; a resource passes as it is.
  if (std::holds_alternative<std::shared_ptr<Variable>>(slot)) return {to_slot(inputs.value(0))};
  return {slot};
}

// Handles of resources pass; references to variables are read.
Kernel make_identity(const KernelContext& context) {
  const auto* type = graph::find_attr(context.node.attrs, "T");
  if (type && type->value == graph::AttrValue(DataType::kResource).value) {
    return [](const Inputs& inputs) { return Slots{inputs.slot(0)}; };
  }
  return identity;
}

Kernel check_numerics(const KernelContext& context) {
  return
      [message = graph::attr_or<std::string>(context.node, "message", "")](const Inputs& inputs) {
        const at::Tensor in = inputs.tensor(0);
        if (!at::isfinite(in).all().item<bool>()) {
          throw InvalidArgument("input 0 holds NaN or infinity: {}", message);
        }
        return Slots{in};
      };
}

Slots identity_n(const Inputs& inputs) {
  Slots out;
  for (std::size_t i = 0; i < inputs.size(); ++i) out.push_back(inputs.slot(i));
  return out;
}

at::ScalarType out_type(const KernelContext& context) {
  return scalar_type(graph::attr_or<DataType>(context.node, "out_type", DataType::kInt32));
}

Kernel shape(const KernelContext& context) {
  return [type = out_type(context)](const Inputs& inputs) {
    Slots out;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      out.emplace_back(whole_numbers(shape_of(inputs.value(i)), type));
    }
    return out;
  };
}

Kernel size(const KernelContext& context) {
  return [type = out_type(context)](const Inputs& inputs) {
    const auto count = graph::element_count(shape_of(inputs.value(0)));
    return Slots{at::scalar_tensor(count.value_or(0), at::kLong).to(type)};
  };
}

Slots rank(const Inputs& inputs) {
  return {at::scalar_tensor(static_cast<std::int64_t>(shape_of(inputs.value(0)).size()), at::kInt)};
}

Slots reshape(const Inputs& inputs) {
  const auto sizes = inputs.few_ints(1);
  if (inputs.is_strings(0)) {
    const StringTensor in = inputs.strings(0);
    const auto count = static_cast<std::int64_t>(in.values().size());
    return {in.reshaped(at::infer_size(sizes, count))};
  }
  const at::Tensor in = inputs.tensor(0);
  if (is_readable(in)) return {viewed(in, at::infer_size(sizes, in.numel()))};
  return {in.reshape(sizes)};
}

Slots expand_dims(const Inputs& inputs) {
  const auto axis = inputs.integer(1);
  if (inputs.is_strings(0)) {
    const StringTensor in = inputs.strings(0);
    auto shape = in.shape();
    shape.insert(shape.begin() + positive_axis(axis, static_cast<std::int64_t>(shape.size()) + 1),
                 1);
    return {in.reshaped(std::move(shape))};
  }
  const at::Tensor in = inputs.tensor(0);
  const auto at = positive_axis(axis, in.dim() + 1);
  if (!is_readable(in)) return {in.unsqueeze(at)};
  c10::SmallVector<std::int64_t, 8> sizes(in.sizes().begin(), in.sizes().end());
  sizes.insert(sizes.begin() + at, 1);
  return {viewed(in, sizes)};
}

Kernel squeeze(const KernelContext& context) {
  auto axes = graph::attr_or<graph::AttrList>(context.node, "squeeze_dims", {}).ints;
  if (axes.empty()) axes = graph::attr_or<graph::AttrList>(context.node, "axis", {}).ints;
  return [axes](const Inputs& inputs) {
    return move_first(inputs, [&](const at::Tensor& in) {
      std::vector<bool> drop(static_cast<std::size_t>(in.dim()), axes.empty());
      for (const auto axis : axes) {
        const auto at = positive_axis(axis, in.dim());
        if (in.size(at) != 1) {
          throw InvalidArgument("axis {} of {} cannot be squeezed: its size is not 1", axis,
                                describe(in));
        }
        drop[static_cast<std::size_t>(at)] = true;
      }
      std::vector<std::int64_t> sizes;
      for (std::int64_t i = 0; i < in.dim(); ++i) {
        if (!drop[static_cast<std::size_t>(i)] || in.size(i) != 1) sizes.push_back(in.size(i));
      }
      return in.reshape(sizes);
    });
  };
}

// Elements of a result above which it is made piece by piece.
constexpr std::int64_t kLarge = std::int64_t{1} << 23;

at::Tensor contiguous_copy(const Inputs& inputs, const at::Tensor& view) {
  if (view.numel() <= kLarge) return view.contiguous();
  const at::Tensor out = at::empty(view.sizes(), view.options());
  paced_copy(view, out, inputs.budget());
  return out;
}

// The parts one after the other along an axis, which each has; libtorch refuses others.
at::Tensor joined_parts(const Inputs& inputs, const Tensors& parts, std::int64_t axis) {
  std::vector<std::int64_t> sizes = parts[0].sizes().vec();
  auto& length = sizes[static_cast<std::size_t>(axis)];
  bool fits = true;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    fits = fits && parts[i].dim() == parts[0].dim();
    if (fits) length += parts[i].size(axis);
  }
  if (!fits || graph::element_count(sizes).value_or(0) <= kLarge) return at::cat(parts, axis);
  for (const at::Tensor& part : parts) {
    auto wanted = sizes;
    wanted[static_cast<std::size_t>(axis)] = part.size(axis);
    if (part.sizes() != at::IntArrayRef(wanted)) return at::cat(parts, axis);
  }
  const at::Tensor out = at::empty(sizes, parts[0].options());
  std::int64_t begin = 0;
  for (const at::Tensor& part : parts) {
    paced_copy(part, out.narrow(axis, begin, part.size(axis)), inputs.budget());
    begin += part.size(axis);
  }
  return out;
}

at::Tensor stacked_parts(const Inputs& inputs, const Tensors& parts, std::int64_t axis) {
  const bool fits = std::ranges::all_of(
      parts, [&](const at::Tensor& part) { return part.sizes() == parts[0].sizes(); });
  if (!fits || parts[0].numel() * static_cast<std::int64_t>(parts.size()) <= kLarge) {
    return at::stack(parts, axis);
  }
  Tensors rows;
  for (const at::Tensor& part : parts) rows.push_back(part.unsqueeze(axis));
  return joined_parts(inputs, rows, axis);
}

// The first inputs one after the other, where they are a few numbers of the host.
std::optional<at::Tensor> joined_few(const Inputs& inputs, std::size_t count, std::int64_t axis,
                                     bool is_new) {
  c10::SmallVector<at::Tensor, 8> parts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* tensor = std::get_if<at::Tensor>(&inputs.slots()[i]);
    if (tensor == nullptr || !tensor->defined() || !is_few(*tensor)) return std::nullopt;
    parts.push_back(*tensor);
  }
  const std::int64_t axes = count == 0 ? 0 : parts[0].dim() + (is_new ? 1 : 0);
  if (axis < -axes || axis >= axes) return std::nullopt;  // Whose error says so.
  return join_few(parts, axis < 0 ? axis + axes : axis, is_new);
}

// A few numbers of the host with axes of size 1 repeated; nothing for others.
std::optional<at::Tensor> repeated_few(const at::Tensor& in, at::IntArrayRef sizes) {
  const auto missing = static_cast<std::int64_t>(sizes.size()) - in.dim();
  if (!is_few(in) || missing < 0 || in.numel() == 0) return std::nullopt;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 1 || sizes[i] > kFewNumbers) return std::nullopt;
    count *= sizes[i];
    if (count > kFewNumbers) return std::nullopt;
    const auto axis = static_cast<std::int64_t>(i) - missing;
    if (axis >= 0 && in.size(axis) != 1 && in.size(axis) != sizes[i]) return std::nullopt;
  }
  at::Tensor out = empty_on_host(sizes, in.scalar_type());
  const std::size_t bytes = in.element_size();
  const auto* const from = static_cast<const char*>(in.data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  for (std::int64_t i = 0; i < count; ++i, to += bytes) {
    std::int64_t rest = i;
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (std::int64_t axis = in.dim() - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % sizes[static_cast<std::size_t>(axis + missing)];
      rest /= sizes[static_cast<std::size_t>(axis + missing)];
      place += in.size(axis) == 1 ? 0 : index * stride;
      stride *= in.size(axis);
    }
    std::memcpy(to, from + static_cast<std::size_t>(place) * bytes, bytes);
  }
  return out;
}

Kernel pack(const KernelContext& context) {
  return [axis = graph::attr_or<std::int64_t>(context.node, "axis", 0)](const Inputs& inputs) {
    if (auto few = joined_few(inputs, inputs.size(), axis, /*is_new=*/true)) {
      return Slots{std::move(*few)};
    }
    return rearrange(inputs, range_of(0, inputs.size()), [&](const Tensors& in) {
      check_room_for_all(inputs, in);
      const auto at = positive_axis(axis, in[0].dim() + 1);
      if (auto few = join_few(in, at, /*is_new=*/true)) return Tensors{std::move(*few)};
      return Tensors{stacked_parts(inputs, in, at)};
    });
  };
}

Kernel unpack(const KernelContext& context) {
  const auto axis = graph::attr_or<std::int64_t>(context.node, "axis", 0);
  const auto count = graph::attr<std::int64_t>(context.node, "num");
  return [axis, count](const Inputs& inputs) {
    return rearrange(inputs, kFirst, [&](const Tensors& in) {
      const auto at = positive_axis(axis, in[0].dim());
      if (in[0].size(at) != count) {
        throw InvalidArgument("axis {} of {} does not have the size {}", axis, describe(in[0]),
                              count);
      }
      inputs.check_room(count, kTensorBytes);
      return in[0].unbind(at);
    });
  };
}

Slots concat(const Inputs& inputs) {
  if (inputs.size() < 2) throw InvalidArgument("there are no inputs");
  const auto axis = inputs.integer(inputs.size() - 1);
  if (auto few = joined_few(inputs, inputs.size() - 1, axis, /*is_new=*/false)) {
    return Slots{std::move(*few)};
  }
  return rearrange(inputs, range_of(0, inputs.size() - 1), [&](const Tensors& in) {
    check_room_for_all(inputs, in);
    const auto at = positive_axis(axis, in[0].dim());
    if (auto few = join_few(in, at, /*is_new=*/false)) return Tensors{std::move(*few)};
    return Tensors{joined_parts(inputs, in, at)};
  });
}

Kernel split(const KernelContext& context) {
  const auto count = graph::attr<std::int64_t>(context.node, "num_split");
  return [count](const Inputs& inputs) {
    const auto axis = inputs.integer(0);
    return rearrange(inputs, range_of(1, 2), [&](const Tensors& in) {
      const auto at = positive_axis(axis, in[0].dim());
      if (count <= 0 || in[0].size(at) % count != 0) {
        throw InvalidArgument("axis {} of {} does not split in {}", axis, describe(in[0]), count);
      }
      inputs.check_room(count, kTensorBytes);
      if (in[0].size(at) == 0) return Tensors(static_cast<std::size_t>(count), in[0]);
      return in[0].split(in[0].size(at) / count, at);
    });
  };
}

Slots split_sizes(const Inputs& inputs) {
  auto sizes = inputs.ints(1);
  const auto axis = inputs.integer(2);
  return rearrange(inputs, kFirst, [&](const Tensors& in) {
    const auto at = positive_axis(axis, in[0].dim());
    std::int64_t rest = in[0].size(at);
    for (const auto part : sizes) {
      rest -= part < 0 ? 0 : part;
      if (part > in[0].size(at) || rest < 0) {
        throw InvalidArgument("axis {} of {} is shorter than its parts", axis, describe(in[0]));
      }
    }
    for (auto& part : sizes) part = part < 0 ? rest : part;
    inputs.check_room(static_cast<std::int64_t>(sizes.size()), kTensorBytes);
    return in[0].split_with_sizes(sizes, at);
  });
}

Slots tile(const Inputs& inputs) {
  const auto multiples = inputs.ints(1);
  return move_first(inputs, [&](const at::Tensor& in) {
    if (static_cast<std::int64_t>(multiples.size()) != in.dim()) {
      throw InvalidArgument("{} multiples for {}", multiples.size(), describe(in));
    }
    std::vector<std::int64_t> sizes = in.sizes().vec();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      check_shape(std::array{sizes[i], multiples[i]});
      sizes[i] *= multiples[i];
    }
    inputs.check_room(sizes, in);
    if (*graph::element_count(sizes) <= kLarge) return in.repeat(multiples);
    // Number of repeats of each axis, and the size that is repeated.
    std::vector<std::int64_t> once;
    std::vector<std::int64_t> repeated;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      once.insert(once.end(), {1, in.size(static_cast<std::int64_t>(i))});
      repeated.insert(repeated.end(), {multiples[i], in.size(static_cast<std::int64_t>(i))});
    }
    return contiguous_copy(inputs, in.reshape(once).expand(repeated)).reshape(sizes);
  });
}

Slots fill(const Inputs& inputs) {
  const auto sizes = inputs.ints(0);
  return rearrange(inputs, range_of(1, 2), [&](const Tensors& in) {
    inputs.check_room(sizes, in[0]);
    return Tensors{contiguous_copy(inputs, in[0].reshape({}).expand(sizes))};
  });
}

Slots broadcast_to(const Inputs& inputs) {
  const auto sizes = inputs.ints(1);
  return move_first(inputs, [&](const at::Tensor& in) {
    inputs.check_room(sizes, in);
    if (auto few = repeated_few(in, sizes)) return std::move(*few);
    // Not as a view, whose size the next operation would have to see through.
    return contiguous_copy(inputs, in.expand(sizes));
  });
}

// Select also takes one condition a row; SelectV2 broadcasts.
Kernel select(bool by_row) {
  return [by_row](const Inputs& inputs) {
    const at::Tensor condition = inputs.tensor(0, at::kBool);
    return rearrange(inputs, range_of(1, 3), [&](const Tensors& in) {
      at::Tensor chosen = condition.to(in[0].device());
      if (by_row && chosen.dim() == 1 && in[0].dim() > 1) {
        std::vector<std::int64_t> sizes(static_cast<std::size_t>(in[0].dim()), 1);
        sizes[0] = chosen.size(0);
        chosen = chosen.reshape(sizes);
      }
      const auto both = broadcast_sizes(in[0].sizes(), in[1].sizes());
      inputs.check_room(broadcast_sizes(both, chosen.sizes()), in[0]);
      return Tensors{paced_map(
          std::array{chosen, in[0], in[1]}, inputs.budget(),
          [](auto operands) { return at::where(operands[0], operands[1], operands[2]); })};
    });
  };
}

Slots transpose(const Inputs& inputs) {
  const auto permutation = inputs.ints(1);
  return move_first(inputs, [&](const at::Tensor& in) { return in.permute(permutation); });
}

std::vector<std::int64_t> torch_padding(const Inputs& inputs, std::int64_t rank) {
  const auto paddings = inputs.ints(1);
  if (static_cast<std::int64_t>(paddings.size()) != 2 * rank) {
    throw InvalidArgument("{} paddings for a tensor of rank {}", paddings.size(), rank);
  }
  // libtorch counts from the last axis.
  std::vector<std::int64_t> reversed;
  for (auto axis = static_cast<std::size_t>(rank); axis-- > 0;) {
    if (paddings[2 * axis] < 0 || paddings[2 * axis + 1] < 0) {
      throw InvalidArgument("a padding is negative");
    }
    reversed.push_back(paddings[2 * axis]);
    reversed.push_back(paddings[2 * axis + 1]);
  }
  return reversed;
}

// The axes in the order in which they are in memory, the innermost last.
std::vector<std::int64_t> memory_order(const at::Tensor& tensor) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.dim()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(
      order, [&](std::int64_t a, std::int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

// The padded tensor is in memory as the input does: images of TensorFlow's layout are views of
// libtorch's, and would be copied back and forth.
at::Tensor padded(const at::Tensor& in, const std::vector<std::int64_t>& padding,
                  const at::Scalar& value) {
  const auto order = memory_order(in);
  const auto rank = order.size();
  std::vector<std::int64_t> back(rank);
  std::vector<std::int64_t> ordered(2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    back[axis] = static_cast<std::int64_t>(i);
    for (const std::size_t side : {0U, 1U}) {
      ordered[2 * (rank - 1 - i) + side] = padding[2 * (rank - 1 - axis) + side];
    }
  }
  return at::constant_pad_nd(in.permute(order), ordered, value).permute(back);
}

Slots pad(const Inputs& inputs) {
  const at::Tensor in = inputs.tensor(0);
  const auto padding = torch_padding(inputs, in.dim());
  std::vector<std::int64_t> sizes = in.sizes().vec();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t pair = 2 * (sizes.size() - 1 - i);
    for (const std::int64_t more : {padding[pair], padding[pair + 1]}) {
      check_shape(std::array{more});
      sizes[i] += more;
    }
  }
  inputs.check_room(sizes, in);
  return {padded(in, padding, inputs.size() < 3 ? at::Scalar(0) : inputs.host_tensor(2).item())};
}

at::Tensor whole_input(const Inputs& inputs, std::size_t index) {
  at::Tensor in = inputs.tensor(index);
  if (at::isIntegralType(in.scalar_type(), /*includeBool=*/false)) return in;
  throw InvalidArgument("input {} must be whole numbers, but is {}", index, describe(in));
}

Kernel one_hot(const KernelContext& context) {
  const auto axis = graph::attr_or<std::int64_t>(context.node, "axis", -1);
  return [axis](const Inputs& inputs) {
    const at::Tensor indices = whole_input(inputs, 0).to(at::kLong);
    const auto depth = inputs.integer(1);
    if (depth < 0) throw InvalidArgument("the depth must not be negative: {}", depth);
    const auto at = positive_axis(axis, indices.dim() + 1);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(indices.dim()) + 1, 1);
    sizes[static_cast<std::size_t>(at)] = depth;
    inputs.check_room(std::array{depth}, at::kLong);
    inputs.check_room(std::array{indices.numel(), depth}, inputs.tensor(2));
    const at::Tensor classes = at::arange(depth, indices.options()).reshape(sizes);
    const at::Tensor hit = indices.unsqueeze(at).eq(classes);
    return Slots{at::where(hit, inputs.tensor(2), inputs.tensor(3))};
  };
}

// The places of what is not 0, row by row. For a few elements libtorch's own takes most of its time
// to get ready.
template <typename T>
at::Tensor places_of_true(const at::Tensor& in) {
  const T* const data = in.data_ptr<T>();
  const auto elements = in.numel();
  const auto count = std::count_if(data, data + elements, [](T value) { return value != T{}; });
  at::Tensor out = empty_on_host({count, in.dim()}, at::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < elements; ++i) {
    if (data[i] == T{}) continue;
    std::int64_t rest = i;
    for (std::int64_t axis = in.dim() - 1; axis >= 0; --axis) {
      to[axis] = rest % in.size(axis);
      rest /= in.size(axis);
    }
    to += in.dim();
  }
  return out;
}

Slots where_true(const Inputs& inputs) {
  const at::Tensor in = inputs.tensor(0);
  inputs.check_room(std::array{in.numel(), in.dim()}, at::kLong);
  constexpr std::int64_t kFew = 1 << 12;
  if (in.is_cpu() && in.is_contiguous() && in.numel() <= kFew) {
    if (in.scalar_type() == at::kBool) return {places_of_true<bool>(in)};
    if (in.scalar_type() == at::kFloat) return {places_of_true<float>(in)};
    if (in.scalar_type() == at::kLong) return {places_of_true<std::int64_t>(in)};
  }
  return {at::nonzero(in)};
}

Slots filled_like(const Inputs& inputs, int value) {
  const at::Tensor like = inputs.tensor(0);
  if (auto few = fill_few(like, value)) return {std::move(*few)};
  return {at::full_like(like, value)};
}

bool are_whole_numbers(const Inputs& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!at::isIntegralType(inputs.host_tensor(i).scalar_type(), /*includeBool=*/false)) {
      return false;
    }
  }
  return true;
}

Slots range(const Inputs& inputs) {
  const at::Tensor start = inputs.host_tensor(0);
  const at::Tensor step = inputs.host_tensor(2);
  if (are_whole_numbers(inputs)) {
    if (inputs.integer(2) == 0) throw InvalidArgument("the step of a range is 0");
    return {whole_range(inputs, inputs.integer(0), inputs.integer(1), inputs.integer(2),
                        start.scalar_type())};
  }
  if (step.item<double>() == 0) throw InvalidArgument("the step of a range is 0");
  const double length = inputs.host_tensor(1).item<double>() - start.item<double>();
  const double count = length / step.item<double>();
  if (count <= 0) return {at::empty({0}, start.options())};
  if (!(count <= static_cast<double>(kMaxElements))) {
    throw ResourceExhausted("a range of {} elements; at most {} are made", count, kMaxElements);
  }
  inputs.check_room(std::array{static_cast<std::int64_t>(count) + 1}, start);
  return {at::arange(start.item(), inputs.host_tensor(1).item(), step.item(), start.options())};
}

Kernel unique(const KernelContext& context) {
  const auto type =
      scalar_type(graph::attr_or<DataType>(context.node, "out_idx", DataType::kInt32));
  return [type](const Inputs& inputs) {
    // In the order in which values first occur, which libtorch's unique does not keep.
    const auto first_places = [&](const auto& values) {
      std::map<std::decay_t<decltype(values[0])>, std::int64_t> seen;
      std::vector<std::int64_t> firsts;
      std::vector<std::int64_t> places;
      Pace pace(inputs.budget());
      for (std::size_t i = 0; i < values.size(); ++i) {
        pace.add(64);  // A node of the map.
        const auto [place, is_new] =
            seen.emplace(values[i], static_cast<std::int64_t>(firsts.size()));
        if (is_new) firsts.push_back(static_cast<std::int64_t>(i));
        places.push_back(place->second);
      }
      return std::pair(firsts, places);
    };
    // A place for each element, and a node of the map for each new one.
    constexpr std::int64_t kBytesEach = 96;
    inputs.check_room(graph::element_count(shape_of(inputs.value(0))).value_or(0), kBytesEach);
    std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> found;
    if (inputs.is_strings(0)) {
      found = first_places(inputs.strings(0).values());
    } else if (inputs.tensor(0).is_floating_point()) {
      const at::Tensor in = inputs.host_tensor(0).to(at::kDouble).contiguous();
      found = first_places(std::span(in.data_ptr<double>(), static_cast<std::size_t>(in.numel())));
    } else {
      found = first_places(inputs.ints(0));
    }
    Slots out = move_first(inputs, [&](const at::Tensor& in) {
      return in.reshape({-1}).index_select(0, at::tensor(found.first, at::kLong).to(in.device()));
    });
    out.emplace_back(at::tensor(found.second, at::kLong).to(type));
    return out;
  };
}

// How many boundaries each number reaches; one that is none reaches all, as libtorch has it.
at::Tensor buckets_of_few(const at::Tensor& in, const std::vector<float>& boundaries) {
  at::Tensor out = empty_on_host(in.sizes(), at::kInt);
  auto* to = out.data_ptr<std::int32_t>();
  const auto count = [&](auto value) {
    // As libtorch searches: the first boundary that is not at most the value.
    const auto above = std::partition_point(boundaries.begin(), boundaries.end(),
                                            [&](float limit) { return !(limit > value); });
    return static_cast<std::int32_t>(above - boundaries.begin());
  };
  for (std::int64_t i = 0; i < in.numel(); ++i) {
    to[i] = in.scalar_type() == at::kFloat
                ? count(in.data_ptr<float>()[i])
                : count(static_cast<double>(in.data_ptr<std::int32_t>()[i]));
  }
  return out;
}

Kernel bucketize(const KernelContext& context) {
  const auto boundaries = graph::attr<graph::AttrList>(context.node, "boundaries").floats;
  return [boundaries](const Inputs& inputs) {
    const at::Tensor in = inputs.tensor(0);
    if (is_few(in) && (in.scalar_type() == at::kFloat || in.scalar_type() == at::kInt)) {
      return Slots{buckets_of_few(in, boundaries)};
    }
    const at::Tensor limits = at::tensor(boundaries, at::kFloat).to(in.device());
    // A value on a boundary belongs to the bucket above it.
    return Slots{at::bucketize(in.is_floating_point() ? in : in.to(at::kDouble),
                               in.scalar_type() == at::kFloat ? limits : limits.to(at::kDouble),
                               /*out_int32=*/true, /*right=*/true)};
  };
}

Kernel assert_true(const KernelContext& context) {
  return [name = context.node.name](const Inputs& inputs) {
    if (!inputs.host_tensor(0).all().item<bool>()) {
      constexpr std::size_t kMaxText = 1000;
      std::string text;
      for (std::size_t i = 1; i < inputs.size() && text.size() < kMaxText; ++i) {
        if (inputs.is_strings(i)) {
          for (const auto& part : inputs.strings(i).values()) {
            if (text.size() < kMaxText) text += " " + part.substr(0, kMaxText);
          }
        }
      }
      throw InvalidArgument("assertion failed:{}", text);
    }
    return Slots{};
  };
}

}  // namespace

void add_array_ops(OpTable& table) {
  table.add("Const", constant);
  for (const auto* name : {"Placeholder", "PlaceholderV2"}) {
    table.add_plain(name, [](const Inputs&) -> Slots {
      throw InvalidArgument("a placeholder was not fed; is it among the signature's inputs?");
    });
  }
  table.add_plain("NoOp", [](const Inputs&) { return Slots{}; });
  for (const auto* name :
       {"Identity", "StopGradient", "PreventGradient", "Snapshot", "PlaceholderWithDefault"}) {
    table.add(name, make_identity);
  }
  table.add("CheckNumerics", check_numerics);
  table.add_plain("IdentityN", identity_n);
  table.add("Shape", shape);
  table.add("ShapeN", shape);
  table.add("Size", size);
  table.add_plain("Rank", rank);
  table.add_plain("Reshape", reshape);
  table.add_plain("ExpandDims", expand_dims);
  table.add("Squeeze", squeeze);
  table.add("Pack", pack);
  table.add("Unpack", unpack);
  table.add_plain("ConcatV2", concat);
  table.add("Split", split);
  table.add_plain("SplitV", split_sizes);
  table.add_plain("Tile", tile);
  table.add_plain("Fill", fill);
  table.add_plain("BroadcastTo", broadcast_to);
  table.add_plain("Select", select(/*by_row=*/true));
  table.add_plain("SelectV2", select(/*by_row=*/false));
  table.add_plain("Transpose", transpose);
  table.add_plain("Pad", pad);
  table.add_plain("PadV2", pad);
  table.add("OneHot", one_hot);
  table.add_plain("Where", where_true);
  table.add_plain("Range", range);
  table.add("Unique", Op{unique, {"y", "idx"}});
  table.add("Bucketize", bucketize);
  table.add("Assert", assert_true);
  table.add_plain("ZerosLike", [](const Inputs& inputs) { return filled_like(inputs, 0); });
  table.add_plain("OnesLike", [](const Inputs& inputs) { return filled_like(inputs, 1); });
}

}  // namespace muster::executor
