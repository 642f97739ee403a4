#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/records/parse_spec.h"
#include "muster/saved_model/executor/example_columns_internal.h"
#include "muster/saved_model/executor/op_table_internal.h"

namespace muster::executor {
namespace {

using graph::DataType;
using Strings = std::vector<std::string>;

std::vector<std::vector<std::int64_t>> known_shapes(const graph::NodeDef& node, const char* name,
                                                    std::size_t wanted) {
  const auto shapes = graph::attr_or<graph::AttrList>(node, name, {}).shapes;
  if (shapes.size() != wanted) {
    throw InvalidArgument("{} {} for {} features", shapes.size(), name, wanted);
  }
  std::vector<std::vector<std::int64_t>> known;
  for (const auto& shape : shapes) {
    if (!shape.is_known()) throw Unimplemented("{}: features of any length", name);
    known.push_back(shape.dims);
  }
  return known;
}

// Attributes that all three operations have.
struct SequenceShape {
  explicit SequenceShape(const graph::NodeDef& node)
      : context_sparse(types_of(node, "context_sparse_types")),
        context_dense(types_of(node, "Tcontext_dense")),
        context_ragged(types_of(node, "context_ragged_value_types")),
        list_sparse(types_of(node, "feature_list_sparse_types")),
        list_dense(types_of(node, "feature_list_dense_types")),
        list_ragged(types_of(node, "feature_list_ragged_value_types")),
        context_splits(types_of(node, "context_ragged_split_types")),
        list_splits(types_of(node, "feature_list_ragged_split_types")),
        context_dense_shapes(known_shapes(node, "context_dense_shapes", context_dense.size())),
        list_dense_shapes(known_shapes(node, "feature_list_dense_shapes", list_dense.size())) {
    for (const auto* types : {&context_sparse, &context_dense, &context_ragged, &list_sparse,
                              &list_dense, &list_ragged}) {
      for (const auto type : *types) feature_kind(type);
    }
    if (context_splits.size() != context_ragged.size() ||
        list_splits.size() != list_ragged.size()) {
      throw InvalidArgument("ragged features need one type of splits each");
    }
  }

  std::vector<DataType> context_sparse, context_dense, context_ragged;
  std::vector<DataType> list_sparse, list_dense, list_ragged;
  std::vector<DataType> context_splits, list_splits;
  std::vector<std::vector<std::int64_t>> context_dense_shapes, list_dense_shapes;
};

// And what by inputs or attributes.
struct SequenceKeys {
  Strings context_sparse, context_dense, context_ragged;
  Strings list_sparse, list_dense, list_ragged;
  // Whether a dense feature list that is missing has no steps, for each of them.
  std::vector<bool> may_miss;
  std::size_t first_default = 0;
};

void check_count(const Strings& keys, const std::vector<DataType>& types, const char* what) {
  if (keys.size() == types.size()) return;
  throw InvalidArgument("{} keys of {} features for {} types", keys.size(), what, types.size());
}

void check_counts(const SequenceKeys& keys, const SequenceShape& shape) {
  check_count(keys.context_sparse, shape.context_sparse, "sparse context");
  check_count(keys.context_dense, shape.context_dense, "dense context");
  check_count(keys.context_ragged, shape.context_ragged, "ragged context");
  check_count(keys.list_sparse, shape.list_sparse, "sparse list");
  check_count(keys.list_dense, shape.list_dense, "dense list");
  check_count(keys.list_ragged, shape.list_ragged, "ragged list");
  if (keys.may_miss.size() != keys.list_dense.size()) {
    throw InvalidArgument("feature_list_dense_missing_assumed_empty has {} values for {} features",
                          keys.may_miss.size(), keys.list_dense.size());
  }
}

template <typename Specs>
void add_var_len(Specs& specs, const Strings& keys, const std::vector<DataType>& types) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    specs.emplace_back(keys[i], VarLen{.kind = feature_kind(types[i])});
  }
}

