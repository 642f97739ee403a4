#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster {

/// Puts blocks together from values that come row by row. A row that throws is taken back.
class TableBuilder {
 public:
  /// `file` is the name in messages.
  TableBuilder(std::shared_ptr<const std::vector<TableField>> fields, std::string file);

  const std::shared_ptr<const std::vector<TableField>>& fields() const { return fields_; }
  std::size_t rows() const { return rows_; }
  /// The place of a column, or nothing.
  std::optional<std::size_t> find(std::string_view name) const;

  /// A value of the row that is being built: the only one, or the next element of its list. They
  /// throw InvalidArgument where the column is of another type; whole numbers are also floats.
  void add_bool(std::size_t column, bool value);
  void add_int(std::size_t column, std::int64_t value);
  void add_double(std::size_t column, double value);
  void add_string(std::size_t column, std::string value);
  void add_missing(std::size_t column);
  /// Ends the row: columns without a value are missing in it, or have an empty list. Throws
  /// InvalidArgument for a second value of a column that is no list.
  void end_row();
  /// Takes back what was added since the last end_row().
  void drop_row();

  /// The rows so far; the next one begins another block.
  std::shared_ptr<const TableBlock> take(std::uint64_t first_row);

 private:
  void begin_block();
  void note_valid(TableColumn& column, bool is_there);
  [[noreturn]] void fail_type(std::size_t column, std::string_view value) const;
  std::size_t value_begin(std::size_t column) const;

  std::shared_ptr<const std::vector<TableField>> fields_;
  std::map<std::string, std::size_t, std::less<>> places_{};
  std::string file_;
  std::shared_ptr<TableBlock> block_{};
  std::shared_ptr<std::deque<std::string>> strings_{};
  std::size_t rows_ = 0;
};

/// Types of columns whose values do not all have one.
struct GuessRules {
  /// A column with numbers and words is one of strings, as in text; else that is an error.
  bool is_string_if_mixed = false;
  /// A column with single values and lists is one of lists; else that is an error.
  bool is_list_if_any = false;
};

/// Finds the types of columns from their values: whole numbers and others are double, a column that
/// is always missing is string.
class TypeGuess {
 public:
  enum class Kind : std::uint8_t { kBool, kInt, kDouble, kString };

  void see(const std::string& name, Kind kind, bool is_list);
  void see_missing(const std::string& name);
  void see_list(const std::string& name);
  /// In the order in which they were first seen. Throws InvalidArgument for a column whose values
  /// are of types that have none in common.
  std::vector<TableField> fields(std::string_view file, const GuessRules& rules = {}) const;

 private:
  struct Seen {
    std::string name{};
    std::vector<Kind> kinds{};
    bool is_list = false;
    bool is_value = false;
  };

  Seen& of(const std::string& name);

  std::vector<Seen> seen_{};
  std::map<std::string, std::size_t, std::less<>> places_{};
};

}  // namespace muster
