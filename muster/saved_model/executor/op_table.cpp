#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/executor/paced_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"

namespace muster::executor {

Slot to_slot(Value value) {
  return std::visit([](auto&& held) -> Slot { return std::forward<decltype(held)>(held); },
                    std::move(value));
}

std::int64_t bytes_of(const std::vector<std::string>& strings) {
  // A short string is in its object.
  constexpr std::size_t kInside = 15;
  std::size_t bytes = strings.size() * sizeof(std::string);
  for (const auto& text : strings) bytes += text.size() > kInside ? text.size() : 0;
  return static_cast<std::int64_t>(bytes);
}

Value value_of(const Slot& slot, std::size_t index) {
  if (const auto* tensor = std::get_if<at::Tensor>(&slot)) return *tensor;
  if (const auto* strings = std::get_if<StringTensor>(&slot)) return *strings;
  if (const auto* variable = std::get_if<std::shared_ptr<Variable>>(&slot)) {
    return (*variable)->read();
  }
  throw InvalidArgument("input {} is no tensor", index);
}

void Inputs::check_room(std::span<const std::int64_t> sizes, at::ScalarType type) const {
  check_shape(sizes);
  try {
    check_room(*graph::element_count(sizes), static_cast<std::int64_t>(c10::elementSize(type)));
  } catch (Error& error) {
    error.add_context(fmt::format("a value of the sizes [{}]", fmt::join(sizes, ", ")));
    throw;
  }
}

void Inputs::check_room(std::int64_t count, std::int64_t bytes_each) const {
  const auto bytes = graph::element_count(std::array{count, bytes_each});
  budget_.check_room(bytes.value_or(std::numeric_limits<std::int64_t>::max()));
}

const Slot& Inputs::slot(std::size_t index) const {
  if (index >= slots_.size()) {
    throw InvalidArgument("input {} is missing; there are {}", index, slots_.size());
  }
  return slots_[index];
}

Value Inputs::value(std::size_t index) const { return value_of(slot(index), index); }

bool Inputs::is_strings(std::size_t index) const {
  const Slot& held = slot(index);
  if (std::holds_alternative<std::shared_ptr<Variable>>(held)) {
    return std::holds_alternative<StringTensor>(value(index));
  }
  return std::holds_alternative<StringTensor>(held);
}

at::Device Inputs::place() const {
  if (device_.is_cpu()) return device_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& held = slots_[i];
    if (std::holds_alternative<std::shared_ptr<Variable>>(held)) return device_;
    const auto* tensor = std::get_if<at::Tensor>(&held);
    if (tensor && (tensor->is_floating_point() || !tensor->device().is_cpu())) return device_;
  }
  return at::kCPU;
}

at::Tensor Inputs::tensor(std::size_t index) const {
  // Most of all inputs are tensors that are where they are needed.
  const auto* direct = std::get_if<at::Tensor>(&slot(index));
  if (direct != nullptr && device_.is_cpu() && direct->is_cpu()) return *direct;
  const Value held = value(index);
  const auto* tensor = std::get_if<at::Tensor>(&held);
  if (!tensor) throw InvalidArgument("input {} must be numbers, but is strings", index);
  const at::Device here = place();
  return tensor->device() == here ? *tensor : tensor->to(here);
}

at::Tensor Inputs::tensor(std::size_t index, at::ScalarType type) const {
  at::Tensor held = tensor(index);
  if (held.scalar_type() != type) {
    throw InvalidArgument("input {} must be of type {}, but is {}", index,
                          graph::name_of(data_type(type)), describe(held));
  }
  return held;
}

at::Tensor Inputs::host_tensor(std::size_t index) const {
  const auto* direct = std::get_if<at::Tensor>(&slot(index));
  if (direct != nullptr && direct->is_cpu()) return direct->contiguous();
  const Value held = value(index);
  const auto* tensor = std::get_if<at::Tensor>(&held);
  if (!tensor) throw InvalidArgument("input {} must be numbers, but is strings", index);
  return tensor->cpu().contiguous();
}

StringTensor Inputs::strings(std::size_t index) const {
  Value held = value(index);
  auto* strings = std::get_if<StringTensor>(&held);
  if (!strings) {
    throw InvalidArgument("input {} must be strings, but is {}", index, describe(held));
  }
  return std::move(*strings);
}

std::string Inputs::string(std::size_t index) const {
  const StringTensor held = strings(index);
  if (held.values().size() != 1) {
    throw InvalidArgument("input {} must be one string, but is {}", index, describe(held));
  }
  return held.values()[0];
}

template <typename Ints>
Ints Inputs::whole(std::size_t index) const {
  const at::Tensor held = host_tensor(index);
  if (held.scalar_type() == at::kInt) {
    const auto* data = held.data_ptr<std::int32_t>();
    return Ints(data, data + held.numel());
  }
  if (!at::isIntegralType(held.scalar_type(), /*includeBool=*/false)) {
    throw InvalidArgument("input {} must be whole numbers, but is {}", index, describe(held));
  }
  const at::Tensor wide = held.scalar_type() == at::kLong ? held : held.to(at::kLong);
  const auto* data = wide.data_ptr<std::int64_t>();
  return Ints(data, data + wide.numel());
}

std::vector<std::int64_t> Inputs::ints(std::size_t index) const {
  return whole<std::vector<std::int64_t>>(index);
}

c10::SmallVector<std::int64_t, 8> Inputs::few_ints(std::size_t index) const {
  return whole<c10::SmallVector<std::int64_t, 8>>(index);
}

std::int64_t Inputs::integer(std::size_t index) const {
  const auto held = few_ints(index);
  if (held.size() != 1) {
    throw InvalidArgument("input {} must be one whole number, but is {}", index, held.size());
  }
  return held[0];
}

