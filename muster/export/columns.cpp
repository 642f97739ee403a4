#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "muster/base/error.h"
#include "muster/export/columns_internal.h"
#include "muster/export/trace.h"

namespace muster::exporting {
namespace {

using graph::DataType;
using graph::TensorValue;

constexpr std::int64_t kMissingNumber = -1;

at::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return at::kFloat;
    case DataType::kDouble:
      return at::kDouble;
    case DataType::kInt32:
      return at::kInt;
    case DataType::kInt64:
      return at::kLong;
    case DataType::kUint8:
      return at::kByte;
    case DataType::kInt8:
      return at::kChar;
    case DataType::kInt16:
      return at::kShort;
    case DataType::kBool:
      return at::kBool;
    default:
      throw Unimplemented("numbers of type {} in a feature column", graph::name_of(type));
  }
}

bool is_whole(DataType type) {
  return type == DataType::kInt32 || type == DataType::kInt64 || type == DataType::kInt16 ||
         type == DataType::kInt8 || type == DataType::kUint8;
}

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

// -------------------------------------------------------------------------------- small nodes

std::string ColumnGraph::compare(const char* op, const std::string& a, const std::string& b,
                                 DataType type) {
  return builder_.add(op, op, {a, b}, {{"T", type}});
}

std::string ColumnGraph::gather_nd(const std::string& from, const std::string& places,
                                   DataType type) {
  return builder_.add("GatherNd", "GatherNd", {from, places},
                      {{"Tparams", type}, {"Tindices", DataType::kInt64}});
}

std::string ColumnGraph::reshape(const std::string& tensor, const std::vector<std::int64_t>& sizes,
                                 DataType type) {
  return builder_.add("Reshape", "Reshape", {tensor, builder_.ints(sizes)},
                      {{"T", type}, {"Tshape", DataType::kInt32}});
}

std::string ColumnGraph::shape64(const std::string& tensor, DataType type) {
  return builder_.add("Shape", "Shape", {tensor}, {{"T", type}, {"out_type", DataType::kInt64}});
}

std::string ColumnGraph::node_of(const MatrixShape& shape) {
  return shape.node.empty() ? shape64(shape.matrix, shape.type) : shape.node;
}

// ------------------------------------------------------------------------------- raw features

const GraphFeature& ColumnGraph::feature(const std::string& key,
                                         const internal::Column& column) const {
  const auto found = features_.find(key);
  if (found != features_.end()) return found->second;
  std::string there;
  for (const auto& item : features_) there += (there.empty() ? "" : ", ") + item.first;
  throw NotFound(
      "column \"{}\" needs the feature \"{}\", which the serving input does not have; there are: "
      "{}",
      column.name(), key, there.empty() ? "none" : there);
}

// [rows, values of a row]
std::string ColumnGraph::matrix(const GraphFeature& raw) {
  if (raw.shape.size() == 1) return raw.values;
  if (raw.shape.empty()) {
    return builder_.add("ExpandDims", "ExpandDims", {raw.values, builder_.int_scalar(-1)},
                        {{"T", raw.type}, {"Tdim", DataType::kInt32}});
  }
  return reshape(raw.values, {-1, product(raw.shape)}, raw.type);
}

ColumnGraph::Words ColumnGraph::words(const std::string& key, const internal::Column& column) {
  const auto held = words_.find(key);
  if (held != words_.end()) return held->second;
  const GraphFeature& raw = feature(key, column);
  Words made{.type = raw.type, .dense = !raw.is_sparse()};
  builder_.enter(key);
  if (raw.is_sparse()) {
    made.indices = raw.indices;
    made.values = raw.values;
    made.shape = {.node = raw.dense_shape};
  } else {
    // In a dense feature "" and -1 stand for a missing value.
    const std::string all = matrix(raw);
    const auto missing =
        raw.type == DataType::kString
            ? TensorValue::string_scalar("")
            : graph_value(torch::scalar_tensor(kMissingNumber, scalar_type(raw.type)));
    const auto there = compare("NotEqual", all, builder_.constant(missing), raw.type);
    made.indices = builder_.add("indices", "Where", {there}, {{"T", DataType::kBool}});
    made.values = gather_nd(all, made.indices, raw.type);
    made.shape = {.matrix = all, .type = raw.type};
  }
  if (made.type != DataType::kString && is_whole(made.type)) {
    made.values = builder_.cast(made.values, made.type, DataType::kInt64);
    made.type = DataType::kInt64;
  }
  words_.emplace(key, made);
  return made;
}

