#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "muster/base/error.h"
#include "muster/export/receiver_internal.h"
#include "muster/export/translation_internal.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using graph::Shape;
using graph::TensorValue;

DataType type_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return DataType::kString;
    case FeatureKind::kFloat:
      return DataType::kFloat;
    default:
      return DataType::kInt64;
  }
}

DataType type_of(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return DataType::kInt32;
    case CsvType::kInt64:
      return DataType::kInt64;
    case CsvType::kFloat:
      return DataType::kFloat;
    case CsvType::kDouble:
      return DataType::kDouble;
    default:
      return DataType::kString;  // What is ignored is passed over as text.
  }
}

Shape with_rows(const std::vector<std::int64_t>& shape) {
  Shape all{-1};
  all.dims.insert(all.dims.end(), shape.begin(), shape.end());
  return all;
}

/// Adds nodes and collects what they give.
class Receiver {
 public:
  explicit Receiver(GraphBuilder& builder) : builder_(builder) {}

  void add_raw(const ServingInput& input, const std::set<std::string>& needed) {
    for (const auto& [name, value] : input.example) {
      if (!needed.empty() && !needed.contains(name)) continue;
      if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
        const auto sizes = tensor->sizes().vec();
        add_placeholder(name, graph_type(tensor->scalar_type()), {sizes.begin() + 1, sizes.end()});
        continue;
      }
      const auto* strings = std::get_if<StringColumn>(&value);
      if (strings == nullptr || strings->is_ragged()) {
        throw Unimplemented(
            "feature '{}' is {}, which no raw serving input takes: give json_serving_input() or "
            "example_serving_input()",
            name, muster::describe(value));
      }
      const auto& sizes = strings->shape();
      add_placeholder(name, DataType::kString, {sizes.begin() + 1, sizes.end()});
    }
  }

  void add_named(const ServingInput& input, const std::set<std::string>& needed) {
    for (const auto& [name, spec] : input.specs) {
      if (const auto* fixed = std::get_if<FixedLen>(&spec)) {
        // One number an example comes as [batch].
        const bool single = fixed->shape == std::vector<std::int64_t>{1};
        add_placeholder(name, type_of(fixed->kind),
                        single ? std::vector<std::int64_t>{} : fixed->shape);
        if (fixed->default_value) receiver_.defaults.emplace(name, row_of_default(*fixed, single));
      } else {
        add_placeholder(name, type_of(std::get<VarLen>(spec).kind), {});
      }
    }
    count_rows_of_a_feature(needed);
  }

  void add_csv(const ServingInput& input, const std::set<std::string>& needed) {
    const std::string rows = add_input(input.key, input.key, DataType::kString, {});
    std::vector<std::string> inputs{rows};
    std::vector<DataType> types;
    for (const CsvField& field : input.fields) {
      types.push_back(type_of(field.type));
      inputs.push_back(builder_.constant(csv_default(field)));
    }
    builder_.enter("DecodeCSV");
    const auto node = builder_.add("DecodeCSV", "DecodeCSV", std::move(inputs),
                                   {{"OUT_TYPE", graph::AttrValue::list(types)},
                                    {"field_delim", std::string(1, input.csv.delimiter)},
                                    {"use_quote_delim", input.csv.use_quotes},
                                    {"na_value", input.csv.na_value},
                                    {"select_cols", graph::AttrValue(graph::AttrList{})}});
    for (std::size_t i = 0; i < input.fields.size(); ++i) {
      const CsvField& field = input.fields[i];
      if (field.type == CsvType::kIgnored) continue;
      std::string value = output_of(node, i);
      if (field.type == CsvType::kString && input.csv.strip_blanks) {
        builder_.enter(field.name);
        value = with_default(builder_.add("StringStrip", "StringStrip", {value}, {}), field);
      }
      value = named(field.name, value, types[i]);
      receiver_.features.emplace(field.name, GraphFeature{.type = types[i], .values = value});
    }
    count_rows_of_a_feature(needed);
  }

  void add_examples(const ServingInput& input, const std::set<std::string>& needed) {
    const std::string examples =
        add_input("input_example_tensor", input.key, DataType::kString, {});
    std::map<std::string, FixedLen> dense;
    std::map<std::string, VarLen> sparse;
    for (const auto& [name, spec] : input.specs) {
      if (const auto* fixed = std::get_if<FixedLen>(&spec)) {
        dense.emplace(name, *fixed);
      } else {
        sparse.emplace(name, std::get<VarLen>(spec));
      }
    }
    builder_.enter("ParseExample");
    std::vector<std::string> inputs{examples, builder_.constant(TensorValue::of_strings({0}, {}))};
    std::vector<DataType> sparse_types;
    std::vector<DataType> dense_types;
    std::vector<Shape> dense_shapes;
    for (const auto& [name, spec] : sparse) {
      inputs.push_back(builder_.constant(TensorValue::string_scalar(name)));
      sparse_types.push_back(type_of(spec.kind));
    }
    for (const auto& [name, spec] : dense) {
      inputs.push_back(builder_.constant(TensorValue::string_scalar(name)));
      dense_types.push_back(type_of(spec.kind));
      dense_shapes.emplace_back(spec.shape);
    }
    for (const auto& item : dense) inputs.push_back(builder_.constant(dense_default(item.second)));
    const auto node = builder_.add("ParseExample", "ParseExample", std::move(inputs),
                                   {{"Nsparse", static_cast<std::int64_t>(sparse.size())},
                                    {"Ndense", static_cast<std::int64_t>(dense.size())},
                                    {"sparse_types", graph::AttrValue::list(sparse_types)},
                                    {"Tdense", graph::AttrValue::list(dense_types)},
                                    {"dense_shapes", graph::AttrValue::list(dense_shapes)}});
    std::size_t next = 0;
    for (const auto& [name, spec] : sparse) {
      receiver_.features.emplace(
          name,
          GraphFeature{.type = type_of(spec.kind),
                       .values = named(name + "/values", output_of(node, sparse.size() + next),
                                       type_of(spec.kind)),
                       .indices = named(name + "/indices", output_of(node, next), DataType::kInt64),
                       .dense_shape = output_of(node, 2 * sparse.size() + next)});
      ++next;
    }
    next = 3 * sparse.size();
    for (const auto& [name, spec] : dense) {
      const auto value = named(name, output_of(node, next++), type_of(spec.kind));
      receiver_.features.emplace(
          name, GraphFeature{.type = type_of(spec.kind), .values = value, .shape = spec.shape});
    }
    count_rows_of_a_feature(needed);
  }

  GraphReceiver take() { return std::move(receiver_); }

 private:
  // Output of a parser, under the name that a tensor of the feature has where it is handed in:
  // conversions of the graph begin there.
  std::string named(const std::string& feature, const std::string& value, DataType type) {
    builder_.enter("");
    return builder_.add(feature, "Identity", {value}, {{"T", type}});
  }

  // So that a conversion that begins with the features needs no rows of text, and no words where
  // there are numbers.
  void count_rows_of_a_feature(const std::set<std::string>& needed) {
    const GraphFeature* source = nullptr;
    for (const auto& [name, feature] : receiver_.features) {
      if (feature.is_sparse() || !needed.contains(name)) continue;
      const bool number = feature.type != DataType::kString;
      if (source == nullptr || (number && source->type == DataType::kString)) source = &feature;
    }
    if (source != nullptr) builder_.set_batch_source(source->values, source->type);
  }

  // A field that is empty once it is stripped is a blank.
  std::string with_default(const std::string& stripped, const CsvField& field) {
    const auto* text = std::get_if<std::string>(&field.default_value);
    if (text == nullptr || text->empty()) return stripped;
    const auto empty = builder_.add("Equal", "Equal",
                                    {stripped, builder_.constant(TensorValue::string_scalar(""))},
                                    {{"T", DataType::kString}});
    return builder_.add("SelectV2", "SelectV2",
                        {empty, builder_.constant(TensorValue::string_scalar(*text)), stripped},
                        {{"T", DataType::kString}});
  }

  static std::string output_of(const std::string& node, std::size_t index) {
    return index == 0 ? node : node + ":" + std::to_string(index);
  }

  std::string add_input(const std::string& node_name, const std::string& key, DataType type,
                        const std::vector<std::int64_t>& shape) {
    builder_.enter("");
    const Shape whole = with_rows(shape);
    const auto node =
        builder_.add(node_name, "Placeholder", {}, {{"dtype", type}, {"shape", whole}});
    if (receiver_.inputs.empty()) builder_.set_batch_source(node, type);
    receiver_.inputs.emplace_back(key,
                                  GraphTensor{.name = node + ":0", .type = type, .shape = whole});
    return node;
  }

  void add_placeholder(const std::string& name, DataType type, std::vector<std::int64_t> shape) {
    const auto node = add_input(name, name, type, shape);
    receiver_.features.emplace(
        name, GraphFeature{.type = type, .values = node, .shape = std::move(shape)});
  }

  template <typename T>
  static TensorValue number_default(const CsvField& field) {
    std::vector<T> values;
    if (const auto* whole = std::get_if<std::int64_t>(&field.default_value)) {
      values.push_back(static_cast<T>(*whole));
    } else if (const auto* real = std::get_if<double>(&field.default_value)) {
      values.push_back(static_cast<T>(*real));
    }
    return TensorValue::vector(values);
  }

  // Value of a blank field; empty where the field is required.
  static TensorValue csv_default(const CsvField& field) {
    switch (field.type) {
      case CsvType::kInt32:
        return number_default<std::int32_t>(field);
      case CsvType::kInt64:
        return number_default<std::int64_t>(field);
      case CsvType::kFloat:
        return number_default<float>(field);
      case CsvType::kDouble:
        return number_default<double>(field);
      case CsvType::kIgnored:
        return TensorValue::of_strings({1}, {""});
      default:
        break;
    }
    const auto* text = std::get_if<std::string>(&field.default_value);
    if (text == nullptr) return TensorValue::of_strings({0}, {});
    return TensorValue::of_strings({1}, {*text});
  }

  // A row as the placeholder takes it.
  static TensorValue row_of_default(const FixedLen& spec, bool single) {
    TensorValue row = dense_default(spec);
    row.shape = single ? std::vector<std::int64_t>{} : spec.shape;
    row.shape.insert(row.shape.begin(), 1);
    return row;
  }

  // TensorFlow wants as many values as the shape holds; none: the feature is required.
  static TensorValue dense_default(const FixedLen& spec) {
    if (!spec.default_value) {
      return spec.kind == FeatureKind::kBytes   ? TensorValue::of_strings({0}, {})
             : spec.kind == FeatureKind::kFloat ? TensorValue::vector(std::vector<float>{})
                                                : TensorValue::vector(std::vector<std::int64_t>{});
    }
    const auto count = static_cast<std::size_t>(std::accumulate(
        spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>()));
    return std::visit(
        [&](auto values) {
          if (values.size() == 1) values.resize(count, values[0]);
          using T = typename decltype(values)::value_type;
          if constexpr (std::is_same_v<T, std::string>) {
            return TensorValue::of_strings(spec.shape, std::move(values));
          } else {
            return TensorValue::of<T>(spec.shape, std::span<const T>(values));
          }
        },
        *spec.default_value);
  }

  GraphBuilder& builder_;
  GraphReceiver receiver_;
};

