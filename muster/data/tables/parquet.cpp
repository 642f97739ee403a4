#include "muster/data/tables/parquet.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/tables/column_reader_internal.h"
#include "muster/data/tables/parquet_metadata_internal.h"

namespace muster {
namespace {

using parquet_internal::ColumnChunk;
using parquet_internal::ColumnReader;
using parquet_internal::FileMetadata;
using parquet_internal::Footer;
using parquet_internal::Leaf;
using parquet_internal::RowGroup;

class ParquetReader final : public TableReader {
 public:
  ParquetReader(std::string_view bytes, std::shared_ptr<const void> owner, std::string name,
                ParquetOptions options)
      : bytes_(bytes),
        owner_(std::move(owner)),
        name_(std::move(name)),
        options_(std::move(options)) {
    if (options_.block_rows == 0) throw InvalidArgument("block_rows must be positive");
    named([&] {
      const Footer footer = parquet_internal::find_footer(bytes_);
      pages_ = bytes_.substr(0, footer.offset);
      metadata_ = parquet_internal::parse_metadata(footer);
    });
    std::vector<TableField> all;
    for (const Leaf& leaf : metadata_.leaves) all.push_back(leaf.field);
    leaves_ = wanted_columns(all, options_.columns, name_);
    std::vector<TableField> fields;
    for (const std::size_t leaf : leaves_) fields.push_back(all[leaf]);
    fields_ = std::make_shared<const std::vector<TableField>>(std::move(fields));
  }

  const std::shared_ptr<const std::vector<TableField>>& fields() const override { return fields_; }
  std::optional<std::uint64_t> rows() const override { return metadata_.rows; }
  std::uint64_t position() const override { return position_; }

  void seek(std::uint64_t row) override {
    position_ = std::min(row, metadata_.rows);
    group_ = 0;
    group_begin_ = 0;
    while (group_ < metadata_.row_groups.size() && position_ - group_begin_ >= rows_of_group()) {
      group_begin_ += rows_of_group();
      ++group_;
    }
    readers_.clear();
  }

  std::shared_ptr<const TableBlock> next() override {
    if (position_ >= metadata_.rows) return nullptr;
    std::shared_ptr<const TableBlock> block;
    named([&] { block = read_block(); });
    return block;
  }

 private:
  template <typename Work>
  void named(const Work& work) const {
    try {
      work();
    } catch (Error& error) {
      error.add_context(name_);
      throw;
    }
  }

  std::uint64_t rows_of_group() const { return metadata_.row_groups[group_].rows; }

  void open_group() {
    while (position_ - group_begin_ >= rows_of_group()) {
      group_begin_ += rows_of_group();
      ++group_;
      readers_.clear();
    }
    if (readers_.size() == leaves_.size()) return;
    readers_.clear();
    std::vector<std::unique_ptr<ColumnReader>> readers;
    for (const std::size_t leaf : leaves_) {
      readers.push_back(parquet_internal::make_column_reader(
          {pages_, owner_}, metadata_.leaves[leaf], metadata_.row_groups[group_].columns[leaf],
          {.verify_checksums = options_.verify_checksums,
           .max_block_values = options_.max_block_values}));
      if (position_ > group_begin_) readers.back()->skip(position_ - group_begin_);
    }
    readers_ = std::move(readers);
  }

  /// Rows of the next block: fewer where lists are long.
  std::size_t rows_of_block() const {
    const RowGroup& group = metadata_.row_groups[group_];
    const std::uint64_t left = group_begin_ + group.rows - position_;
    std::uint64_t rows = std::min<std::uint64_t>(options_.block_rows, left);
    for (const std::size_t leaf : leaves_) {
      const std::uint64_t per_row =
          group.columns[leaf].values / std::max<std::uint64_t>(group.rows, 1);
      if (per_row > 1) rows = std::min(rows, options_.block_rows / per_row + 1);
    }
    return static_cast<std::size_t>(rows);
  }

  std::shared_ptr<const TableBlock> read_block() {
    try {
      open_group();
      auto block = std::make_shared<TableBlock>();
      block->fields = fields_;
      block->rows = rows_of_block();
      block->file = name_;
      block->first_row = position_;
      for (const auto& reader : readers_) block->columns.push_back(reader->read(block->rows));
      position_ += block->rows;
      return block;
    } catch (const Error&) {
      // Columns may have come to different rows.
      readers_.clear();
      throw;
    }
  }

  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::string name_;
  ParquetOptions options_;
  std::string_view pages_{};
  FileMetadata metadata_{};
  /// Places of the wanted columns among the leaves of the schema.
  std::vector<std::size_t> leaves_{};
  std::shared_ptr<const std::vector<TableField>> fields_{};
  std::uint64_t position_ = 0;
  /// The row group of the position, and its first row.
  std::size_t group_ = 0;
  std::uint64_t group_begin_ = 0;
  std::vector<std::unique_ptr<ColumnReader>> readers_{};
};

}  // namespace

std::unique_ptr<TableReader> open_parquet(const Path& path, ParquetOptions options) {
  const auto file = file_system_for(path).map(path);
  return open_parquet(file->bytes(), file, path.string(), std::move(options));
}

std::unique_ptr<TableReader> open_parquet(std::string_view bytes, std::shared_ptr<const void> owner,
                                          std::string name, ParquetOptions options) {
  return std::make_unique<ParquetReader>(bytes, std::move(owner), std::move(name),
                                         std::move(options));
}

}  // namespace muster