// In the order of the outputs: sparse, dense, ragged.
SequenceExampleDecoder sequence_decoder(const Inputs& inputs, const SequenceKeys& keys,
                                        const SequenceShape& shape) {
  FeatureSpecs context;
  SequenceSpecs lists;
  add_var_len(context, keys.context_sparse, shape.context_sparse);
  for (std::size_t i = 0; i < keys.context_dense.size(); ++i) {
    context.emplace_back(keys.context_dense[i],
                         dense_spec(inputs, keys.first_default + i, shape.context_dense[i],
                                    shape.context_dense_shapes[i]));
  }
  add_var_len(context, keys.context_ragged, shape.context_ragged);
  add_var_len(lists, keys.list_sparse, shape.list_sparse);
  for (std::size_t i = 0; i < keys.list_dense.size(); ++i) {
    lists.emplace_back(keys.list_dense[i],
                       FixedLenSequence{.kind = feature_kind(shape.list_dense[i]),
                                        .shape = shape.list_dense_shapes[i],
                                        .allow_missing = keys.may_miss[i]});
  }
  add_var_len(lists, keys.list_ragged, shape.list_ragged);
  return {std::move(context), std::move(lists)};
}

// Places of values by Example, step and number in the step.
SparseColumn sparse_list(const ParsedColumn& column) {
  const auto& rows = column.row_splits;
  const auto& steps = column.step_splits;
  const auto count = steps.back();
  at::Tensor indices = at::empty({count, 3}, at::kLong);
  auto* out = indices.data_ptr<std::int64_t>();
  std::int64_t most_steps = 0;
  std::int64_t longest = 0;
  for (std::size_t row = 0; row + 1 < rows.size(); ++row) {
    most_steps = std::max(most_steps, rows[row + 1] - rows[row]);
    for (auto step = rows[row]; step < rows[row + 1]; ++step) {
      const auto begin = steps[static_cast<std::size_t>(step)];
      const auto end = steps[static_cast<std::size_t>(step) + 1];
      longest = std::max(longest, end - begin);
      for (auto i = begin; i < end; ++i) {
        *out++ = static_cast<std::int64_t>(row);
        *out++ = step - rows[row];
        *out++ = i - begin;
      }
    }
  }
  const auto batch = static_cast<std::int64_t>(rows.size()) - 1;
  return {indices, values_of(column, {count}),
          at::tensor(std::vector<std::int64_t>{batch, most_steps, longest}, at::kLong)};
}

struct DenseList {
  Value values;
  at::Tensor lengths;
};

// Lists that are shorter than the longest are filled up with zeros or empty strings.
DenseList dense_list(const Inputs& inputs, const ParsedColumn& column,
                     const std::vector<std::int64_t>& step_shape) {
  const auto& rows = column.row_splits;
  const auto batch = static_cast<std::int64_t>(rows.size()) - 1;
  const at::Tensor splits = at::tensor(rows, at::kLong);
  const at::Tensor lengths = splits.narrow(0, 1, batch) - splits.narrow(0, 0, batch);
  const std::int64_t longest = batch > 0 ? lengths.max().item<std::int64_t>() : 0;
  auto sizes = step_shape;
  sizes.insert(sizes.begin(), {batch, longest});
  const auto each = *graph::element_count(step_shape);
  const bool strings = column.values.index() == 2;
  check_shape(sizes);
  inputs.check_room(*graph::element_count(sizes),
                    strings ? sizeof(std::string) : sizeof(std::int64_t));
  auto flat_sizes = step_shape;
  flat_sizes.insert(flat_sizes.begin(), rows.back());
  const Value flat = values_of(column, flat_sizes);
  const auto row_of = [&](std::int64_t row) { return rows[static_cast<std::size_t>(row)]; };
  if (const auto* tensor = std::get_if<at::Tensor>(&flat)) {
    at::Tensor out = at::zeros(sizes, tensor->options());
    for (std::int64_t row = 0; row < batch; ++row) {
      const auto length = row_of(row + 1) - row_of(row);
      out.select(0, row).narrow(0, 0, length).copy_(tensor->narrow(0, row_of(row), length));
    }
    return {out, lengths};
  }
  const auto& values = std::get<StringTensor>(flat).values();
  Strings out(static_cast<std::size_t>(batch * longest * each));
  for (std::int64_t row = 0; row < batch; ++row) {
    std::copy(values.begin() + row_of(row) * each, values.begin() + row_of(row + 1) * each,
              out.begin() + row * longest * each);
  }
  return {StringTensor(std::move(out), sizes), lengths};
}

