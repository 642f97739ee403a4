#include <ATen/Functions.h>

#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/lines.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/saved_model/executor/bundle_value_internal.h"
#include "muster/saved_model/executor/op_table_internal.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::executor {
namespace {

using graph::DataType;

constexpr std::int64_t kWholeLine = -2;
constexpr std::int64_t kLineNumber = -1;

std::string resource_name(const graph::NodeDef& node) {
  const auto shared = graph::attr_or<std::string>(node, "shared_name", "");
  return shared.empty() ? node.name : shared;
}

Kernel make_variable(const KernelContext& context) {
  const auto type = graph::without_ref(graph::attr<DataType>(context.node, "dtype"));
  auto variable = context.resources.variable(resource_name(context.node), type);
  return [variable](const Inputs&) { return Slots{variable}; };
}

Kernel make_table(const KernelContext& context) {
  auto table = context.resources.table(resource_name(context.node),
                                       graph::attr<DataType>(context.node, "key_dtype"),
                                       graph::attr<DataType>(context.node, "value_dtype"));
  return [table](const Inputs&) { return Slots{table}; };
}

Kernel make_mutable_table(const KernelContext& context) {
  auto table = context.resources.table(resource_name(context.node),
                                       graph::attr<DataType>(context.node, "key_dtype"),
                                       graph::attr<DataType>(context.node, "value_dtype"));
  table->fill_with_nothing();
  return [table](const Inputs&) { return Slots{table}; };
}

Value on_device(Value value, at::Device device) {
  if (auto* tensor = std::get_if<at::Tensor>(&value)) *tensor = tensor->to(device);
  return value;
}

Slots assign(const Inputs& inputs) {
  inputs.variable(0)->assign(on_device(inputs.value(1), inputs.device()));
  return {inputs.slot(0)};
}

// Adds input 1 to the variable, or takes it away.
Slots assign_sum(const Inputs& inputs, int sign) {
  const Value change = on_device(inputs.value(1), inputs.device());
  inputs.variable(0)->update([&](const Value& held) -> Value {
    const auto* left = std::get_if<at::Tensor>(&held);
    const auto* right = std::get_if<at::Tensor>(&change);
    if (left == nullptr || right == nullptr || left->sizes() != right->sizes() ||
        left->scalar_type() != right->scalar_type()) {
      throw InvalidArgument("{} cannot be added to a variable that holds {}", describe(change),
                            describe(held));
    }
    return at::add(*left, *right, sign);
  });
  return {inputs.slot(0)};
}

void add_sums(OpTable& table, const std::string& name, int sign) {
  table.add_plain(name, [sign](const Inputs& inputs) { return assign_sum(inputs, sign); });
  table.add_plain(name + "VariableOp", [sign](const Inputs& inputs) {
    assign_sum(inputs, sign);
    return Slots{};
  });
}

Slots read(const Inputs& inputs) { return {to_slot(inputs.variable(0)->read())}; }

Slots is_initialized(const Inputs& inputs) {
  return {at::scalar_tensor(inputs.variable(0)->has_value(), at::kBool)};
}

// Only the model's own bundle: a graph must not read what it likes on this machine.
Kernel restore(const KernelContext& context) {
  const auto types = graph::attr<graph::AttrList>(context.node, "dtypes").types;
  return [types, allowed = context.variables_prefix](const Inputs& inputs) {
    const Path prefix = inputs.string(0);
    if (prefix != allowed) {
      throw PermissionDenied("a model may only restore its own variables {}, but asks for {}",
                             allowed.string(), prefix.string());
    }
    const StringTensor names = inputs.strings(1);
    const StringTensor slices = inputs.strings(2);
    if (names.values().size() != types.size() || slices.values().size() != types.size()) {
      throw InvalidArgument("{} names and {} slices for {} types", names.values().size(),
                            slices.values().size(), types.size());
    }
    const Path folder = prefix.parent_path().parent_path();
    const auto bundle = BundleReader::inside(folder, graph::variables_prefix({}));
    Slots out;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (!slices.values()[i].empty()) {
        throw Unimplemented("restoring the part {} of {}", slices.values()[i], names.values()[i]);
      }
      Value value = read_value(bundle, names.values()[i]);
      if (data_type_of(value) != types[i]) {
        throw InvalidArgument("{} is {} in the bundle, but the graph wants {}", names.values()[i],
                              describe(value), graph::name_of(types[i]));
      }
      out.push_back(to_slot(std::move(value)));
    }
    return out;
  };
}

template <typename T>
T number(std::string_view text, std::size_t line) {
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument("line {}: \"{}\" is no number", line + 1, text);
  }
  return parsed;
}

// One column of a text file as the keys or values of a table.
Value column(const std::vector<std::string_view>& lines, std::int64_t index, char delimiter,
             DataType type) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view rest = lines[i];
    if (index == kLineNumber) {
      texts.push_back(std::to_string(i));
      continue;
    }
    for (std::int64_t skip = 0; skip < index; ++skip) {
      const auto end = rest.find(delimiter);
      if (end == std::string_view::npos) {
        throw InvalidArgument("line {} has no column {}", i + 1, index);
      }
      rest.remove_prefix(end + 1);
    }
    texts.emplace_back(index == kWholeLine ? rest : rest.substr(0, rest.find(delimiter)));
  }
  const auto count = static_cast<std::int64_t>(texts.size());
  if (type == DataType::kString) return StringTensor(std::move(texts));
  if (at::isFloatingType(scalar_type(type))) {
    const at::Tensor numbers = at::empty({count}, at::kDouble);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      numbers.data_ptr<double>()[i] = number<double>(texts[i], i);
    }
    return numbers.to(scalar_type(type));
  }
  const at::Tensor numbers = at::empty({count}, at::kLong);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    numbers.data_ptr<std::int64_t>()[i] = number<std::int64_t>(texts[i], i);
  }
  return numbers.to(scalar_type(type));
}

