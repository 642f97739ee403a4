#include "muster/data/tables/table_files.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/unaligned.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/dataset/record_files.h"
#include "muster/data/records/record_source.h"

namespace muster {
namespace {

/// A block whose rows travel as records: the bytes of one are its number in the block.
struct NumberedBlock {
  std::shared_ptr<const TableBlock> block{};
  std::vector<std::uint32_t> numbers{};
};

std::shared_ptr<const NumberedBlock> numbered(std::shared_ptr<const TableBlock> block) {
  auto out = std::make_shared<NumberedBlock>();
  out->numbers.resize(block->rows);
  std::iota(out->numbers.begin(), out->numbers.end(), 0U);
  out->block = std::move(block);
  return out;
}

TableRow row_of(const Record& record) {
  const auto from = std::static_pointer_cast<const NumberedBlock>(record.owner);
  return {{from, from->block.get()}, load_unaligned<std::uint32_t>(record.bytes.data())};
}

class TableSource final : public RecordSource {
 public:
  TableSource(Path path, std::unique_ptr<TableReader> reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}

  bool next(Record& out) override {
    if (!block_ || at_ == block_->block->rows) {
      // Without it, position() is that of the reader: after a row that it could not read.
      block_.reset();
      auto block = reader_->next();
      if (!block) return false;
      block_ = numbered(std::move(block));
      at_ = 0;
    }
    out.bytes = {reinterpret_cast<const char*>(&block_->numbers[at_]), sizeof(std::uint32_t)};
    out.owner = block_;
    ++at_;
    return true;
  }
  void seek(std::uint64_t number) override {
    if (block_) {
      const std::uint64_t first = block_->block->first_row;
      if (number >= first && number - first < block_->block->rows) {
        at_ = static_cast<std::size_t>(number - first);
        return;
      }
    }
    block_.reset();
    reader_->seek(number);
  }
  std::uint64_t position() const override {
    return block_ ? block_->block->first_row + at_ : reader_->position();
  }
  std::optional<std::uint64_t> count() const override { return reader_->rows(); }
  bool random_access() const override { return false; }
  std::string where(std::uint64_t number) const override {
    return fmt::format("{} row {}", path_.string(), number);
  }

 private:
  Path path_;
  std::unique_ptr<TableReader> reader_;
  std::shared_ptr<const NumberedBlock> block_{};
  std::size_t at_ = 0;
};

}  // namespace

Dataset<TableRow> table_rows(std::vector<Path> files, TableOpener open) {
  return from_files(std::move(files),
                    [open = std::move(open)](const Path& path) -> std::unique_ptr<RecordSource> {
                      return std::make_unique<TableSource>(path, open(path));
                    })
      .map([](const Record& record) { return row_of(record); });
}

Dataset<TableRow> parquet_rows(std::vector<Path> files, ParquetOptions options) {
  return table_rows(std::move(files), [options = std::move(options)](const Path& path) {
    return open_parquet(path, options);
  });
}

Dataset<TableRow> json_rows(std::vector<Path> files, JsonLinesOptions options) {
  return table_rows(std::move(files), [options = std::move(options)](const Path& path) {
    return open_json_lines(path, options);
  });
}

Dataset<TableRow> sqlite_rows(Path database, SqliteOptions options) {
  return table_rows({std::move(database)}, [options = std::move(options)](const Path& path) {
    return open_sqlite(path, options);
  });
}

}  // namespace muster