// Runs of outputs of one kind.
class SequenceOutputs {
 public:
  void add_sparse(const ParsedColumn& column, SparseColumn (*make)(const ParsedColumn&)) {
    SparseColumn made = make(column);
    indices_.emplace_back(made.indices);
    values_.push_back(to_slot(std::move(made.values)));
    shapes_.emplace_back(made.shape);
  }
  void end_sparse() {
    for (Slots* run : {&indices_, &values_, &shapes_}) {
      all.insert(all.end(), run->begin(), run->end());
      run->clear();
    }
  }

  Slots all;

 private:
  Slots indices_;
  Slots values_;
  Slots shapes_;
};

at::Tensor splits_of(const std::vector<std::int64_t>& splits, DataType type) {
  return at::tensor(splits, at::kLong).to(scalar_type(type));
}

// The columns of sparse features and feature lists could be large though each Example is small.
std::vector<std::string_view> sequence_examples(const Inputs& inputs, const SequenceShape& shape) {
  const StringTensor serialized = inputs.strings(0);
  if (serialized.shape().size() > 1) {
    throw InvalidArgument("input 0 must be one SequenceExample or a vector of them, but is {}",
                          describe(serialized));
  }
  std::int64_t bytes = 0;
  for (const auto& example : serialized.values()) {
    bytes += static_cast<std::int64_t>(example.size());
  }
  // A value of one byte in the file has three places, a view and a string here.
  constexpr std::int64_t kBytesEach =
      3 * sizeof(std::int64_t) + sizeof(std::string_view) + sizeof(std::string);
  inputs.check_room(bytes, kBytesEach);
  for (const auto& sizes : shape.context_dense_shapes) {
    auto all = sizes;
    all.push_back(static_cast<std::int64_t>(serialized.values().size()));
    check_shape(all);
    inputs.check_room(*graph::element_count(all), sizeof(std::string_view) + sizeof(std::string));
  }
  for (const auto& sizes : shape.list_dense_shapes) check_shape(sizes);
  const auto& values = serialized.values();
  return {values.begin(), values.end()};
}

Slots parse_sequences(const Inputs& inputs, const SequenceShape& shape, const SequenceKeys& keys,
                      bool with_lengths) {
  check_counts(keys, shape);
  // The strings of the columns are views into what the slot holds.
  const StringTensor serialized = inputs.strings(0);
  const auto examples = sequence_examples(inputs, shape);
  const auto decoder = sequence_decoder(inputs, keys, shape);
  const ParsedColumns parsed = decoder.decode(examples);
  const auto batch = static_cast<std::int64_t>(examples.size());
  auto column = parsed.columns.begin();
  SequenceOutputs out;
  const auto add_ragged = [&](std::size_t count, const std::vector<DataType>& types, bool lists) {
    Slots outer;
    Slots inner;
    for (std::size_t i = 0; i < count; ++i, ++column) {
      const auto values = lists ? column->step_splits.back() : column->row_splits.back();
      out.all.push_back(to_slot(values_of(*column, {values})));
      outer.emplace_back(splits_of(column->row_splits, types[i]));
      if (lists) inner.emplace_back(splits_of(column->step_splits, types[i]));
    }
    out.all.insert(out.all.end(), outer.begin(), outer.end());
    out.all.insert(out.all.end(), inner.begin(), inner.end());
  };
  for (std::size_t i = 0; i < keys.context_sparse.size(); ++i) {
    out.add_sparse(*column++, sparse_column);
  }
  out.end_sparse();
  for (const auto& sizes : shape.context_dense_shapes) {
    auto all = sizes;
    all.insert(all.begin(), batch);
    out.all.push_back(to_slot(values_of(*column++, all)));
  }
  add_ragged(keys.context_ragged.size(), shape.context_splits, /*lists=*/false);
  for (std::size_t i = 0; i < keys.list_sparse.size(); ++i) out.add_sparse(*column++, sparse_list);
  out.end_sparse();
  Slots lengths;
  for (const auto& sizes : shape.list_dense_shapes) {
    DenseList made = dense_list(inputs, *column++, sizes);
    out.all.push_back(to_slot(std::move(made.values)));
    lengths.emplace_back(made.lengths);
  }
  if (with_lengths) out.all.insert(out.all.end(), lengths.begin(), lengths.end());
  add_ragged(keys.list_ragged.size(), shape.list_splits, /*lists=*/true);
  return std::move(out.all);
}

