#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

#include "muster/base/error.h"
#include "muster/saved_model/onnx/conversion_internal.h"

namespace muster::onnx {

using graph::DataType;
using graph::NodeDef;
using graph::TensorValue;

namespace {

// "name" for output 0, "name:1" for others.
std::string canonical(std::string_view input) {
  const auto from = graph::parse_input(input);
  return from.index == 0 ? std::string(from.node) : fmt::format("{}:{}", from.node, from.index);
}

// Features of any length: as many as all examples have together.
bool is_sparse(std::string_view key) {
  return key.ends_with("/indices") || key.ends_with("/values");
}

// `rows`: whether the first axis has a row for each example, also if it is the only one.
std::vector<Dimension> dimensions(const std::string& key, const graph::Shape& shape,
                                  bool rows = false) {
  std::vector<Dimension> sizes;
  for (std::size_t i = 0; i < shape.dims.size(); ++i) {
    if (shape.dims[i] >= 0) {
      sizes.emplace_back(shape.dims[i]);
    } else if (i == 0 && !is_sparse(key) && (rows || shape.dims.size() > 1)) {
      sizes.emplace_back("batch");
    } else {
      sizes.emplace_back(fmt::format("{}_{}", key, i));
    }
  }
  return sizes;
}

// The sizes in the order `to`, if all axes but those of size 1 come in the same order as in `from`:
// then a reshape does what a transpose would. Empty if not.
std::vector<std::int64_t> moved_ones(const std::vector<std::int64_t>& sizes, const Order& from,
                                     const Order& to) {
  if (sizes.empty() || sizes.size() != to.size()) return {};
  const auto long_axes = [&](const Order& order) {
    Order left;
    for (const auto axis : order) {
      if (sizes[static_cast<std::size_t>(axis)] != 1) left.push_back(axis);
    }
    return left;
  };
  if (long_axes(from) != long_axes(to)) return {};
  std::vector<std::int64_t> moved;
  for (const auto axis : to) moved.push_back(sizes[static_cast<std::size_t>(axis)]);
  return moved;
}

}  // namespace

Order full_order(const Order& order, std::size_t rank) {
  if (!order.empty()) return order;
  Order identity(rank);
  std::iota(identity.begin(), identity.end(), std::int64_t{0});
  return identity;
}

TensorValue permuted(const TensorValue& value, const Order& order) {
  const std::size_t rank = value.shape.size();
  if (order.empty() || order == full_order({}, rank)) return value;
  const std::size_t width = graph::element_bytes(value.dtype);
  TensorValue out{value.dtype, std::vector<std::int64_t>(rank), std::string(value.bytes.size(), 0)};
  std::vector<std::size_t> strides(rank, width);
  for (std::size_t i = rank; i-- > 1;) {
    strides[i - 1] = strides[i] * static_cast<std::size_t>(value.shape[i]);
  }
  std::vector<std::size_t> steps(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    out.shape[i] = value.shape[axis];
    steps[i] = strides[axis];
  }
  std::vector<std::int64_t> place(rank, 0);
  std::size_t from = 0;
  for (std::size_t at = 0; at < out.bytes.size(); at += width) {
    std::memcpy(out.bytes.data() + at, value.bytes.data() + from, width);
    for (std::size_t i = rank; i-- > 0;) {
      from += steps[i];
      if (++place[i] < out.shape[i]) break;
      from -= steps[i] * static_cast<std::size_t>(out.shape[i]);
      place[i] = 0;
    }
  }
  return out;
}

// -------------------------------------------------------------------------------- Conversion

Conversion::Conversion(const graph::FrozenGraph& from, bool is_inside)
    : from_(from), is_inside_(is_inside) {
  for (const auto& [key, info] : from.signature.inputs) names_.insert(key);
  for (const auto& [key, info] : from.signature.outputs) {
    // An input and an output of one name would be one value.
    if (names_.contains(key)) {
      throw Unimplemented("'{}' is both an input and an output of the signature", key);
    }
  }
  for (const auto& [key, info] : from.signature.outputs) names_.insert(key);
  for (const NodeDef& node : from.graph.nodes) {
    for (const auto& input : node.inputs) readers_[canonical(input)].push_back(&node);
  }
  for (const auto& [key, info] : from.signature.outputs) {
    readers_[canonical(info.name)].push_back(nullptr);
  }
  add_inputs();
}

void Conversion::add_inputs() {
  for (const auto& [key, info] : from_.signature.inputs) {
    const std::string tensor = canonical(info.name);
    graph::Shape shape = info.shape;
    if (shape.unknown_rank && !is_inside_) {
      // A model has to tell the ranks of its inputs.
      shape = graph::Shape(std::vector<std::int64_t>(usual_rank(from_.graph, tensor), -1));
    }
    ValueInfo input{.name = key, .type = info.dtype, .shape = std::nullopt};
    Held held{.type = info.dtype, .forms = {{Order{}, key}}};
    if (!shape.unknown_rank) {
      input.shape = dimensions(key, shape, /*rows=*/!from_.columns.contains(key));
      held.rank = shape.dims.size();
    }
    model_.inputs.push_back(std::move(input));
    hold(tensor, std::move(held));
  }
}

std::string Conversion::unique(std::string_view name) {
  std::string used(name);
  for (int number = 1; !names_.insert(used).second; ++number) {
    used = fmt::format("{}_{}", name, number);
  }
  return used;
}

std::vector<std::string> Conversion::add_several(std::string_view name, std::string_view op,
                                                 std::vector<std::string> inputs,
                                                 std::size_t outputs, Attributes attributes) {
  Node node{
      .op = std::string(op), .inputs = std::move(inputs), .attributes = std::move(attributes)};
  for (std::size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(unique(i == 0 ? std::string(name) : fmt::format("{}:{}", name, i)));
    producers_.emplace(node.outputs.back(), model_.nodes.size());
  }
  node.name = node.outputs.at(0);
  if (op == "LabelEncoder") node.domain = kWordsDomain;
  model_.nodes.push_back(std::move(node));
  return model_.nodes.back().outputs;
}

std::string Conversion::add(std::string_view name, std::string_view op,
                            std::vector<std::string> inputs, Attributes attributes) {
  return add_several(name, op, std::move(inputs), 1, std::move(attributes)).front();
}

std::string Conversion::constant(const TensorValue& value, std::string_view name) {
  // A variable keeps its name, also where another has the same values.
  if (name.empty()) {
    const auto found = std::find_if(unnamed_constants_.begin(), unnamed_constants_.end(),
                                    [&](const auto& known) { return known.first == value; });
    if (found != unnamed_constants_.end()) return found->second;
  }
  std::string used = unique(name.empty() ? "constant" : name);
  model_.initializers.push_back({.name = used, .value = value});
  if (name.empty()) unnamed_constants_.emplace_back(value, used);
  return used;
}

std::string Conversion::ints(const std::vector<std::int64_t>& values) {
  return constant(TensorValue::vector(values));
}

std::string Conversion::cast(std::string_view name, const std::string& value, DataType to) {
  return add(name, "Cast", {value}, {{"to", std::int64_t{element_type(to)}}});
}

void Conversion::hold(const std::string& tensor, Held held) {
  held_.insert_or_assign(tensor, std::move(held));
}

void Conversion::hold_constant(const std::string& tensor, TensorValue value) {
  made_constants_.push_back(std::move(value));
  const TensorValue& kept = made_constants_.back();
  hold(tensor, {.type = kept.dtype, .rank = kept.shape.size(), .constant = &kept});
}

const Held& Conversion::held(const std::string& tensor) const {
  const auto found = held_.find(tensor);
  if (found == held_.end()) throw InvalidArgument("the graph lacks the tensor '{}'", tensor);
  return found->second;
}

const graph::LookupTable& Conversion::table(const std::string& node) const {
  const auto found = from_.tables.find(node);
  if (found == from_.tables.end()) {
    throw Unimplemented("the entries of the table '{}' are not known", node);
  }
  return found->second;
}

Order Conversion::order_of(const std::string& tensor) const {
  const auto& forms = held(tensor).forms;
  return forms.empty() ? Order{} : forms.front().first;
}

std::string Conversion::get(const std::string& tensor, const Order& order) {
  held(tensor);
  Held& known = held_.at(tensor);
  const std::size_t rank = known.rank.value_or(order.size());
  const Order wanted = full_order(order, rank);
  for (const auto& [held_order, value] : known.forms) {
    if (full_order(held_order, rank) == wanted) return value;
  }
  if (known.constant != nullptr) {
    std::string made = constant(permuted(*known.constant, wanted), tensor);
    known.forms.emplace_back(wanted, made);
    return made;
  }
  if (known.forms.empty() && !known.wide.empty()) {
    std::string made = cast(tensor, known.wide, known.type);
    known.forms.emplace_back(Order{}, made);
    return made;
  }
  if (known.forms.empty()) throw Internal("nothing holds the tensor '{}'", tensor);
  const auto [from, value] = known.forms.front();
  const Order have = full_order(from, rank);
  std::vector<std::int64_t> permutation;
  for (const std::int64_t axis : wanted) {
    permutation.push_back(std::find(have.begin(), have.end(), axis) - have.begin());
  }
  const auto sizes = moved_ones(known.sizes, have, wanted);
  std::string made = sizes.empty()
                         ? add(tensor + "/Transpose", "Transpose", {value}, {{"perm", permutation}})
                         : add(tensor + "/Reshape", "Reshape", {known.reshaped, ints(sizes)});
  known.forms.emplace_back(wanted, made);
  return made;
}

std::string Conversion::get_wide(const std::string& tensor) {
  const Held& known = held(tensor);
  if (known.type == DataType::kInt64) return get(tensor);
  if (!known.wide.empty()) return known.wide;
  if (known.type != DataType::kInt32) {
    throw InvalidArgument("'{}' is {}, where sizes are asked for", tensor,
                          graph::name_of(known.type));
  }
  if (known.constant != nullptr) {
    const auto narrow = known.constant->values<std::int32_t>();
    const std::vector<std::int64_t> values(narrow.begin(), narrow.end());
    return constant(TensorValue::of<std::int64_t>(known.constant->shape, values));
  }
  std::string made = cast(tensor + "/int64", get(tensor), DataType::kInt64);
  held_.at(tensor).wide = made;
  return made;
}

const NodeDef* Conversion::sole_reader(const std::string& tensor) const {
  const auto found = readers_.find(tensor);
  if (found == readers_.end() || found->second.size() != 1) return nullptr;
  return found->second.front();
}

bool Conversion::add_bias(const std::string& tensor, const std::string& bias) {
  const auto& forms = held(tensor).forms;
  if (forms.empty() || sole_reader(tensor) == nullptr) return false;
  const auto found = producers_.find(forms.front().second);
  if (found == producers_.end()) return false;
  Node& node = model_.nodes[found->second];
  if (node.op != "Conv" || node.inputs.size() != 2) return false;
  node.inputs.push_back(bias);
  return true;
}

void Conversion::rename(const std::string& from, const std::string& to) {
  for (auto& node : model_.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    std::replace(node.outputs.begin(), node.outputs.end(), from, to);
  }
  producers_.emplace(to, producers_.at(from));
  producers_.erase(from);
  for (auto& [tensor, held] : held_) {
    for (auto& form : held.forms) {
      if (form.second == from) form.second = to;
    }
    if (held.wide == from) held.wide = to;
    if (held.reshaped == from) held.reshaped = to;
  }
}

void Conversion::add_output(const std::string& key, const graph::TensorInfo& info) {
  const std::string value = get(canonical(info.name));
  // A node's output takes the name, unless it is an output of the model already.
  const bool taken = std::any_of(model_.outputs.begin(), model_.outputs.end(),
                                 [&](const auto& output) { return output.name == value; });
  if (producers_.contains(value) && !taken) {
    rename(value, key);
  } else {
    model_.nodes.push_back({.name = key, .op = "Identity", .inputs = {value}, .outputs = {key}});
  }
  ValueInfo output{.name = key, .type = info.dtype, .shape = std::nullopt};
  const auto rank = held(canonical(info.name)).rank;
  if (!info.shape.unknown_rank) {
    output.shape = dimensions(key, info.shape);
  } else if (rank) {
    output.shape = dimensions(key, graph::Shape(std::vector<std::int64_t>(*rank, -1)));
  } else if (!is_inside_) {
    throw InvalidArgument("'{}' has no known rank, which an ONNX model must tell", key);
  }
  model_.outputs.push_back(std::move(output));
}

void Conversion::drop_unread() {
  std::set<std::string, std::less<>> read;
  for (const auto& output : model_.outputs) read.insert(output.name);
  std::vector<Node> kept;
  for (auto node = model_.nodes.rbegin(); node != model_.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(),
                     [&](const auto& output) { return read.contains(output); })) {
      continue;
    }
    read.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  model_.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::erase_if(model_.initializers,
                [&](const Initializer& each) { return !read.contains(each.name); });
}

