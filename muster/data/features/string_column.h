#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// Strings of one batch: a dense block with a shape, or rows of different lengths. Immutable; a
/// copy or a slice shares the strings and what keeps their bytes alive.
class StringColumn {
 public:
  /// A column without rows.
  StringColumn() : StringColumn(std::vector<std::string_view>{}, {0}, nullptr) {}
  /// A dense block, rows first. `owner` keeps the viewed bytes alive; null where they outlive every
  /// use. Throws InvalidArgument when the shape does not hold as many strings as there are.
  StringColumn(std::vector<std::string_view> values, std::vector<std::int64_t> shape,
               std::shared_ptr<const void> owner);
  /// A dense block that owns its strings.
  StringColumn(std::vector<std::string> values, std::vector<std::int64_t> shape);
  /// Row i holds the strings from row_splits[i] to row_splits[i + 1]. Throws InvalidArgument when
  /// the splits do not rise from 0 to the number of strings.
  static StringColumn ragged(std::vector<std::string_view> values,
                             std::vector<std::int64_t> row_splits,
                             std::shared_ptr<const void> owner);

  std::int64_t rows() const;
  bool is_ragged() const { return splits_ != nullptr; }
  /// Shape of a dense column, rows first; empty for a ragged one.
  const std::vector<std::int64_t>& shape() const { return shape_; }
  /// All strings, one row after the other. Valid as long as this column or a copy of it lives.
  std::span<const std::string_view> values() const;
  /// The strings of one row.
  std::span<const std::string_view> row(std::int64_t index) const;
  /// Rows [begin, end). Throws OutOfRange.
  StringColumn slice(std::int64_t begin, std::int64_t end) const;

 private:
  std::int64_t first_value(std::int64_t row) const;

  std::shared_ptr<const std::vector<std::string_view>> values_;
  std::shared_ptr<const std::vector<std::int64_t>> splits_;
  std::shared_ptr<const void> owner_;
  std::vector<std::int64_t> shape_;
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

}  // namespace muster
