#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"

namespace muster {

enum class TableType : std::uint8_t { kBool, kInt32, kInt64, kFloat, kDouble, kString };

/// "bool", "int32", "int64", "float", "double", "string".
std::string_view name_of(TableType type);

/// A column of a table.
struct TableField {
  /// Columns inside structs have the names of all of them: "address.city".
  std::string name{};
  TableType type = TableType::kString;
  /// How many lists are around a value: 0 for one value a row, 1 for a list a row.
  std::size_t list_depth = 0;
  /// Meaning of the values where the type does not say it, such as "days since 1970-01-01".
  std::string meaning{};
};

/// Leaves elements uninitialised that resize() adds: they are written at once.
template <typename T>
struct UninitialisedAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UninitialisedAllocator<U>;
  };
  template <typename U, typename... Args>
  void construct(U* place, Args&&... args) {
    if constexpr (sizeof...(Args) == 0 && std::is_trivially_default_constructible_v<U>) {
      ::new (static_cast<void*>(place)) U;
    } else {
      ::new (static_cast<void*>(place)) U(std::forward<Args>(args)...);
    }
  }
};
template <typename T>
using TableNumbers = std::vector<T, UninitialisedAllocator<T>>;

/// In the order of TableType. Booleans are 0 or 1.
using TableValues =
    std::variant<TableNumbers<std::uint8_t>, TableNumbers<std::int32_t>, TableNumbers<std::int64_t>,
                 TableNumbers<float>, TableNumbers<double>, std::vector<std::string_view>>;

/// No values, of this type.
TableValues no_values(TableType type);

/// The values of one column in the rows of a block.
struct TableColumn {
  /// One a row, or those of all lists one after the other. A missing value is 0 or "".
  TableValues values{};
  /// 0 for a value that is missing; empty where none is.
  std::vector<std::uint8_t> valid{};
  /// For each list around a value, outermost first: element i is from splits[i] to splits[i + 1]
  /// of the next level. A list that is missing is empty.
  std::vector<std::vector<std::int64_t>> splits{};
  /// Owners of the bytes that strings are views of.
  std::vector<std::shared_ptr<const void>> owners{};

  std::size_t value_count() const;
  bool is_valid(std::size_t value) const { return valid.empty() || valid[value] != 0; }
};

/// Some rows of a table as columns, one a field. Immutable once it is shared.
struct TableBlock {
  std::shared_ptr<const std::vector<TableField>> fields{};
  std::size_t rows = 0;
  std::vector<TableColumn> columns{};
  /// Name of the file in messages, and the number of the first row in it.
  std::string file{};
  std::uint64_t first_row = 0;

  /// "train.parquet row 17".
  std::string where(std::size_t row) const;
  /// The place of a field among the columns. Throws NotFound, listing the names there are.
  std::size_t column(std::string_view name) const;
};

/// One row of a table: a share of the block that it lies in, which it does not copy.
struct TableRow {
  std::shared_ptr<const TableBlock> block{};
  std::uint32_t row = 0;
};

/// A file as a table that is read in blocks of rows, from front to back. Belongs to one thread.
class TableReader {
 public:
  virtual ~TableReader() = default;

  virtual const std::shared_ptr<const std::vector<TableField>>& fields() const = 0;
  /// How many rows there are, if that is known without reading the file.
  virtual std::optional<std::uint64_t> rows() const = 0;
  /// The number of the first row of the block that next() will give.
  virtual std::uint64_t position() const = 0;
  /// Goes to a row by its number, counted from 0; beyond the end, next() gives null.
  virtual void seek(std::uint64_t row) = 0;
  /// The next rows, one at least, or null at the end.
  virtual std::shared_ptr<const TableBlock> next() = 0;
};

/// Opens a file of some format with some options.
using TableOpener = std::function<std::unique_ptr<TableReader>(const Path&)>;

/// The places of the wanted columns among `fields`, or all of them if none is named. Throws
/// NotFound, naming the file and the columns it has.
std::vector<std::size_t> wanted_columns(std::span<const TableField> fields,
                                        std::span<const std::string> names, std::string_view file);

}  // namespace muster
