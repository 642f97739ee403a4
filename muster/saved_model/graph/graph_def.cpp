#include "muster/saved_model/graph/graph_def.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <tuple>

#include "muster/base/error.h"

namespace muster::graph {
namespace {

template <typename Field, typename T>
AttrValue list_of(Field field, std::vector<T> values) {
  AttrList list;
  list.*field = std::move(values);
  return list;
}

int parse_index(std::string_view text, std::string_view input) {
  int index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0) {
    throw InvalidArgument("input '{}' has '{}' where the number of an output belongs", input, text);
  }
  return index;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

bool FunctionRef::operator==(const FunctionRef& other) const {
  return name == other.name && attrs == other.attrs;
}

bool AttrList::operator==(const AttrList& other) const {
  const auto parts = [](const AttrList& list) {
    return std::tie(list.strings, list.ints, list.bools, list.types, list.shapes, list.tensors,
                    list.functions);
  };
  return parts(*this) == parts(other) &&
         std::equal(floats.begin(), floats.end(), other.floats.begin(), other.floats.end(),
                    same_bits);
}

bool AttrValue::operator==(const AttrValue& other) const {
  const float* mine = std::get_if<float>(&value);
  const float* theirs = std::get_if<float>(&other.value);
  if (mine != nullptr && theirs != nullptr) return same_bits(*mine, *theirs);
  return value == other.value;
}

AttrValue AttrValue::list(std::vector<std::string> strings) {
  return list_of(&AttrList::strings, std::move(strings));
}
AttrValue AttrValue::list(std::vector<std::int64_t> ints) {
  return list_of(&AttrList::ints, std::move(ints));
}
AttrValue AttrValue::list(std::vector<float> floats) {
  return list_of(&AttrList::floats, std::move(floats));
}
AttrValue AttrValue::list(std::vector<DataType> types) {
  return list_of(&AttrList::types, std::move(types));
}
AttrValue AttrValue::list(std::vector<Shape> shapes) {
  return list_of(&AttrList::shapes, std::move(shapes));
}

std::string_view kind_of(const AttrValue& value) {
  constexpr std::string_view kKinds[] = {"nothing", "string", "int",  "float", "bool",       "type",
                                         "shape",   "tensor", "list", "func",  "placeholder"};
  static_assert(std::size(kKinds) == std::variant_size_v<AttrValue::Value>);
  return kKinds[value.value.index()];
}

InputRef parse_input(std::string_view input) {
  InputRef ref;
  std::string_view rest = input;
  if (!rest.empty() && rest[0] == '^') {
    ref.control = true;
    rest.remove_prefix(1);
  }
  const std::size_t colon = rest.find(':');
  ref.node = rest.substr(0, colon);
  if (ref.node.empty()) throw InvalidArgument("input '{}' names no node", input);
  if (colon == std::string_view::npos) return ref;
  if (ref.control) throw InvalidArgument("control input '{}' names an output", input);
  const std::string_view tail = rest.substr(colon + 1);
  const std::size_t second = tail.find(':');
  if (second != std::string_view::npos) ref.output = tail.substr(0, second);
  ref.index = parse_index(second == std::string_view::npos ? tail : tail.substr(second + 1), input);
  return ref;
}

const AttrValue* find_attr(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? nullptr : &found->second;
}

void throw_missing_attr(const NodeDef& node, std::string_view name, const AttrValue* found) {
  if (found == nullptr) {
    throw InvalidArgument("node '{}' ({}) has no attribute '{}'", node.name, node.op, name);
  }
  throw InvalidArgument("node '{}' ({}): the attribute '{}' is of an unexpected kind, {}",
                        node.name, node.op, name, kind_of(*found));
}

NodeDef constant_node(std::string name, TensorValue value) {
  const DataType type = value.dtype;
  return {.name = std::move(name),
          .op = "Const",
          .attrs = {{"dtype", type}, {"value", std::move(value)}}};
}

NodeDef placeholder_node(std::string name, DataType type, Shape shape) {
  return {.name = std::move(name),
          .op = "Placeholder",
          .attrs = {{"dtype", type}, {"shape", std::move(shape)}}};
}

}  // namespace muster::graph
