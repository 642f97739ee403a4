#include "muster/data/features/collate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>
#include <type_traits>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

template <typename T>
at::Tensor take_vector(std::vector<T> values, const std::vector<std::int64_t>& shape) {
  const auto wanted =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  if (wanted != static_cast<std::int64_t>(values.size())) {
    throw InvalidArgument("{} values do not fill the shape [{}]", values.size(),
                          fmt::join(shape, ", "));
  }
  constexpr auto kType = c10::CppTypeToScalarType<T>::value;
  if (values.empty()) return at::empty(shape, kType);
  auto owned = std::make_shared<std::vector<T>>(std::move(values));
  void* const data = owned->data();
  return at::from_blob(
      data, shape, [owned = std::move(owned)](void*) {}, kType);
}

std::int64_t size_of(std::size_t size) { return static_cast<std::int64_t>(size); }

FeatureValue fixed_column(ParsedColumn column, std::int64_t rows, const FixedLen& spec,
                          const std::shared_ptr<const void>& owner) {
  std::vector<std::int64_t> shape{rows};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
  return std::visit(
      [&](auto& values) -> FeatureValue {
        using Values = std::decay_t<decltype(values)>;
        if constexpr (std::is_same_v<Values, std::vector<std::string_view>>) {
          return StringColumn(std::move(values), std::move(shape), owner);
        } else {
          return take_vector(std::move(values), shape);
        }
      },
      column.values);
}

FeatureValue ragged_column(ParsedColumn column, const std::shared_ptr<const void>& owner) {
  const std::vector<std::int64_t> splits_shape{size_of(column.row_splits.size())};
  return std::visit(
      [&](auto& values) -> FeatureValue {
        using Values = std::decay_t<decltype(values)>;
        if constexpr (std::is_same_v<Values, std::vector<std::string_view>>) {
          return StringColumn::ragged(std::move(values), std::move(column.row_splits), owner);
        } else {
          const std::vector<std::int64_t> shape{size_of(values.size())};
          return RaggedColumn{
              .values = take_vector(std::move(values), shape),
              .row_splits = take_vector(std::move(column.row_splits), splits_shape)};
        }
      },
      column.values);
}

// Buffers that string columns keep alive: the caller's and those that parsing made.
template <typename Made>
std::shared_ptr<const void> keep_both(std::shared_ptr<const void> owner, Made made) {
  using Both = std::pair<std::shared_ptr<const void>, Made>;
  return std::make_shared<const Both>(std::move(owner), std::move(made));
}

}  // namespace

at::Tensor tensor_of(std::vector<std::int32_t> values, std::vector<std::int64_t> shape) {
  return take_vector(std::move(values), shape);
}
at::Tensor tensor_of(std::vector<std::int64_t> values, std::vector<std::int64_t> shape) {
  return take_vector(std::move(values), shape);
}
at::Tensor tensor_of(std::vector<float> values, std::vector<std::int64_t> shape) {
  return take_vector(std::move(values), shape);
}
at::Tensor tensor_of(std::vector<double> values, std::vector<std::int64_t> shape) {
  return take_vector(std::move(values), shape);
}

Features to_features(ParsedColumns columns, const FeatureSpecs& specs,
                     std::shared_ptr<const void> owner) {
  if (columns.columns.size() != specs.size()) {
    throw InvalidArgument("{} parsed columns but {} specs: pass those they were decoded with",
                          columns.columns.size(), specs.size());
  }
  if (!columns.owners.empty()) owner = keep_both(std::move(owner), std::move(columns.owners));
  Features features;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    auto& column = columns.columns[i];
    const auto& [key, spec] = specs[i];
    if (column.key != key) {
      throw InvalidArgument("parsed column {} is \"{}\", but its spec is for \"{}\"", i, column.key,
                            key);
    }
    const auto* fixed = std::get_if<FixedLen>(&spec);
    features.add(key, fixed ? fixed_column(std::move(column), size_of(columns.rows), *fixed, owner)
                            : ragged_column(std::move(column), owner));
  }
  return features;
}

Features to_features(CsvColumns columns, std::shared_ptr<const void> owner) {
  if (columns.arena) owner = keep_both(std::move(owner), std::move(columns.arena));
  Features features;
  const std::vector<std::int64_t> shape{size_of(columns.rows)};
  for (std::size_t i = 0; i < columns.columns.size(); ++i) {
    std::visit(
        [&](auto& values) {
          using Values = std::decay_t<decltype(values)>;
          if constexpr (std::is_same_v<Values, std::vector<std::string_view>>) {
            features.add(columns.names[i], StringColumn(std::move(values), shape, owner));
          } else if constexpr (!std::is_same_v<Values, std::monostate>) {
            features.add(columns.names[i], take_vector(std::move(values), shape));
          }
        },
        columns.columns[i]);
  }
  return features;
}

Batch split_labels(Features features, const std::vector<std::string>& label_names) {
  Batch batch;
  for (const auto& name : label_names) {
    batch.labels.add(name, features.at(name));
    features.remove(name);
  }
  batch.features = std::move(features);
  return batch;
}

}  // namespace muster
