#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/data/features/string_column.h"

namespace muster {

/// Rows of different lengths: row i holds values[row_splits[i]] up to values[row_splits[i + 1]].
struct RaggedColumn {
  /// [n] or [n, ...]; int64 where the values are ids.
  at::Tensor values{};
  /// int64 [rows + 1] on the CPU, rising from 0 to n.
  at::Tensor row_splits{};
  /// float [n], one a value; undefined where every value counts as 1.
  at::Tensor weights{};

  std::int64_t rows() const;
};

using FeatureValue = std::variant<at::Tensor, StringColumn, RaggedColumn>;

/// "a tensor", "strings", "a ragged column": for errors.
std::string_view kind_of(const FeatureValue& value);
/// The number of rows, which is the size of the first dimension.
std::int64_t rows_of(const FeatureValue& value);
/// "int64 [40, 1]", "strings [40]", "ragged float [40, ?]": for errors.
std::string describe(const FeatureValue& value);

/// Named columns of one batch, in the order they were added. Copies are cheap: they share tensors
/// and strings. Features, labels and predictions are all of this type.
class Features {
 public:
  using Column = std::pair<std::string, FeatureValue>;

  Features() = default;
  /// {{"image", images}, {"id", ids}}. Throws as add() does.
  Features(std::initializer_list<Column> columns);

  /// Throws AlreadyExists for a name that is taken, and InvalidArgument for an empty name, an
  /// undefined tensor, one without rows (a scalar), or another number of rows than the columns
  /// already here.
  void add(std::string name, FeatureValue value);
  /// Adds the column or takes the place of the one with this name; else as add().
  void set(std::string name, FeatureValue value);
  void remove(std::string_view name);

  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Null when there is none.
  const FeatureValue* find(std::string_view name) const;
  /// These throw NotFound, listing the names there are, or InvalidArgument when the column is of
  /// another kind. References stay valid until a column is added or removed.
  const FeatureValue& at(std::string_view name) const;
  const at::Tensor& tensor(std::string_view name) const;
  const StringColumn& strings(std::string_view name) const;
  const RaggedColumn& ragged(std::string_view name) const;
  /// A ragged column whose values are int64.
  const RaggedColumn& ids(std::string_view name) const;

  bool empty() const { return columns_.empty(); }
  std::size_t size() const { return columns_.size(); }
  auto begin() const { return columns_.begin(); }
  auto end() const { return columns_.end(); }
  /// "age, education, label": for errors.
  std::string names() const;

  /// The rows of every column; 0 without columns.
  std::int64_t batch_size() const { return batch_size_; }

  /// Rows [begin, end) of every column, sharing memory. Throws OutOfRange.
  Features slice(std::int64_t begin, std::int64_t end) const;
  /// The same columns with tensors on `device`; strings and row splits stay on the CPU.
  Features to(at::Device device, bool non_blocking = false) const;

 private:
  void check_rows(const std::string& name, const FeatureValue& value,
                  std::size_t other_columns) const;

  std::vector<Column> columns_;
  std::int64_t batch_size_ = 0;
};

}  // namespace muster
