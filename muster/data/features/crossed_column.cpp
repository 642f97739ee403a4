#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/data/features/column_batch.h"
#include "muster/data/features/merged_specs_internal.h"

namespace muster {
namespace internal {
namespace {

constexpr std::uint64_t kDefaultHashKey = 0xDECAFCAFFE;
constexpr std::int64_t kMaxCrosses = std::int64_t{1} << 31;

const std::string& name_of(const CrossKey& key) {
  const auto* feature = std::get_if<std::string>(&key);
  return feature ? *feature : std::get<FeatureColumn>(key).name();
}

// Values of one key for a batch: fingerprints of strings, or ids as they are.
struct Input {
  const std::uint64_t* values = nullptr;
  std::size_t size = 0;
  RowLayout layout{};
  bool dense = false;
  // Some values count for nothing: empty words, or else numbers that are -1.
  bool some_missing = false;
  std::span<const std::string_view> words{};
  at::Tensor owner{};

  bool missing(std::size_t i) const {
    return words.empty() ? values[i] == ~std::uint64_t{0} : words[i].empty();
  }
};

const std::uint64_t* as_unsigned(const std::int64_t* values) {
  return reinterpret_cast<const std::uint64_t*>(values);
}

Input input_of(ColumnBatch& batch, const std::string& feature, const Column& cross) {
  if (std::holds_alternative<StringColumn>(batch.raw(feature, cross))) {
    const HashedStrings& strings = batch.strings(feature, cross);
    return {.values = strings.fingerprints.get(),
            .size = strings.words.size(),
            .layout = strings.layout,
            .dense = strings.dense,
            .some_missing = strings.some_missing,
            .words = strings.words};
  }
  WholeNumbers numbers = batch.whole_numbers(feature, cross);
  return {.values = as_unsigned(numbers.numbers.data()),
          .size = numbers.numbers.size(),
          .layout = numbers.layout,
          .dense = numbers.dense,
          .some_missing = numbers.dense && std::ranges::count(numbers.numbers, -1) > 0,
          .owner = std::move(numbers.values)};
}

Input input_of(ColumnBatch& batch, const FeatureColumn& column, const Column&) {
  const ColumnIds& ids = batch.ids(*column.internal().ids());
  return {.values = as_unsigned(ids.data),
          .size = static_cast<std::size_t>(ids.size),
          .layout = ids.layout,
          .some_missing = !ids.whole};
}

// One value of each key a row, which is what most data has.
ColumnIds cross_single(const std::vector<Input>& inputs, std::int64_t rows, std::uint64_t hash_key,
                       std::uint64_t buckets) {
  ColumnIds ids({.rows = rows}, rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::uint64_t hash = hash_key;
    for (const Input& input : inputs) hash = concatenate_fingerprints(hash, input.values[row]);
    ids.data[row] = static_cast<std::int64_t>(hash % buckets);
  }
  return ids;
}

// A key's values that count, row by row.
struct Kept {
  explicit Kept(const Input& input) {
    values.reserve(input.size);
    starts.reserve(static_cast<std::size_t>(input.layout.rows) + 1);
    starts.push_back(0);
    for (std::int64_t row = 0; row < input.layout.rows; ++row) {
      for (auto i = input.layout.begin(row); i < input.layout.end(row); ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!input.some_missing || !input.missing(at)) values.push_back(input.values[at]);
      }
      starts.push_back(values.size());
    }
  }

  std::span<const std::uint64_t> row(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    return std::span(values).subspan(starts[at], starts[at + 1] - starts[at]);
  }

  std::vector<std::uint64_t> values;
  std::vector<std::size_t> starts;
};

// Every combination of the values of one row, those of the last key varying fastest.
class Product {
 public:
  Product(const std::vector<Kept>& keys, std::uint64_t buckets) : keys_(keys), buckets_(buckets) {}

  std::int64_t size(std::int64_t row) const {
    std::int64_t product = 1;
    for (const Kept& key : keys_) {
      product *= static_cast<std::int64_t>(key.row(row).size());
      if (product > kMaxCrosses) return product;
    }
    return product;
  }

  std::int64_t* write(std::int64_t row, std::uint64_t hash, std::int64_t* out,
                      std::size_t key = 0) const {
    if (key == keys_.size()) {
      *out = static_cast<std::int64_t>(hash % buckets_);
      return out + 1;
    }
    for (const auto value : keys_[key].row(row)) {
      out = write(row, concatenate_fingerprints(hash, value), out, key + 1);
    }
    return out;
  }

