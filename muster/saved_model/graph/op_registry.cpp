#include "muster/saved_model/graph/op_registry.h"

#include <algorithm>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/data/records/compression.h"
#include "muster/saved_model/graph/codec_internal.h"
#include "muster/saved_model/graph/graph_text_internal.h"

namespace muster::graph {
namespace {

// More values in one argument are a mistake in the graph.
constexpr std::int64_t kMostValues = 65'536;

// Stands for a type that an attribute of the enclosing function will tell.
constexpr DataType kUnknownType = DataType::kInvalid;

const AttrValue& need_attr(const Attrs& attrs, std::string_view name) {
  const AttrValue* found = find_attr(attrs, name);
  if (found == nullptr) throw InvalidArgument("there is no attribute '{}'", name);
  return *found;
}

template <typename T>
const T& need(const Attrs& attrs, std::string_view name) {
  const AttrValue& value = need_attr(attrs, name);
  if (const T* held = std::get_if<T>(&value.value)) return *held;
  throw InvalidArgument("the attribute '{}' is of an unexpected kind, {}", name, kind_of(value));
}

DataType type_of(const ArgDef& argument, const Attrs& attrs) {
  if (argument.type_attr.empty()) return argument.type;
  if (std::holds_alternative<AttrPlaceholder>(need_attr(attrs, argument.type_attr).value)) {
    return kUnknownType;
  }
  return need<DataType>(attrs, argument.type_attr);
}

// The values of one argument.
std::vector<DataType> types_of(const ArgDef& argument, const Attrs& attrs) {
  std::vector<DataType> types;
  if (!argument.type_list_attr.empty()) {
    types = need<AttrList>(attrs, argument.type_list_attr).types;
  } else if (!argument.number_attr.empty()) {
    const auto count = need<std::int64_t>(attrs, argument.number_attr);
    if (count < 0 || count > kMostValues) {
      throw InvalidArgument("the attribute '{}' is {}, which is no number of values",
                            argument.number_attr, count);
    }
    types.assign(static_cast<std::size_t>(count), type_of(argument, attrs));
  } else {
    types = {type_of(argument, attrs)};
  }
  if (argument.is_ref) {
    for (DataType& type : types) {
      if (type != kUnknownType) type = with_ref(type);
    }
  }
  return types;
}

// ---------------------------------------------------------------------------------- attributes

std::size_t list_size(const AttrList& list) {
  return list.strings.size() + list.ints.size() + list.floats.size() + list.bools.size() +
         list.types.size() + list.shapes.size() + list.tensors.size() + list.functions.size();
}

std::size_t size_of_kind(const AttrList& list, std::string_view kind) {
  if (kind == "string") return list.strings.size();
  if (kind == "int") return list.ints.size();
  if (kind == "float") return list.floats.size();
  if (kind == "bool") return list.bools.size();
  if (kind == "type") return list.types.size();
  if (kind == "shape") return list.shapes.size();
  if (kind == "tensor") return list.tensors.size();
  return kind == "func" ? list.functions.size() : 0;
}

bool is_of_kind(const AttrValue& value, std::string_view kind) {
  constexpr std::string_view kListPrefix = "list(";
  if (!kind.starts_with(kListPrefix)) return kind_of(value) == kind;
  const auto* list = std::get_if<AttrList>(&value.value);
  if (list == nullptr) return false;
  const std::string_view of = kind.substr(kListPrefix.size(), kind.size() - kListPrefix.size() - 1);
  return size_of_kind(*list, of) == list_size(*list);
}

template <typename T>
bool all_in(const std::vector<T>& values, const std::vector<T>& allowed) {
  return std::all_of(values.begin(), values.end(), [&](const T& value) {
    return std::find(allowed.begin(), allowed.end(), value) != allowed.end();
  });
}

bool is_allowed(const AttrValue& value, const AttrValue& allowed) {
  const auto* choices = std::get_if<AttrList>(&allowed.value);
  if (choices == nullptr) return true;
  if (const auto* type = std::get_if<DataType>(&value.value))
    return all_in({*type}, choices->types);
  if (const auto* text = std::get_if<std::string>(&value.value)) {
    return all_in({*text}, choices->strings);
  }
  const auto* list = std::get_if<AttrList>(&value.value);
  return list == nullptr ||
         (all_in(list->types, choices->types) && all_in(list->strings, choices->strings));
}

void check_minimum(const AttrValue& value, const AttrDef& attr) {
  std::int64_t measured = 0;
  if (const auto* number = std::get_if<std::int64_t>(&value.value)) {
    measured = *number;
  } else if (const auto* list = std::get_if<AttrList>(&value.value)) {
    measured = static_cast<std::int64_t>(list_size(*list));
  } else {
    return;
  }
  if (measured < *attr.minimum) {
    throw InvalidArgument("the attribute '{}' is {}, below its least, {}", attr.name, measured,
                          *attr.minimum);
  }
}

void check_attr(const AttrValue& value, const AttrDef& attr) {
  if (std::holds_alternative<AttrPlaceholder>(value.value)) return;
  if (!is_of_kind(value, attr.type)) {
    throw InvalidArgument("the attribute '{}' is of kind {} instead of {}", attr.name,
                          kind_of(value), attr.type);
  }
  if (attr.minimum) check_minimum(value, attr);
  if (attr.allowed_values && !is_allowed(value, *attr.allowed_values)) {
    const auto* type = std::get_if<DataType>(&value.value);
    const auto* text = std::get_if<std::string>(&value.value);
    throw InvalidArgument("the attribute '{}' has a value that the operation does not allow{}{}",
                          attr.name, type || text ? ": " : "",
                          type   ? name_of(*type)
                          : text ? std::string_view(*text)
                                 : std::string_view());
  }
}

// The attributes of a node, with defaults where it has none.
Attrs checked_attrs(const NodeDef& node, const OpDef& op) {
  for (const auto& row : node.attrs) {
    // Those with an underscore are notes for TensorFlow's own passes.
    if (row.first.starts_with('_')) continue;
    const bool known = std::any_of(op.attrs.begin(), op.attrs.end(),
                                   [&](const AttrDef& attr) { return attr.name == row.first; });
    if (!known) throw InvalidArgument("the operation has no attribute '{}'", row.first);
  }
  Attrs attrs;
  for (const AttrDef& attr : op.attrs) {
    const AttrValue* given = find_attr(node.attrs, attr.name);
    if (given == nullptr && attr.default_value) given = &*attr.default_value;
    if (given == nullptr) throw InvalidArgument("the attribute '{}' is missing", attr.name);
    check_attr(*given, attr);
    attrs.emplace(attr.name, *given);
  }
  return attrs;
}

// ------------------------------------------------------------------------------------- inputs

struct OpOutput {
  std::string name;
  std::vector<DataType> types;
};

struct Source {
  std::vector<OpOutput> outputs;
};
using Sources = std::unordered_map<std::string_view, Source>;

DataType type_from(const Sources& sources, std::string_view input) {
  const InputRef ref = parse_input(input);
  const auto found = sources.find(ref.node);
  if (found == sources.end()) throw InvalidArgument("there is no node for '{}'", input);
  auto index = static_cast<std::size_t>(ref.index);
  for (const OpOutput& output : found->second.outputs) {
    if (!ref.output.empty() && ref.output != output.name) continue;
    if (index < output.types.size()) return output.types[index];
    index -= output.types.size();
    if (!ref.output.empty()) break;
  }
  throw InvalidArgument("'{}' is no output of node '{}'", input, ref.node);
}

bool fits(DataType given, DataType wanted) {
  if (given == kUnknownType || wanted == kUnknownType || given == wanted) return true;
  return without_ref(given) == wanted;  // A reference is read where a value is wanted.
}

void check_inputs(const NodeDef& node, const OpDef& op, const Attrs& attrs,
                  const Sources& sources) {
  const std::vector<DataType> wanted = argument_types(op.inputs, attrs);
  std::size_t count = 0;
  for (const std::string& input : node.inputs) {
    if (parse_input(input).control) continue;
    if (count < wanted.size()) {
      const DataType given = type_from(sources, input);
      if (!fits(given, wanted[count])) {
        throw InvalidArgument("input {}, '{}', is {} instead of {}", count, input, name_of(given),
                              name_of(wanted[count]));
      }
    }
    ++count;
  }
  if (count != wanted.size()) {
    throw InvalidArgument("{} inputs where the operation takes {}", count, wanted.size());
  }
}

// One graph or function body, against the operations and the functions of its library.
class Scope {
 public:
  Scope(const OpRegistry& registry, const std::map<std::string, OpDef, std::less<>>& functions)
      : registry_(registry), functions_(functions) {}