ColumnGraph::Words ColumnGraph::checked_words(const std::string& key,
                                              const internal::Column& column, CategoryType type) {
  const Words found = words(key, column);
  const auto wanted = type == CategoryType::kString ? DataType::kString : DataType::kInt64;
  if (found.type != wanted) {
    throw InvalidArgument("column \"{}\" reads {}, but the serving input gives \"{}\" as {}",
                          column.name(),
                          type == CategoryType::kString ? "strings" : "whole numbers", key,
                          graph::name_of(found.type));
  }
  return found;
}

// Numbers by their decimal text.
std::string ColumnGraph::strings(const Words& given) {
  if (given.type == DataType::kString) return given.values;
  return builder_.add("AsString", "AsString", {given.values},
                      {{"T", given.type},
                       {"precision", -1},
                       {"scientific", false},
                       {"shortest", false},
                       {"width", -1},
                       {"fill", ""}});
}

// ---------------------------------------------------------------------------------------- ids

const ColumnGraph::Ids& ColumnGraph::ids(const internal::Column& column) {
  const auto held = ids_.find(&column);
  if (held != ids_.end()) return held->second;
  // Made before the place is taken: it asks for the ids of others.
  Ids made = make_ids(column);
  return ids_.emplace(&column, std::move(made)).first->second;
}

ColumnGraph::Ids ColumnGraph::make_ids(const internal::Column& column) {
  using namespace internal;
  if (const auto* kind = dynamic_cast<const HashBucketColumn*>(&column)) return hashed(*kind);
  if (const auto* kind = dynamic_cast<const VocabularyColumn*>(&column)) return looked_up(*kind);
  if (const auto* kind = dynamic_cast<const IdentityColumn*>(&column)) return identity(*kind);
  if (const auto* kind = dynamic_cast<const BucketizedColumn*>(&column)) return bucketized(*kind);
  if (const auto* kind = dynamic_cast<const WeightedColumn*>(&column)) return weighted(*kind);
  if (const auto* kind = dynamic_cast<const CrossedColumn*>(&column)) return crossed(*kind);
  throw Unimplemented("column \"{}\" is of a kind that cannot be exported", column.name());
}

ColumnGraph::Ids ColumnGraph::hashed(const internal::HashBucketColumn& column) {
  const Words given = checked_words(column.key(), column, column.type());
  builder_.enter(column.name());
  const auto values = builder_.add("hash", "StringToHashBucketFast", {strings(given)},
                                   {{"num_buckets", column.num_buckets()}});
  return {.indices = given.indices, .values = values, .shape = given.shape};
}

ColumnGraph::Ids ColumnGraph::looked_up(const internal::VocabularyColumn& column) {
  const Words given = checked_words(column.key(), column, column.type());
  builder_.enter(column.name());
  const auto table = tables_.table_of(column, builder_);
  const auto& options = column.options();
  const auto otherwise = builder_.constant(TensorValue::scalar(options.default_value));
  std::string values = builder_.add("lookup", "LookupTableFindV2", {table, given.values, otherwise},
                                    {{"Tin", given.type}, {"Tout", DataType::kInt64}});
  if (options.num_oov_buckets > 0) {
    const auto hash = builder_.add("hash", "StringToHashBucketFast", {strings(given)},
                                   {{"num_buckets", options.num_oov_buckets}});
    const auto size = builder_.constant(TensorValue::scalar(column.vocabulary().size()));
    const auto bucket = builder_.add("AddV2", "AddV2", {hash, size}, {{"T", DataType::kInt64}});
    const auto known = compare("NotEqual", values, otherwise, DataType::kInt64);
    values = builder_.add("Select", "Select", {known, values, bucket}, {{"T", DataType::kInt64}});
  }
  return {.indices = given.indices,
          .values = values,
          .shape = given.shape,
          .some_negative = options.num_oov_buckets == 0 && options.default_value < 0};
}