 private:
  const std::vector<Kept>& keys_;
  std::uint64_t buckets_;
};

ColumnIds cross_many(const std::vector<Input>& inputs, std::int64_t rows, std::uint64_t hash_key,
                     std::uint64_t buckets, const std::string& name) {
  const std::vector<Kept> keys(inputs.begin(), inputs.end());
  const Product product(keys, buckets);
  RowLayout layout{.rows = rows, .splits = at::empty({rows + 1}, at::kLong)};
  auto* starts = static_cast<std::int64_t*>(layout.splits.data_ptr());
  starts[0] = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    starts[row + 1] = starts[row] + product.size(row);
    if (starts[row + 1] > kMaxCrosses) {
      throw ResourceExhausted("column \"{}\": more than {} combinations in a batch, at row {}",
                              name, kMaxCrosses, row);
    }
  }
  layout.starts = starts;
  ColumnIds ids(std::move(layout), starts[rows]);
  std::int64_t* out = ids.data;
  for (std::int64_t row = 0; row < rows; ++row) out = product.write(row, hash_key, out);
  return ids;
}

// The name of a cross of these keys.
std::string cross_name(const std::vector<CrossKey>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(name_of(key));
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, "_X_"));
}

// The keys with the keys of crosses in their place.
std::vector<CrossKey> flatten(const std::vector<CrossKey>& keys) {
  std::vector<CrossKey> leaves;
  for (const auto& key : keys) {
    const auto* column = std::get_if<FeatureColumn>(&key);
    const auto* cross = column ? dynamic_cast<const CrossedColumn*>(&column->internal()) : nullptr;
    if (cross) {
      leaves.insert(leaves.end(), cross->keys().begin(), cross->keys().end());
    } else {
      leaves.push_back(key);
    }
  }
  return leaves;
}

void check_key(const CrossKey& key) {
  if (const auto* feature = std::get_if<std::string>(&key)) {
    require_key(*feature, "crossed_column");
    return;
  }
  const auto& column = std::get<FeatureColumn>(key);
  require_categorical(column, "crossed_column");
  if (dynamic_cast<const HashBucketColumn*>(&column.internal())) {
    throw InvalidArgument(
        "crossed_column: \"{0}\" is hashed already, and a hash of its buckets would mix up more "
        "values than need be; give the feature's name, \"{0}\", instead of the column",
        column.name());
  }
  if (dynamic_cast<const WeightedColumn*>(&column.internal())) {
    throw InvalidArgument("crossed_column: a cross has no place for the weights of \"{}\"",
                          column.name());
  }
}

}  // namespace

CrossedColumn::CrossedColumn(std::vector<CrossKey> keys, std::int64_t hash_bucket_size,
                             std::uint64_t hash_key)
    : Column(cross_name(keys)),
      keys_(std::move(keys)),
      hash_bucket_size_(hash_bucket_size),
      hash_key_(hash_key) {
  if (hash_bucket_size < 1) {
    throw InvalidArgument("crossed_column \"{}\": hash_bucket_size must be positive: {}", name(),
                          hash_bucket_size);
  }
}

FeatureSpecs CrossedColumn::parse_specs() const {
  MergedSpecs specs;
  for (const auto& key : keys_) {
    if (const auto* column = std::get_if<FeatureColumn>(&key)) {
      specs.add(column->parse_specs(), column->name());
    } else {
      const auto& feature = std::get<std::string>(key);
      specs.add({{feature, VarLen{.kind = FeatureKind::kBytes}}}, name());
    }
  }
  return specs.take();
}

ColumnIds CrossedColumn::compute_ids(ColumnBatch& batch) const {
  std::vector<Input> inputs;
  inputs.reserve(keys_.size());
  for (const auto& key : keys_) {
    inputs.push_back(
        std::visit([&](const auto& source) { return input_of(batch, source, *this); }, key));
  }
  // TensorFlow hashes what may be missing before what is dense, whatever the order of the keys.
  std::ranges::stable_partition(inputs, [](const Input& input) { return !input.dense; });
  const bool single = std::ranges::all_of(
      inputs, [](const Input& input) { return input.layout.one_per_row() && !input.some_missing; });
  const auto buckets = static_cast<std::uint64_t>(hash_bucket_size_);
  return single ? cross_single(inputs, batch.rows(), hash_key_, buckets)
                : cross_many(inputs, batch.rows(), hash_key_, buckets, name());
}

}  // namespace internal

FeatureColumn crossed_column(std::vector<CrossKey> keys, std::int64_t hash_bucket_size,
                             std::optional<std::uint64_t> hash_key) {
  for (const auto& key : keys) internal::check_key(key);
  if (keys.size() < 2) {
    throw InvalidArgument("crossed_column needs at least two keys, but got {}", keys.size());
  }
  return internal::make_column<internal::CrossedColumn>(
      internal::flatten(keys), hash_bucket_size, hash_key.value_or(internal::kDefaultHashKey));
}

}  // namespace muster