Model Conversion::take() {
  for (const auto& [key, info] : from_.signature.outputs) add_output(key, info);
  drop_unread();
  return std::move(model_);
}

// -------------------------------------------------------------------------------------- Call

Call::Call(const NodeDef& of, Conversion& target) : node(of), to(target) {
  for (const auto& input : of.inputs) inputs_.push_back(canonical(input));
}

const std::string& Call::tensor(std::size_t index) const {
  require(index < inputs_.size(), "it has fewer inputs than expected");
  return inputs_[index];
}

std::vector<std::int64_t> Call::numbers(std::size_t index, std::string_view what) const {
  const TensorValue* value = constant(index);
  require(value != nullptr, fmt::format("its {} must be a constant", what));
  if (value->dtype == DataType::kInt64) return value->values<std::int64_t>();
  const auto narrow = value->values<std::int32_t>();
  return {narrow.begin(), narrow.end()};
}

std::vector<std::int64_t> Call::sizes(std::size_t index) const {
  return constant(index) != nullptr ? numbers(index, "sizes") : held(index).elements;
}

std::int64_t Call::number(std::size_t index, std::string_view what) const {
  const auto values = numbers(index, what);
  require(values.size() == 1, fmt::format("its {} must be one number", what));
  return values[0];
}

std::int64_t Call::place_of(std::int64_t axis, const Order& order,
                            std::optional<std::size_t> rank) {
  if (axis < 0 && rank) axis += static_cast<std::int64_t>(*rank);
  if (order.empty()) return axis;
  const auto found = std::find(order.begin(), order.end(), axis);
  require(found != order.end(), fmt::format("its input has no axis {}", axis));
  return found - order.begin();
}