const std::shared_ptr<Variable>& Inputs::variable(std::size_t index) const {
  const auto* held = std::get_if<std::shared_ptr<Variable>>(&slot(index));
  if (!held) throw InvalidArgument("input {} must be a variable", index);
  return *held;
}

const std::shared_ptr<Table>& Inputs::table(std::size_t index) const {
  const auto* held = std::get_if<std::shared_ptr<Table>>(&slot(index));
  if (!held) throw InvalidArgument("input {} must be a lookup table", index);
  return *held;
}

const TensorList& Inputs::list(std::size_t index) const {
  const auto* held = std::get_if<TensorList>(&slot(index));
  if (!held) throw InvalidArgument("input {} must be a list of tensors", index);
  return *held;
}

const OpTable& OpTable::standard() {
  static const OpTable table = [] {
    OpTable all;
    add_array_ops(all);
    add_slice_ops(all);
    add_math_ops(all);
    add_reduction_ops(all);
    add_nn_ops(all);
    add_volume_ops(all);
    add_state_ops(all);
    add_string_ops(all);
    add_sparse_ops(all);
    add_parsing_ops(all);
    add_control_flow_ops(all);
    add_tensor_list_ops(all);
    add_dynamic_ops(all);
    add_block_ops(all);
    add_encoding_ops(all);
    add_random_ops(all);
    add_regex_ops(all);
    add_image_ops(all);
    add_sequence_ops(all);
    add_tensor_array_ops(all);
    return all;
  }();
  return table;
}

void OpTable::add(std::string name, Op op) {
  const auto [place, is_new] = ops_.emplace(std::move(name), std::move(op));
  if (!is_new) throw AlreadyExists("the operation {} is there already", place->first);
}

void OpTable::add_plain(std::string name, Kernel kernel) {
  add(std::move(name), [kernel = std::move(kernel)](const KernelContext&) { return kernel; });
}

const Op* OpTable::find(std::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

std::vector<std::string> OpTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, op] : ops_) names.push_back(name);
  return names;
}

void check_shape(std::span<const std::int64_t> sizes) {
  for (const std::int64_t size : sizes) {
    if (size < 0) throw InvalidArgument("[{}] has a negative size", fmt::join(sizes, ", "));
  }
  const auto count = graph::element_count(sizes);
  if (count && *count <= kMaxElements) return check_countable(sizes);
  throw ResourceExhausted("[{}] has more than {} elements", fmt::join(sizes, ", "), kMaxElements);
}

std::vector<std::int64_t> broadcast_sizes(std::span<const std::int64_t> left,
                                          std::span<const std::int64_t> right) {
  if (left.size() < right.size()) return broadcast_sizes(right, left);
  std::vector<std::int64_t> sizes(left.begin(), left.end());
  const std::size_t missing = left.size() - right.size();
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::int64_t& size = sizes[missing + i];
    if (size == 1) {
      size = right[i];
    } else if (right[i] != 1 && right[i] != size) {
      throw InvalidArgument("the shapes [{}] and [{}] do not fit", fmt::join(left, ", "),
                            fmt::join(right, ", "));
    }
  }
  return sizes;
}

std::int64_t positive_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    throw InvalidArgument("there is no axis {} in a tensor of rank {}", axis, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

Slots rearrange(
    const Inputs& inputs, std::span<const std::size_t> which,
    const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& move) {
  if (which.empty()) throw InvalidArgument("there are no inputs");
  const bool strings = inputs.is_strings(which[0]);
  std::vector<at::Tensor> sources;
  // Strings of the inputs, and the places where those of each input begin.
  std::vector<StringTensor> held;
  std::vector<std::int64_t> begins;
  std::int64_t count = 0;
  for (const auto index : which) {
    if (!strings) {
      sources.push_back(inputs.tensor(index));
      if (sources.back().scalar_type() != sources.front().scalar_type()) {
        throw InvalidArgument("inputs {} and {} differ in type: {} and {}", which[0], index,
                              describe(sources.front()), describe(sources.back()));
      }
      continue;
    }
    held.push_back(inputs.strings(index));
    begins.push_back(count);
    const auto more = static_cast<std::int64_t>(held.back().values().size());
    inputs.check_room(count + more, sizeof(std::int64_t));
    sources.push_back(at::arange(count, count + more, at::kLong).reshape(held.back().shape()));
    count += more;
  }
  const auto string_at = [&](std::int64_t place) -> const std::string& {
    const auto after = std::ranges::upper_bound(begins, place);
    const auto which_one = static_cast<std::size_t>(after - begins.begin()) - 1;
    return held[which_one].values()[static_cast<std::size_t>(place - begins[which_one])];
  };
  Slots out;
  for (const at::Tensor& moved : move(sources)) {
    if (!strings) {
      out.emplace_back(moved);
      continue;
    }
    const at::Tensor numbers = moved.contiguous();
    const std::span data(numbers.data_ptr<std::int64_t>(),
                         static_cast<std::size_t>(numbers.numel()));
    std::int64_t bytes = numbers.numel() * static_cast<std::int64_t>(sizeof(std::string));
    Pace pace(inputs.budget());
    for (const auto place : data) {
      bytes += static_cast<std::int64_t>(string_at(place).size());
      pace.add(sizeof(std::string));
    }
    inputs.check_room(bytes, 1);
    std::vector<std::string> values;
    values.reserve(data.size());
    for (const auto place : data) {
      values.push_back(string_at(place));
      pace.add(sizeof(std::string) + values.back().size());
    }
    out.emplace_back(StringTensor(std::move(values), numbers.sizes().vec()));
  }
  return out;
}

}  // namespace muster::executor