// The outputs of one Example have no axis for a batch.
void drop_batch(Slots& out, const SequenceShape& shape, bool with_lengths) {
  std::size_t next = 0;
  const auto drop_first = [&](Slot& slot) {
    if (auto* strings = std::get_if<StringTensor>(&slot)) {
      auto sizes = strings->shape();
      sizes.erase(sizes.begin());
      *strings = strings->reshaped(sizes);
    } else {
      slot = std::get<at::Tensor>(slot).select(0, 0);
    }
  };
  const auto drop_sparse = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto& indices = std::get<at::Tensor>(out[next + i]);
      indices = indices.narrow(1, 1, indices.size(1) - 1);
      auto& sizes = std::get<at::Tensor>(out[next + 2 * count + i]);
      sizes = sizes.narrow(0, 1, sizes.size(0) - 1);
    }
    next += 3 * count;
  };
  const auto drop_dense = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) drop_first(out[next++]);
  };
  drop_sparse(shape.context_sparse.size());
  drop_dense(shape.context_dense.size());
  drop_sparse(shape.list_sparse.size());
  drop_dense(shape.list_dense.size() * (with_lengths ? 2 : 1));
}

Slots parse_any(const Inputs& inputs, const SequenceShape& shape, const SequenceKeys& keys,
                bool with_lengths) {
  const bool one = inputs.strings(0).shape().empty();
  if (one && !(shape.context_ragged.empty() && shape.list_ragged.empty())) {
    throw Unimplemented("ragged features of one SequenceExample; give a vector of one");
  }
  Slots out = parse_sequences(inputs, shape, keys, with_lengths);
  if (one) drop_batch(out, shape, with_lengths);
  return out;
}

std::vector<bool> which_of(const Strings& keys, const Strings& named) {
  std::vector<bool> which;
  for (const auto& key : keys) which.push_back(std::ranges::count(named, key) > 0);
  return which;
}

// Keys are attributes.
Kernel parse_sequence_example(const KernelContext& context) {
  const auto keys_of = [&](const char* name) {
    return graph::attr_or<graph::AttrList>(context.node, name, {}).strings;
  };
  SequenceKeys keys{.context_sparse = keys_of("context_sparse_keys"),
                    .context_dense = keys_of("context_dense_keys"),
                    .context_ragged = {},
                    .list_sparse = keys_of("feature_list_sparse_keys"),
                    .list_dense = keys_of("feature_list_dense_keys"),
                    .list_ragged = {},
                    .may_miss = {},
                    .first_default = 2};
  keys.may_miss = which_of(keys.list_dense, keys_of("feature_list_dense_missing_assumed_empty"));
  return [shape = SequenceShape(context.node), keys](const Inputs& inputs) {
    return parse_any(inputs, shape, keys, /*with_lengths=*/true);
  };
}