DataType Call::type(std::string_view attr) const { return graph::attr<DataType>(node, attr); }

std::string Call::add(std::string_view op, std::vector<std::string> inputs, Attributes attributes) {
  return to.add(fmt::format("{}/{}", node.name, op), op, std::move(inputs), std::move(attributes));
}

std::string Call::last(std::string_view op, std::vector<std::string> inputs,
                       Attributes attributes) {
  return to.add(node.name, op, std::move(inputs), std::move(attributes));
}

void Call::give(const std::string& value, DataType type, std::optional<std::size_t> rank,
                const Order& order, int output) {
  if (!order.empty()) rank = order.size();
  to.hold(output == 0 ? node.name : fmt::format("{}:{}", node.name, output),
          {.type = type, .rank = rank, .forms = {{order, value}}});
}

void Call::give_wide(const std::string& value, DataType type, std::optional<std::size_t> rank) {
  if (type == DataType::kInt64) return give(value, type, rank);
  to.hold(node.name, {.type = type, .rank = rank, .wide = value});
}

void Call::give_constant(TensorValue value, int output) {
  to.hold_constant(output == 0 ? node.name : fmt::format("{}:{}", node.name, output),
                   std::move(value));
}

void Call::give_permuted(std::size_t index, const Order& axes) {
  Held seen = held(index);
  const std::size_t rank = axes.size();
  require(!seen.rank || *seen.rank == rank, "its permutation has another rank than its input");
  seen.rank = rank;
  Order from(rank);
  std::vector<std::int64_t> place(rank, -1);
  for (std::size_t i = 0; i < rank; ++i) {
    from[i] = axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(rank) : axes[i];
    require(from[i] >= 0 && from[i] < static_cast<std::int64_t>(rank), "its permutation is none");
    place[static_cast<std::size_t>(from[i])] = static_cast<std::int64_t>(i);
  }
  require(std::find(place.begin(), place.end(), -1) == place.end(), "its permutation is none");
  if (seen.constant != nullptr) return give_constant(permuted(*seen.constant, from));
  if (seen.forms.empty()) seen.forms.emplace_back(Order{}, input(index));
  seen.wide.clear();
  const auto sizes = std::exchange(seen.sizes, {});
  if (sizes.size() == rank) {
    for (const std::int64_t axis : from) {
      seen.sizes.push_back(sizes[static_cast<std::size_t>(axis)]);
    }
  }
  for (auto& [order, value] : seen.forms) {
    Order next;
    for (const std::int64_t axis : full_order(order, rank)) {
      next.push_back(place[static_cast<std::size_t>(axis)]);
    }
    order = next;
  }
  to.hold(node.name, std::move(seen));
}

bool Call::is_wide(std::size_t index) const {
  const Held& known = held(index);
  return known.type == DataType::kInt32 && (!known.wide.empty() || known.constant != nullptr);
}

void Call::require(bool holds, std::string_view why) const {
  if (!holds) throw Unimplemented("{}", why);
}

}  // namespace muster::onnx