  void add_argument(const ArgDef& argument, const Attrs& attrs) {
    sources_[argument.name].outputs.push_back({argument.name, types_of(argument, attrs)});
  }

  void check(const std::vector<NodeDef>& nodes) {
    std::vector<Attrs> attrs;
    for (const NodeDef& node : nodes) {
      at_node(node, [&] { attrs.push_back(add_node(node)); });
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      at_node(nodes[i], [&] { check_inputs(nodes[i], definition(nodes[i]), attrs[i], sources_); });
    }
  }

  DataType type_of_value(std::string_view input) const { return type_from(sources_, input); }

 private:
  template <typename Do>
  static void at_node(const NodeDef& node, Do&& body) {
    try {
      body();
    } catch (Error& error) {
      error.add_context(fmt::format("node '{}' ({})", node.name, node.op));
      throw;
    }
  }

  const OpDef& definition(const NodeDef& node) const {
    const auto function = functions_.find(node.op);
    if (function != functions_.end()) return function->second;
    const OpDef* op = registry_.find(node.op);
    if (op == nullptr) throw InvalidArgument("there is no operation '{}'", node.op);
    return *op;
  }

  Attrs add_node(const NodeDef& node) {
    const OpDef& op = definition(node);
    Attrs attrs = checked_attrs(node, op);
    Source source;
    for (const ArgDef& output : op.outputs) {
      source.outputs.push_back({output.name, types_of(output, attrs)});
    }
    sources_[node.name] = std::move(source);
    return attrs;
  }

