#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/tables/row_table_reader_internal.h"

namespace muster {
namespace {

class RowTableReader final : public TableReader {
 public:
  RowTableReader(std::string name, std::function<std::unique_ptr<RecordSource>()> open,
                 std::unique_ptr<RowFormat> format, RowTableOptions options)
      : name_(std::move(name)),
        open_(std::move(open)),
        format_(std::move(format)),
        options_(std::move(options)) {
    if (options_.block_rows == 0) throw InvalidArgument("block_rows must be positive");
    if (options_.fields.empty()) guess_fields();
    fields_ = std::make_shared<const std::vector<TableField>>(std::move(options_.fields));
    builder_.emplace(fields_, name_);
    source_ = open_();
  }

  const std::shared_ptr<const std::vector<TableField>>& fields() const override { return fields_; }
  std::optional<std::uint64_t> rows() const override { return source_->count(); }
  std::uint64_t position() const override { return source_->position(); }

  void seek(std::uint64_t row) override {
    failure_ = nullptr;
    source_->seek(row);
  }

  std::shared_ptr<const TableBlock> next() override {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    const std::uint64_t first_row = source_->position();
    while (builder_->rows() < options_.block_rows) {
      try {
        if (!read_row()) break;
      } catch (const Error&) {
        if (builder_->rows() == 0) throw;
        // The good rows before it first.
        failure_ = std::current_exception();
        break;
      }
    }
    if (builder_->rows() == 0) return nullptr;
    return builder_->take(first_row);
  }

 private:
  bool read_row() {
    Record record;
    if (!source_->next(record)) return false;
    try {
      format_->parse(record.bytes, reads_all_, *builder_);
      builder_->end_row();
    } catch (Error& error) {
      builder_->drop_row();
      error.add_context(source_->where(source_->position() - 1));
      throw;
    }
    return true;
  }

  void guess_fields() {
    const auto source = open_();
    TypeGuess guess;
    Record record;
    while (source->position() < options_.guess_rows && source->next(record)) {
      try {
        format_->guess(record.bytes, guess);
      } catch (Error& error) {
        error.add_context(source->where(source->position() - 1));
        throw;
      }
    }
    const std::vector<TableField> all = guess.fields(name_, format_->rules());
    reads_all_ = options_.columns.empty();
    for (const std::size_t place : wanted_columns(all, options_.columns, name_)) {
      options_.fields.push_back(all[place]);
    }
  }

  std::string name_;
  std::function<std::unique_ptr<RecordSource>()> open_;
  std::unique_ptr<RowFormat> format_;
  RowTableOptions options_;
  bool reads_all_ = false;
  std::shared_ptr<const std::vector<TableField>> fields_{};
  std::optional<TableBuilder> builder_{};
  std::unique_ptr<RecordSource> source_{};
  std::exception_ptr failure_{};
};

}  // namespace

std::unique_ptr<TableReader> make_row_table_reader(
    std::string name, std::function<std::unique_ptr<RecordSource>()> open,
    std::unique_ptr<RowFormat> format, RowTableOptions options) {
  return std::make_unique<RowTableReader>(std::move(name), std::move(open), std::move(format),
                                          std::move(options));
}

}  // namespace muster