ColumnGraph::Ids ColumnGraph::identity(const internal::IdentityColumn& column) {
  const Words given = checked_words(column.key(), column, CategoryType::kInt);
  builder_.enter(column.name());
  const auto type = DataType::kInt64;
  const auto zero = builder_.constant(TensorValue::scalar(std::int64_t{0}));
  const auto count = builder_.constant(TensorValue::scalar(column.num_buckets()));
  const auto inside = builder_.add("LogicalAnd", "LogicalAnd",
                                   {compare("GreaterEqual", given.values, zero, type),
                                    compare("Less", given.values, count, type)},
                                   {});
  Ids made{.indices = given.indices, .shape = given.shape};
  if (column.default_value()) {
    const auto otherwise =
        builder_.add("Fill", "Fill",
                     {shape64(given.values, type),
                      builder_.constant(TensorValue::scalar(*column.default_value()))},
                     {{"T", type}, {"index_type", DataType::kInt64}});
    made.values =
        builder_.add("Select", "Select", {inside, given.values, otherwise}, {{"T", type}});
    return made;
  }
  const auto all = builder_.add("All", "All", {inside, builder_.ints({0})},
                                {{"Tidx", DataType::kInt32}, {"keep_dims", false}});
  const auto message = builder_.constant(TensorValue::string_scalar(
      fmt::format("column \"{}\": the feature \"{}\" has an id that is not in [0, {})",
                  column.name(), column.key(), column.num_buckets())));
  const auto assertion =
      builder_.add("Assert", "Assert", {all, message, given.values},
                   {{"T", graph::AttrValue::list(std::vector<DataType>{DataType::kString, type})},
                    {"summarize", 3}});
  made.values =
      builder_.add("Identity", "Identity", {given.values, "^" + assertion}, {{"T", type}});
  return made;
}

// [rows, width of the source], int32.
std::string ColumnGraph::buckets(const internal::BucketizedColumn& column) {
  const std::string source = numbers(column.source());
  builder_.enter(column.name());
  return builder_.add(
      "Bucketize", "Bucketize", {source},
      {{"T", DataType::kFloat}, {"boundaries", graph::AttrValue::list(column.boundaries())}});
}

ColumnGraph::Ids ColumnGraph::bucketized(const internal::BucketizedColumn& column) {
  const auto type = DataType::kInt64;
  std::string all = builder_.cast(buckets(column), DataType::kInt32, type);
  const auto width = column.source().width();
  if (width > 1) {
    std::vector<std::int64_t> offsets;
    const auto buckets = static_cast<std::int64_t>(column.boundaries().size()) + 1;
    for (std::int64_t i = 0; i < width; ++i) offsets.push_back(i * buckets);
    all = builder_.add("AddV2", "AddV2", {all, builder_.constant(TensorValue::vector(offsets))},
                       {{"T", type}});
  }
  const auto zero = builder_.constant(TensorValue::scalar(std::int64_t{0}));
  const auto there = compare("GreaterEqual", all, zero, type);
  return {.indices = builder_.add("indices", "Where", {there}, {{"T", DataType::kBool}}),
          .values = reshape(all, {-1}, type),
          .shape = {.matrix = all, .type = type}};
}

ColumnGraph::Ids ColumnGraph::weighted(const internal::WeightedColumn& column) {
  Ids made = ids(column.categorical());
  const GraphFeature& raw = feature(column.weight_key(), column);
  if (raw.type == DataType::kString) {
    throw InvalidArgument("column \"{}\": weights are numbers, but the feature \"{}\" is strings",
                          column.name(), column.weight_key());
  }
  builder_.enter(column.name());
  if (raw.is_sparse()) {
    // One weight an id, in the same order; what was dropped has no id.
    for (const auto& [key, spec] : column.categorical().parse_specs()) {
      if (feature(key, column).is_sparse()) continue;
      throw Unimplemented(
          "column \"{}\": the serving input gives \"{}\" dense and the weights \"{}\" sparse; give "
          "both in the same way",
          column.name(), key, column.weight_key());
    }
    made.weights = builder_.cast(raw.values, raw.type, DataType::kFloat);
  } else {
    made.weights = gather_nd(builder_.cast(matrix(raw), raw.type, DataType::kFloat), made.indices,
                             DataType::kFloat);
  }
  return made;
}

