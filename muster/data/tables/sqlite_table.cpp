#include "muster/data/tables/sqlite_table.h"

#include <sqlite3.h>

#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/tables/table_builder_internal.h"

namespace muster {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const { ::sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const { ::sqlite3_finalize(statement); }
};

class SqliteReader final : public TableReader {
 public:
  SqliteReader(const Path& path, SqliteOptions options)
      : name_(path.string()), options_(std::move(options)) {
    if (options_.block_rows == 0) throw InvalidArgument("block_rows must be positive");
    open(strip_file_scheme(path));
    prepare();
    if (options_.fields.empty()) guess_fields();
    check_fields();
    fields_ = std::make_shared<const std::vector<TableField>>(std::move(options_.fields));
    builder_.emplace(fields_, name_);
  }

  const std::shared_ptr<const std::vector<TableField>>& fields() const override { return fields_; }
  std::optional<std::uint64_t> rows() const override { return std::nullopt; }
  std::uint64_t position() const override { return position_; }

  void seek(std::uint64_t row) override {
    if (row < position_) rewind();
    while (position_ < row && step()) ++position_;
  }

  std::shared_ptr<const TableBlock> next() override {
    const std::uint64_t first_row = position_;
    try {
      while (builder_->rows() < options_.block_rows && step()) {
        add_row();
        ++position_;
      }
    } catch (...) {
      builder_.emplace(fields_, name_);
      throw;
    }
    if (builder_->rows() == 0) return nullptr;
    return builder_->take(first_row);
  }

 private:
  void open(const Path& path) {
    if (!file_exists(path)) throw NotFound("no such file: {}", name_);
    sqlite3* database = nullptr;
    const int result = ::sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(database);
    if (result != SQLITE_OK) fail();
  }

  void prepare() {
    sqlite3_stmt* statement = nullptr;
    const char* rest = nullptr;
    const std::string& query = options_.query;
    const int result = ::sqlite3_prepare_v2(database_.get(), query.c_str(),
                                            static_cast<int>(query.size() + 1), &statement, &rest);
    statement_.reset(statement);
    if (result != SQLITE_OK) fail();
    if (statement == nullptr || ::sqlite3_stmt_readonly(statement) == 0 ||
        ::sqlite3_column_count(statement) == 0) {
      throw InvalidArgument("{}: the query is no SELECT: {}", name_, query);
    }
    if (std::string_view(rest).find_first_not_of(" \t\r\n;") != std::string_view::npos) {
      throw InvalidArgument("{}: one SELECT is one statement, but there is more: {}", name_, rest);
    }
  }

  /// Goes to the next row; false after the last one.
  bool step() {
    if (is_at_end_) return false;
    const int result = ::sqlite3_step(statement_.get());
    if (result == SQLITE_ROW) return true;
    if (result != SQLITE_DONE) fail();
    is_at_end_ = true;
    return false;
  }

  void rewind() {
    ::sqlite3_reset(statement_.get());
    position_ = 0;
    is_at_end_ = false;
  }

  [[noreturn]] void fail() const {
    const int code = ::sqlite3_extended_errcode(database_.get()) & 0xff;
    const std::string message = ::sqlite3_errmsg(database_.get());
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
      throw DataLoss("{}: a damaged SQLite database: {}", name_, message);
    }
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
      throw Unavailable("{}: SQLite says: {}", name_, message);
    }
    throw InvalidArgument("{}: SQLite says: {}", name_, message);
  }

  int column_count() const { return ::sqlite3_column_count(statement_.get()); }

  std::string column_name(int column) const {
    const char* const name = ::sqlite3_column_name(statement_.get(), column);
    if (name == nullptr) throw ResourceExhausted("no memory for the names of columns");
    return name;
  }

  void guess_fields() {
    using Kind = TypeGuess::Kind;
    TypeGuess guess;
    for (int i = 0; i < column_count(); ++i) guess.see_missing(column_name(i));
    for (std::uint64_t row = 0; row < options_.guess_rows && step(); ++row) {
      for (int i = 0; i < column_count(); ++i) {
        const int type = ::sqlite3_column_type(statement_.get(), i);
        if (type == SQLITE_NULL) continue;
        Kind kind = Kind::kString;
        if (type == SQLITE_INTEGER) kind = Kind::kInt;
        if (type == SQLITE_FLOAT) kind = Kind::kDouble;
        guess.see(column_name(i), kind, false);
      }
    }
    rewind();
    options_.fields = guess.fields(name_);
  }

  /// A column of the query for each field, in this order.
  void check_fields() const {
    const auto count = static_cast<std::size_t>(column_count());
    if (options_.fields.size() != count) {
      throw InvalidArgument("{}: the query has {} columns of {} names; give each its own by AS",
                            name_, count, options_.fields.size());
    }
    for (std::size_t i = 0; i < count; ++i) {
      const TableField& field = options_.fields[i];
      if (field.name != column_name(static_cast<int>(i)) || field.list_depth > 0) {
        throw InvalidArgument("{}: column {} of the query is `{}`, not `{}`", name_, i,
                              column_name(static_cast<int>(i)), field.name);
      }
    }
  }

  void add_row() {
    try {
      for (int i = 0; i < column_count(); ++i) add_value(i);
      builder_->end_row();
    } catch (Error& error) {
      error.add_context(fmt::format("{} row {}", name_, position_));
      throw;
    }
  }

  void add_value(int i) {
    sqlite3_stmt* const statement = statement_.get();
    const auto column = static_cast<std::size_t>(i);
    switch (::sqlite3_column_type(statement, i)) {
      case SQLITE_INTEGER:
        return builder_->add_int(column, ::sqlite3_column_int64(statement, i));
      case SQLITE_FLOAT:
        return builder_->add_double(column, ::sqlite3_column_double(statement, i));
      case SQLITE_NULL:
        return builder_->add_missing(column);
      default: {
        const auto* const bytes = static_cast<const char*>(::sqlite3_column_blob(statement, i));
        const auto size = static_cast<std::size_t>(::sqlite3_column_bytes(statement, i));
        return builder_->add_string(column,
                                    bytes == nullptr ? std::string() : std::string(bytes, size));
      }
    }
  }

  std::string name_;
  SqliteOptions options_;
  std::unique_ptr<sqlite3, CloseDatabase> database_{};
  std::unique_ptr<sqlite3_stmt, EndStatement> statement_{};
  std::shared_ptr<const std::vector<TableField>> fields_{};
  std::optional<TableBuilder> builder_{};
  std::uint64_t position_ = 0;
  bool is_at_end_ = false;
};

}  // namespace

std::unique_ptr<TableReader> open_sqlite(const Path& path, SqliteOptions options) {
  return std::make_unique<SqliteReader>(path, std::move(options));
}

}  // namespace muster