bool is_inside(const Path& path, const Path& folder) {
  if (folder.empty()) return false;
  const Path rest = path.lexically_normal().lexically_relative(folder.lexically_normal());
  return !rest.empty() && *rest.begin() != ".." && *rest.begin() != ".";
}

// A file of the model's assets: a graph must not read what it likes on this machine.
std::string read_asset(const Inputs& inputs, const Path& path, const Path& assets) {
  if (!is_inside(path, assets)) {
    throw PermissionDenied("only the model's assets in {} may be read, not {}", assets.string(),
                           path.string());
  }
  if (const auto status = file_system_for(path).status(path)) {
    inputs.check_room(static_cast<std::int64_t>(status->size_bytes), 1);
  }
  // Nor by a symbolic link, be it the folder of the assets itself.
  const Path model = assets.parent_path();
  return read_file_inside(model,
                          path.lexically_normal().lexically_relative(model.lexically_normal()));
}

Kernel read_file_of_assets(const KernelContext& context) {
  return [assets = context.assets_dir](const Inputs& inputs) {
    return Slots{StringTensor({read_asset(inputs, inputs.string(0), assets)}, {})};
  };
}

Kernel fill_from_file(const KernelContext& context) {
  const auto& node = context.node;
  const auto key_index = graph::attr<std::int64_t>(node, "key_index");
  const auto value_index = graph::attr<std::int64_t>(node, "value_index");
  if (key_index < kWholeLine || value_index < kWholeLine) {
    throw InvalidArgument("key_index {} and value_index {} must be -2 or more", key_index,
                          value_index);
  }
  const auto size = graph::attr_or<std::int64_t>(node, "vocab_size", -1);
  const auto offset = graph::attr_or<std::int64_t>(node, "offset", 0);
  const auto delimiter = graph::attr_or<std::string>(node, "delimiter", "\t");
  if (delimiter.size() != 1) throw InvalidArgument("the delimiter must be one byte");
  return [=, assets = context.assets_dir](const Inputs& inputs) {
    const Path path = inputs.string(1);
    const std::string text = read_asset(inputs, path, assets);
    auto lines = lines_of(text);
    if (offset > 0) {
      lines.erase(lines.begin(),
                  lines.begin() + std::min(offset, static_cast<std::int64_t>(lines.size())));
    }
    if (size >= 0) {
      if (static_cast<std::int64_t>(lines.size()) < size) {
        throw InvalidArgument("{} has {} lines, but the vocabulary {}", path.string(), lines.size(),
                              size);
      }
      lines.resize(static_cast<std::size_t>(size));
    }
    const auto& table = inputs.table(0);
    try {
      table->fill(column(lines, key_index, delimiter[0], table->key_type()),
                  column(lines, value_index, delimiter[0], table->value_type()));
    } catch (Error& error) {
      error.add_context(path.string());
      throw;
    }
    return Slots{};
  };
}

Slots fill_table(const Inputs& inputs) {
  inputs.table(0)->fill(inputs.value(1), inputs.value(2));
  return {};
}

Slots insert(const Inputs& inputs) {
  inputs.table(0)->insert(inputs.value(1), inputs.value(2));
  return {};
}

Slots export_table(const Inputs& inputs) {
  auto [keys, values] = inputs.table(0)->entries();
  return {to_slot(std::move(keys)), to_slot(std::move(values))};
}

Slots find(const Inputs& inputs) {
  return {to_slot(inputs.table(0)->find(inputs.value(1), inputs.value(2), inputs.budget()))};
}

Slots table_size(const Inputs& inputs) {
  return {at::scalar_tensor(inputs.table(0)->size(), at::kLong)};
}

}  // namespace

void add_state_ops(OpTable& table) {
  for (const auto* name : {"VarHandleOp", "VariableV2", "Variable"}) table.add(name, make_variable);
  table.add_plain("ReadVariableOp", read);
  table.add_plain("Assign", assign);
  table.add_plain("AssignVariableOp", [](const Inputs& inputs) {
    assign(inputs);
    return Slots{};
  });
  add_sums(table, "AssignAdd", 1);
  add_sums(table, "AssignSub", -1);
  table.add_plain("VarIsInitializedOp", is_initialized);
  table.add_plain("IsVariableInitialized", is_initialized);
  table.add("RestoreV2", restore);
  table.add("ReadFile", read_file_of_assets);
  for (const auto* name : {"HashTable", "HashTableV2"}) table.add(name, make_table);
  for (const auto* name : {"MutableHashTable", "MutableHashTableV2"}) {
    table.add(name, make_mutable_table);
  }
  for (const auto* name : {"LookupTableInsert", "LookupTableInsertV2"}) {
    table.add_plain(name, insert);
  }
  for (const auto* name : {"LookupTableExport", "LookupTableExportV2"}) {
    table.add(name,
              Op{[](const KernelContext&) -> Kernel { return export_table; }, {"keys", "values"}});
  }
  for (const auto* name :
       {"InitializeTable", "InitializeTableV2", "LookupTableImport", "LookupTableImportV2"}) {
    table.add_plain(name, fill_table);
  }
  table.add("InitializeTableFromTextFile", fill_from_file);
  table.add("InitializeTableFromTextFileV2", fill_from_file);
  for (const auto* name : {"LookupTableFind", "LookupTableFindV2"}) table.add_plain(name, find);
  for (const auto* name : {"LookupTableSize", "LookupTableSizeV2"}) {
    table.add_plain(name, table_size);
  }
}

}  // namespace muster::executor