ColumnGraph::Ids ColumnGraph::crossed(const internal::CrossedColumn& column) {
  std::vector<Words> keys;
  for (const auto& key : column.keys()) {
    if (const auto* name = std::get_if<std::string>(&key)) {
      keys.push_back(words(*name, column));
      if (keys.back().type == DataType::kString || keys.back().type == DataType::kInt64) continue;
      throw InvalidArgument(
          "column \"{}\" reads strings or whole numbers, but the serving input gives \"{}\" as {}",
          column.name(), *name, graph::name_of(keys.back().type));
    }
    const auto& source = std::get<FeatureColumn>(key).internal();
    const Ids found = kept(ids(source), /*positive_only=*/false);
    keys.push_back({.type = DataType::kInt64,
                    .indices = found.indices,
                    .values = found.values,
                    .shape = found.shape});
  }
  // Dense features come after the rest, though here they are sparse, for what is missing in them.
  std::ranges::stable_partition(keys, [](const Words& key) { return !key.dense; });
  std::vector<std::string> inputs;
  std::vector<DataType> types;
  for (const auto& key : keys) inputs.push_back(key.indices);
  for (const auto& key : keys) {
    inputs.push_back(key.values);
    types.push_back(key.type);
  }
  builder_.enter(column.name());
  for (const auto& key : keys) inputs.push_back(node_of(key.shape));
  const bool words_only =
      std::ranges::all_of(types, [](DataType type) { return type == DataType::kString; });
  const auto node =
      builder_.add("SparseCross", "SparseCross", std::move(inputs),
                   {{"N", static_cast<std::int64_t>(keys.size())},
                    {"hashed_output", true},
                    {"num_buckets", column.num_buckets()},
                    {"hash_key", static_cast<std::int64_t>(column.hash_key())},
                    {"sparse_types", graph::AttrValue::list(types)},
                    {"dense_types", graph::AttrValue(graph::AttrList{})},
                    {"out_type", DataType::kInt64},
                    {"internal_type", words_only ? DataType::kString : DataType::kInt64}});
  return {.indices = node, .values = node + ":1", .shape = {.node = node + ":2"}};
}

ColumnGraph::Ids ColumnGraph::kept(const Ids& all, bool positive_only) {
  std::string counts;
  if (all.some_negative) {
    const auto zero = builder_.constant(TensorValue::scalar(std::int64_t{0}));
    counts = compare("GreaterEqual", all.values, zero, DataType::kInt64);
  }
  if (positive_only && !all.weights.empty()) {
    const auto zero = builder_.constant(TensorValue::scalar(0.0F));
    const auto positive = compare("Greater", all.weights, zero, DataType::kFloat);
    counts = counts.empty() ? positive
                            : builder_.add("LogicalAnd", "LogicalAnd", {counts, positive}, {});
  }
  if (counts.empty()) return all;
  const auto places = builder_.add("kept", "Where", {counts}, {{"T", DataType::kBool}});
  Ids made{.indices = gather_nd(all.indices, places, DataType::kInt64),
           .values = gather_nd(all.values, places, DataType::kInt64),
           .shape = all.shape};
  if (!all.weights.empty()) made.weights = gather_nd(all.weights, places, DataType::kFloat);
  return made;
}

// ------------------------------------------------------------------------------------ numbers

// float [rows, width]
std::string ColumnGraph::numbers(const internal::Column& column) {
  if (const auto* kind = dynamic_cast<const internal::NumericColumn*>(&column)) {
    const auto held = numeric_.find(&column);
    if (held != numeric_.end()) return held->second;
    return numeric_.emplace(&column, numeric(*kind)).first->second;
  }
  if (const auto* kind = dynamic_cast<const internal::BucketizedColumn*>(&column)) {
    const auto depth = static_cast<std::int64_t>(kind->boundaries().size()) + 1;
    const auto places = buckets(*kind);
    const auto one_hot = builder_.add(
        "OneHot", "OneHot",
        {places, builder_.int_scalar(depth), builder_.constant(TensorValue::scalar(1.0F)),
         builder_.constant(TensorValue::scalar(0.0F))},
        {{"T", DataType::kFloat}, {"TI", DataType::kInt32}, {"axis", -1}});
    return reshape(one_hot, {-1, kind->width()}, DataType::kFloat);
  }
  if (const auto* kind = dynamic_cast<const internal::IndicatorColumn*>(&column)) {
    return indicator(*kind);
  }
  if (const auto* kind = dynamic_cast<const internal::FunctionColumn*>(&column)) {
    return computed(*kind);
  }
  throw Unimplemented("column \"{}\" is of a kind that cannot be exported", column.name());
}

std::string ColumnGraph::numeric(const internal::NumericColumn& column) {
  const GraphFeature& raw = feature(column.key(), column);
  if (raw.is_sparse() || raw.type == DataType::kString || product(raw.shape) != column.width()) {
    throw InvalidArgument(
        "column \"{}\" reads {} numbers a row, the same count in every row, but the serving input "
        "gives \"{}\" in another form",
        column.name(), column.width(), column.key());
  }
  builder_.enter(column.name());
  if (!column.options().normalizer) {
    return builder_.cast(matrix(raw), raw.type, DataType::kFloat);
  }
  // The normalizer sees what columns hand to it: the raw type and shape, [rows] as [rows, 1].
  const std::string input = raw.shape.empty() ? matrix(raw) : raw.values;
  std::vector<std::int64_t> sizes{2};
  sizes.insert(sizes.end(), raw.shape.begin(), raw.shape.end());
  if (raw.shape.empty()) sizes.push_back(1);
  auto example = torch::full(sizes, 0.25, torch::kDouble);
  example.select(0, 1) += 1;
  try {
    const Program program =
        trace_function(column.options().normalizer, example.to(scalar_type(raw.type)));
    const Value& result = program.values[program.outputs.at(0).second.index];
    const auto output = builder_.cast(translate_function(program, input, builder_),
                                      graph_type(result.dtype), DataType::kFloat);
    return result.sizes.size() == 2 ? output
                                    : reshape(output, {-1, column.width()}, DataType::kFloat);
  } catch (Error& error) {
    error.add_context(fmt::format("writing the normalizer of column \"{}\"", column.name()));
    throw;
  }
}

