#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/parse_spec.h"
#include "muster/saved_model/executor/example_columns_internal.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {

using graph::DataType;

namespace {

template <typename T>
std::vector<T> copy_of(const at::Tensor& tensor) {
  const T* data = tensor.data_ptr<T>();
  return {data, data + tensor.numel()};
}

}  // namespace

FeatureKind feature_kind(DataType type) {
  if (type == DataType::kString) return FeatureKind::kBytes;
  if (type == DataType::kFloat) return FeatureKind::kFloat;
  if (type == DataType::kInt64) return FeatureKind::kInt64;
  throw InvalidArgument("an Example holds no {}", graph::name_of(type));
}

std::vector<DataType> types_of(const graph::NodeDef& node, const char* name) {
  return graph::attr_or<graph::AttrList>(node, name, {}).types;
}

FixedLen dense_spec(const Inputs& inputs, std::size_t index, DataType type,
                    const std::vector<std::int64_t>& shape) {
  FixedLen spec{.kind = feature_kind(type), .shape = shape, .default_value = {}};
  const Value value = inputs.value(index);
  if (data_type_of(value) != type) {
    throw InvalidArgument("input {}, a default, must be {}, but is {}", index, graph::name_of(type),
                          describe(value));
  }
  if (const auto* strings = std::get_if<StringTensor>(&value)) {
    if (!strings->values().empty()) spec.default_value = strings->values();
  } else if (const at::Tensor held = inputs.host_tensor(index); held.numel() > 0) {
    if (type == DataType::kFloat) {
      spec.default_value = copy_of<float>(held);
    } else {
      spec.default_value = copy_of<std::int64_t>(held);
    }
  }
  return spec;
}

Value values_of(const ParsedColumn& column, std::vector<std::int64_t> shape) {
  return std::visit(
      [&](const auto& values) -> Value {
        using T = typename std::decay_t<decltype(values)>::value_type;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return StringTensor(std::vector<std::string>(values.begin(), values.end()), shape);
        } else {
          at::Tensor out = at::empty(shape, std::is_same_v<T, float> ? at::kFloat : at::kLong);
          if (!values.empty())
            std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(T));
          return out;
        }
      },
      column.values);
}

SparseColumn sparse_column(const ParsedColumn& column) {
  const auto& splits = column.row_splits;
  const auto rows = static_cast<std::int64_t>(splits.size()) - 1;
  const auto count = splits.back();
  at::Tensor indices = at::empty({count, 2}, at::kLong);
  auto* out = indices.data_ptr<std::int64_t>();
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = splits[static_cast<std::size_t>(row)];
    const auto end = splits[static_cast<std::size_t>(row) + 1];
    longest = std::max(longest, end - begin);
    for (auto i = begin; i < end; ++i) {
      *out++ = row;
      *out++ = i - begin;
    }
  }
  return {indices, values_of(column, {count}),
          at::tensor(std::vector<std::int64_t>{rows, longest}, at::kLong)};
}

namespace {

// Attributes that both versions of ParseExample have.
struct ExampleShape {
  explicit ExampleShape(const graph::NodeDef& node)
      : sparse_types(types_of(node, "sparse_types")), dense_types(types_of(node, "Tdense")) {
    if (!types_of(node, "ragged_value_types").empty()) throw Unimplemented("ragged features");
    const auto shapes = graph::attr_or<graph::AttrList>(node, "dense_shapes", {}).shapes;
    if (shapes.size() != dense_types.size()) {
      throw InvalidArgument("{} dense_shapes for {} dense features", shapes.size(),
                            dense_types.size());
    }
    for (const auto& shape : shapes) {
      if (!shape.is_known()) throw Unimplemented("dense features of any length");
      dense_shapes.push_back(shape.dims);
    }
    for (const auto type : sparse_types) feature_kind(type);
    for (const auto type : dense_types) feature_kind(type);
  }