// Keys of one kind are one input.
Kernel parse_sequence_example_v2(const KernelContext& context) {
  return [shape = SequenceShape(context.node)](const Inputs& inputs) {
    const auto keys_of = [&](std::size_t index) { return inputs.strings(index).values(); };
    SequenceKeys keys{.context_sparse = keys_of(2),
                      .context_dense = keys_of(3),
                      .context_ragged = keys_of(4),
                      .list_sparse = keys_of(5),
                      .list_dense = keys_of(6),
                      .list_ragged = keys_of(7),
                      .may_miss = {},
                      .first_default = 9};
    const at::Tensor flags = inputs.host_tensor(8);
    if (flags.scalar_type() != at::kBool) {
      throw InvalidArgument("input 8 must be DT_BOOL, but is {}", describe(flags));
    }
    const bool* begin = flags.data_ptr<bool>();
    keys.may_miss.assign(begin, begin + flags.numel());
    return parse_any(inputs, shape, keys, /*with_lengths=*/true);
  };
}

// Every key is an input of its own.
Kernel parse_single_sequence_example(const KernelContext& context) {
  return [shape = SequenceShape(context.node)](const Inputs& inputs) {
    if (!inputs.strings(0).shape().empty()) {
      throw InvalidArgument("input 0 must be one SequenceExample, but is {}",
                            describe(inputs.value(0)));
    }
    std::size_t next = 2;
    const auto take = [&](std::size_t count) {
      Strings keys;
      while (keys.size() < count) keys.push_back(inputs.string(next++));
      return keys;
    };
    SequenceKeys keys;
    keys.context_sparse = take(shape.context_sparse.size());
    keys.context_dense = take(shape.context_dense.size());
    keys.list_sparse = take(shape.list_sparse.size());
    keys.list_dense = take(shape.list_dense.size());
    keys.may_miss = which_of(keys.list_dense, inputs.strings(1).values());
    keys.first_default = next;
    return parse_any(inputs, shape, keys, /*with_lengths=*/false);
  };
}

int sequence_offset(const graph::NodeDef& node, std::string_view argument) {
  const bool single = node.op == "ParseSingleSequenceExample";
  const std::pair<std::string_view, const char*> runs[] = {
      {"context_sparse_indices", "context_sparse_types"},
      {"context_sparse_values", "context_sparse_types"},
      {"context_sparse_shapes", "context_sparse_types"},
      {"context_dense_values", "Tcontext_dense"},
      {"context_ragged_values", "context_ragged_value_types"},
      {"context_ragged_row_splits", "context_ragged_split_types"},
      {"feature_list_sparse_indices", "feature_list_sparse_types"},
      {"feature_list_sparse_values", "feature_list_sparse_types"},
      {"feature_list_sparse_shapes", "feature_list_sparse_types"},
      {"feature_list_dense_values", "feature_list_dense_types"},
      {"feature_list_dense_lengths", single ? "" : "feature_list_dense_types"},
      {"feature_list_ragged_values", "feature_list_ragged_value_types"},
      {"feature_list_ragged_outer_splits", "feature_list_ragged_split_types"},
      {"feature_list_ragged_inner_splits", "feature_list_ragged_split_types"}};
  int offset = 0;
  for (const auto& [name, types] : runs) {
    if (name == argument) return offset;
    offset += static_cast<int>(types_of(node, types).size());
  }
  throw InvalidArgument("node {} ({}) has no output {}", node.name, node.op, argument);
}

}  // namespace

void add_sequence_ops(OpTable& table) {
  table.add("ParseSequenceExample", Op{parse_sequence_example, {}, sequence_offset});
  table.add("ParseSequenceExampleV2", Op{parse_sequence_example_v2, {}, sequence_offset});
  table.add("ParseSingleSequenceExample", Op{parse_single_sequence_example, {}, sequence_offset});
}

}  // namespace muster::executor