std::string ColumnGraph::computed(const internal::FunctionColumn& column) {
  const std::string input = side_by_side(column.sources());
  builder_.enter(column.name());
  auto example = torch::full({2, column.source_width()}, 0.25);
  example.select(0, 1) += 1;
  try {
    const Program program = trace_function(column.function(), example);
    const Value& result = program.values[program.outputs.at(0).second.index];
    return builder_.cast(translate_function(program, input, builder_), graph_type(result.dtype),
                         DataType::kFloat);
  } catch (Error& error) {
    error.add_context(fmt::format("writing the function of column \"{}\"", column.name()));
    throw;
  }
}

std::string ColumnGraph::indicator(const internal::IndicatorColumn& column) {
  const Ids all = ids(column.categorical());
  builder_.enter(column.name());
  const Ids counted = kept(all, /*positive_only=*/false);
  const auto type = DataType::kInt64;
  const auto rows = builder_.column_of(counted.indices, 0, type);
  const auto places =
      builder_.add("places", "Pack", {rows, counted.values}, {{"N", 2}, {"T", type}, {"axis", 1}});
  std::string weights = counted.weights;
  if (weights.empty()) {
    const auto ones = builder_.add("OnesLike", "OnesLike", {counted.values}, {{"T", type}});
    weights = builder_.cast(ones, type, DataType::kFloat);
  }
  const auto batch = builder_.cast(builder_.batch_size(), DataType::kInt32, type);
  const auto shape =
      builder_.add("shape", "Pack", {batch, builder_.constant(TensorValue::scalar(column.width()))},
                   {{"N", 2}, {"T", type}, {"axis", 0}});
  return builder_.add("counts", "ScatterNd", {places, weights, shape},
                      {{"T", DataType::kFloat}, {"Tindices", type}});
}

// ------------------------------------------------------------------------------------- pieces

// The names are those of inputs where a conversion of the graph leaves columns out.
ColumnNodes ColumnGraph::id_nodes(const internal::Column& column, bool embedded) {
  const Ids all = ids(column);
  // Without weights an embedding and a linear model take the same ids.
  const auto held = id_nodes_.find({&column, embedded && !all.weights.empty()});
  if (held != id_nodes_.end()) return held->second;
  builder_.enter(column.name());
  const Ids counted = kept(all, embedded);
  const auto rows = builder_.column_of(counted.indices, 0, DataType::kInt64);
  ColumnNodes made{
      .ids = builder_.add("ids", "Identity", {counted.values}, {{"T", DataType::kInt64}}),
      .rows = builder_.add(
          "rows", "Cast", {rows},
          {{"SrcT", DataType::kInt64}, {"DstT", DataType::kInt32}, {"Truncate", false}}),
      .weights = counted.weights};
  id_nodes_.emplace(std::pair(&column, embedded && !all.weights.empty()), made);
  return made;
}

std::string ColumnGraph::side_by_side(const FeatureColumnList& columns) {
  std::vector<std::string> parts;
  for (const auto& column : columns) parts.push_back(numbers(column.internal()));
  if (parts.size() == 1) return parts[0];
  const auto count = static_cast<std::int64_t>(parts.size());
  builder_.enter("");
  parts.push_back(builder_.int_scalar(1));
  return builder_.add("columns", "ConcatV2", std::move(parts),
                      {{"N", count}, {"T", DataType::kFloat}, {"Tidx", DataType::kInt32}});
}

ColumnNodes ColumnGraph::nodes_of(const ColumnInput& input) {
  const internal::Column& first = input.columns.front().internal();
  if (input.ids) {
    const auto* embedding = dynamic_cast<const internal::EmbeddingColumn*>(&first);
    return id_nodes(embedding == nullptr ? first : embedding->categorical(), input.embedded);
  }
  return {.numbers = side_by_side(input.columns)};
}

}  // namespace muster::exporting