  std::vector<DataType> sparse_types;
  std::vector<DataType> dense_types;
  std::vector<std::vector<std::int64_t>> dense_shapes;
};

struct ExampleKeys {
  std::vector<std::string> sparse;
  std::vector<std::string> dense;
  std::size_t first_default = 0;
};

Slots parse_examples(const Inputs& inputs, const ExampleShape& shape, const ExampleKeys& keys) {
  if (keys.sparse.size() != shape.sparse_types.size() ||
      keys.dense.size() != shape.dense_types.size()) {
    throw InvalidArgument("{} sparse and {} dense keys for {} and {} types", keys.sparse.size(),
                          keys.dense.size(), shape.sparse_types.size(), shape.dense_types.size());
  }
  FeatureSpecs specs;
  for (std::size_t i = 0; i < keys.sparse.size(); ++i) {
    specs.emplace_back(keys.sparse[i], VarLen{.kind = feature_kind(shape.sparse_types[i])});
  }
  for (std::size_t i = 0; i < keys.dense.size(); ++i) {
    specs.emplace_back(keys.dense[i], dense_spec(inputs, keys.first_default + i,
                                                 shape.dense_types[i], shape.dense_shapes[i]));
  }
  const StringTensor serialized = inputs.strings(0);
  if (serialized.shape().size() > 1) {
    throw InvalidArgument("input 0 must be a vector of Examples, but is {}", describe(serialized));
  }
  const std::vector<std::string_view> examples(serialized.values().begin(),
                                               serialized.values().end());
  for (const auto& sizes : shape.dense_shapes) {
    auto all = sizes;
    all.push_back(static_cast<std::int64_t>(examples.size()));
    check_shape(all);
    // Strings are views of the examples at first, then copies.
    inputs.check_room(*graph::element_count(all), sizeof(std::string_view) + sizeof(std::string));
  }
  const ExampleDecoder decoder(std::move(specs));
  const ParsedColumns parsed = decoder.decode(examples);
  Slots indices;
  Slots values;
  Slots shapes;
  for (std::size_t i = 0; i < keys.sparse.size(); ++i) {
    SparseColumn column = sparse_column(parsed.columns[i]);
    indices.emplace_back(column.indices);
    values.push_back(to_slot(std::move(column.values)));
    shapes.emplace_back(column.shape);
  }
  Slots out = std::move(indices);
  out.insert(out.end(), values.begin(), values.end());
  out.insert(out.end(), shapes.begin(), shapes.end());
  for (std::size_t i = 0; i < keys.dense.size(); ++i) {
    auto sizes = shape.dense_shapes[i];
    sizes.insert(sizes.begin(), serialized.shape().begin(), serialized.shape().end());
    out.push_back(to_slot(values_of(parsed.columns[keys.sparse.size() + i], sizes)));
  }
  return out;
}

// Version 1: every key is an input of its own.
Kernel parse_example(const KernelContext& context) {
  return [shape = ExampleShape(context.node)](const Inputs& inputs) {
    ExampleKeys keys;
    std::size_t next = 2;
    for (std::size_t i = 0; i < shape.sparse_types.size(); ++i) {
      keys.sparse.push_back(inputs.string(next++));
    }
    for (std::size_t i = 0; i < shape.dense_types.size(); ++i) {
      keys.dense.push_back(inputs.string(next++));
    }
    keys.first_default = next;
    return parse_examples(inputs, shape, keys);
  };
}

// Version 2: inputs 2 and 3 are all keys, input 4 those of ragged features.
Kernel parse_example_v2(const KernelContext& context) {
  return [shape = ExampleShape(context.node)](const Inputs& inputs) {
    return parse_examples(inputs, shape,
                          {.sparse = inputs.strings(2).values(),
                           .dense = inputs.strings(3).values(),
                           .first_default = 5});
  };
}

// One Example without an axis for a batch: keys are attributes, sparse values are vectors.
Kernel parse_single_example(const KernelContext& context) {
  const auto keys_of = [&](const char* name) {
    return graph::attr_or<graph::AttrList>(context.node, name, {}).strings;
  };
  const ExampleKeys keys{
      .sparse = keys_of("sparse_keys"), .dense = keys_of("dense_keys"), .first_default = 1};
  return [shape = ExampleShape(context.node), keys](const Inputs& inputs) {
    if (!inputs.strings(0).shape().empty()) {
      throw InvalidArgument("input 0 must be one Example, but is {}", describe(inputs.value(0)));
    }
    Slots out = parse_examples(inputs, shape, keys);
    const std::size_t sparse = keys.sparse.size();
    for (std::size_t i = 0; i < sparse; ++i) {
      out[i] = std::get<at::Tensor>(out[i]).narrow(1, 1, 1);
      out[2 * sparse + i] = std::get<at::Tensor>(out[2 * sparse + i]).narrow(0, 1, 1);
    }
    return out;
  };
}

int example_offset(const graph::NodeDef& node, std::string_view argument) {
  const auto sparse = static_cast<int>(types_of(node, "sparse_types").size());
  if (argument == "sparse_indices") return 0;
  if (argument == "sparse_values") return sparse;
  if (argument == "sparse_shapes") return 2 * sparse;
  if (argument == "dense_values") return 3 * sparse;
  throw InvalidArgument("node {} ({}) has no output {}", node.name, node.op, argument);
}

template <typename T>
std::optional<T> default_of(const Inputs& inputs, std::size_t index, at::ScalarType type) {
  const at::Tensor held = inputs.host_tensor(index);
  if (held.scalar_type() != type) {
    throw InvalidArgument("input {}, a default, must be {}, but is {}", index,
                          graph::name_of(data_type(type)), describe(held));
  }
  if (held.numel() == 0) return {};
  return held.data_ptr<T>()[0];
}

CsvField csv_field(const Inputs& inputs, std::size_t index, DataType type) {
  auto name = fmt::format("field {}", index - 1);
  switch (type) {
    case DataType::kInt32:
      return CsvField::int32(name, default_of<std::int32_t>(inputs, index, at::kInt));
    case DataType::kInt64:
      return CsvField::int64(name, default_of<std::int64_t>(inputs, index, at::kLong));
    case DataType::kFloat:
      return CsvField::float32(name, default_of<float>(inputs, index, at::kFloat));
    case DataType::kDouble:
      return CsvField::float64(name, default_of<double>(inputs, index, at::kDouble));
    case DataType::kString: {
      const StringTensor held = inputs.strings(index);
      return CsvField::string(
          name, held.values().empty() ? std::nullopt : std::optional(held.values()[0]));
    }
    default:
      throw InvalidArgument("CSV holds no {}", graph::name_of(type));
  }
}

Slot csv_column(const CsvColumn& column, const std::vector<std::int64_t>& shape) {
  return std::visit(
      [&](const auto& values) -> Slot {
        using Column = std::decay_t<decltype(values)>;
        if constexpr (std::is_same_v<Column, std::monostate>) {
          return std::monostate{};
        } else if constexpr (std::is_same_v<Column, std::vector<std::string_view>>) {
          return StringTensor(std::vector<std::string>(values.begin(), values.end()), shape);
        } else {
          return at::tensor(values).reshape(shape);
        }
      },
      column);
}

Kernel decode_csv(const KernelContext& context) {
  const auto types = types_of(context.node, "OUT_TYPE");
  const auto delimiter = graph::attr_or<std::string>(context.node, "field_delim", ",");
  if (delimiter.size() != 1) throw InvalidArgument("field_delim must be one byte");
  if (!graph::attr_or<graph::AttrList>(context.node, "select_cols", {}).ints.empty()) {
    throw Unimplemented("select_cols");
  }
  const CsvOptions options{
      .delimiter = delimiter[0],
      .use_quotes = graph::attr_or<bool>(context.node, "use_quote_delim", true),
      .strip_blanks = false,
      .na_value = graph::attr_or<std::string>(context.node, "na_value", "")};
  return [types, options](const Inputs& inputs) {
    std::vector<CsvField> fields;
    fields.reserve(types.size());
    for (std::size_t i = 0; i < types.size(); ++i) {
      fields.push_back(csv_field(inputs, i + 1, types[i]));
    }
    const StringTensor records = inputs.strings(0);
    const std::vector<std::string_view> rows(records.values().begin(), records.values().end());
    const CsvDecoder decoder(std::move(fields), options);
    const CsvColumns columns = decoder.decode(rows);
    Slots out;
    for (const auto& column : columns.columns) out.push_back(csv_column(column, records.shape()));
    return out;
  };
}

}  // namespace

void add_parsing_ops(OpTable& table) {
  table.add("ParseExample", Op{parse_example, {}, example_offset});
  table.add("ParseExampleV2", Op{parse_example_v2, {}, example_offset});
  table.add("ParseSingleExample", Op{parse_single_example, {}, example_offset});
  table.add("DecodeCSV", decode_csv);
}

}  // namespace muster::executor