  const OpRegistry& registry_;
  const std::map<std::string, OpDef, std::less<>>& functions_;
  Sources sources_;
};

// The attributes of a function are known when it is called: until then their types are open.
Attrs open_attrs(const OpDef& signature) {
  Attrs attrs;
  for (const AttrDef& attr : signature.attrs) attrs.emplace(attr.name, AttrPlaceholder{attr.name});
  return attrs;
}

void check_function(const FunctionDef& function, Scope scope) {
  const Attrs attrs = open_attrs(function.signature);
  for (const ArgDef& argument : function.signature.inputs) scope.add_argument(argument, attrs);
  scope.check(function.nodes);
  for (const ArgDef& output : function.signature.outputs) {
    const auto value = function.ret.find(output.name);
    if (value == function.ret.end()) throw InvalidArgument("nothing becomes '{}'", output.name);
    const DataType given = scope.type_of_value(value->second);
    const DataType wanted = type_of(output, attrs);
    if (!fits(given, wanted)) {
      throw InvalidArgument("its result '{}' is {} instead of {}", output.name, name_of(given),
                            name_of(wanted));
    }
  }
}

}  // namespace

OpRegistry OpRegistry::parse_text(std::string_view text) {
  const std::string bytes = op_list_bytes_from_text(text);
  const GraphLimits limits;
  Decoding decoding{.limits = limits};
  OpRegistry registry;
  for_each_field({bytes, 0}, nullptr, [&](std::uint32_t tag, wire::Reader& reader) {
    if (tag != wire::tag(1, wire::kBytes)) return false;
    OpDef op;
    decode_op(take_message(reader, decoding), decoding, op);
    registry.add(std::move(op));
    return true;
  });
  return registry;
}

OpRegistry OpRegistry::read(const Path& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
  try {
    return parse_text(read_all(*open_input(path), kMostBytes));
  } catch (Error& error) {
    error.add_context(fmt::format("reading {}", path.string()));
    throw;
  }
}

void OpRegistry::add(OpDef op) {
  std::string name = op.name;
  ops_.insert_or_assign(std::move(name), std::move(op));
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : &found->second;
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& row : ops_) names.push_back(row.first);
  return names;
}

std::vector<std::string> OpRegistry::spelt_out_defaults(const GraphDef& graph) const {
  std::vector<std::string> found;
  for (const NodeDef& node : graph.nodes) {
    const OpDef* op = find(node.op);
    if (op == nullptr) continue;
    for (const AttrDef& attr : op->attrs) {
      const AttrValue* given = find_attr(node.attrs, attr.name);
      if (given == nullptr || attr.default_value != *given) continue;
      found.push_back(fmt::format("{}: {}", node.name, attr.name));
    }
  }
  return found;
}

void OpRegistry::check(const GraphDef& graph) const {
  std::map<std::string, OpDef, std::less<>> functions;
  for (const FunctionDef& function : graph.functions) {
    functions.emplace(function.signature.name, function.signature);
  }
  Scope(*this, functions).check(graph.nodes);
  for (const FunctionDef& function : graph.functions) {
    try {
      check_function(function, Scope(*this, functions));
    } catch (Error& error) {
      error.add_context(fmt::format("function '{}'", function.signature.name));
      throw;
    }
  }
}

std::vector<DataType> argument_types(const std::vector<ArgDef>& arguments, const Attrs& attrs) {
  std::vector<DataType> types;
  for (const ArgDef& argument : arguments) {
    const std::vector<DataType> some = types_of(argument, attrs);
    types.insert(types.end(), some.begin(), some.end());
  }
  return types;
}

}  // namespace muster::graph