// Two rows of values that differ, except where an id has to be one that is there.
FeatureValue made_values(DataType type, const std::vector<std::int64_t>& shape, bool is_id) {
  std::vector<std::int64_t> sizes{2};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const auto per_row = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  if (type == DataType::kString) {
    std::vector<std::string> words(2 * per_row, "a");
    std::fill(words.begin() + static_cast<std::ptrdiff_t>(per_row), words.end(), "b");
    return StringColumn(std::move(words), std::move(sizes));
  }
  auto rows = torch::zeros(sizes, torch::kDouble);
  const bool real = type == DataType::kFloat || type == DataType::kDouble;
  if (real) rows += 0.25;
  if (!is_id) rows.select(0, 1) += 1;
  const auto wanted = type == DataType::kInt32   ? torch::kInt
                      : type == DataType::kInt64 ? torch::kLong
                      : type == DataType::kFloat ? torch::kFloat
                                                 : torch::kDouble;
  return rows.to(wanted);
}

}  // namespace

GraphReceiver add_receiver(const ServingInput& input, const std::set<std::string>& needed,
                           GraphBuilder& builder) {
  Receiver receiver(builder);
  switch (input.kind) {
    case ServingInput::Kind::kRaw:
      receiver.add_raw(input, needed);
      break;
    case ServingInput::Kind::kNamedTensors:
      receiver.add_named(input, needed);
      break;
    case ServingInput::Kind::kCsv:
      receiver.add_csv(input, needed);
      break;
    case ServingInput::Kind::kExample:
      receiver.add_examples(input, needed);
      break;
  }
  return receiver.take();
}

Features example_of(const ServingInput& input, const std::set<std::string>& ids) {
  if (input.kind == ServingInput::Kind::kRaw) return input.example;
  Features example;
  for (const auto& [name, spec] : input.specs) {
    if (const auto* fixed = std::get_if<FixedLen>(&spec)) {
      example.add(name, made_values(type_of(fixed->kind), fixed->shape, ids.contains(name)));
    } else {
      const auto type = type_of(std::get<VarLen>(spec).kind);
      example.add(name, made_values(type, {}, ids.contains(name)));
    }
  }
  for (const CsvField& field : input.fields) {
    if (field.type == CsvType::kIgnored) continue;
    example.add(field.name, made_values(type_of(field.type), {}, ids.contains(field.name)));
  }
  return example;
}

}  // namespace muster::exporting
