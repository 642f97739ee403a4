#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/records/compression.h"
#include "muster/data/records/line_file.h"
#include "muster/data/records/record_source.h"
#include "muster/data/records/row_table_internal.h"

namespace muster {

enum class EmptyRows { kKeep, kSkip, kError };

struct RowSourceOptions {
  std::uint64_t skip_header_lines = 0;
  /// A line feed between double quotes does not end a row.
  bool use_quotes = false;
  EmptyRows empty_rows = EmptyRows::kKeep;
  std::size_t max_row_bytes = 0;
};

/// The rows of a text file, behind both text lines and CSV. Rows are views into blocks that records
/// share.
class RowSource : public LineFile {
 public:
  /// Starts the text at an offset.
  using OpenAt = std::function<std::unique_ptr<InputStream>(std::uint64_t offset)>;

  /// `open` starts the text from its beginning; `name` stands for it in messages. Without `open_at`
  /// it has no offsets; with it, rows are lines: no quotes, and none is skipped.
  RowSource(std::string name, std::function<std::unique_ptr<InputStream>()> open,
            const RowSourceOptions& options, OpenAt open_at = nullptr);
  /// A file's rows.
  RowSource(const Path& path, Compression compression, const RowSourceOptions& options);

  bool next(Record& out) override;
  void seek(std::uint64_t number) override;
  void seek(std::uint64_t number, std::uint64_t offset) override;
  std::optional<std::uint64_t> offset() const override;
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> count() const override { return std::nullopt; }
  bool random_access() const override { return false; }
  std::string where(std::uint64_t number) const override;
  void note_places(std::uint64_t most) override;
  std::shared_ptr<const RecordTable> table() const override;

 private:
  void begin(std::unique_ptr<InputStream> input, std::uint64_t number, std::uint64_t offset);
  void rewind();
  /// The next row that counts, or false at the end.
  bool advance(std::string_view& row);
  bool read_row(bool use_quotes, std::string_view& row);
  /// Finds the line feed that ends the row, or the end of the file.
  std::size_t find_end(bool use_quotes);
  /// Puts the begun row at the front of a new block, and more of the file after it.
  bool read_more();
  /// Some editors begin a file with a byte order mark, which is no part of its first row.
  void skip_byte_order_mark();
  void note_line();
  std::uint64_t line_of(std::uint64_t number) const;
  [[noreturn]] void fail_unclosed() const;

  std::string name_;
  std::function<std::unique_ptr<InputStream>()> open_;
  RowSourceOptions options_;
  OpenAt open_at_;
  std::unique_ptr<InputStream> input_{};
  std::shared_ptr<char[]> block_{};
  /// Where the block begins in the text.
  std::uint64_t block_offset_ = 0;
  std::size_t filled_ = 0;
  /// Where the next row starts in the block.
  std::size_t row_start_ = 0;
  bool at_end_ = false;
  bool begun_ = false;
  /// Lines of the next row and of the row that was read last, counted from 1.
  std::uint64_t line_ = 1;
  std::uint64_t row_line_ = 1;
  std::uint64_t position_ = 0;
  /// Row number and its line, wherever lines do not go on by one a row.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> line_marks_{};
  /// Empty for text that is in no file.
  Path path_{};
  Compression compression_ = Compression::kAuto;
  std::optional<RowPlaces> places_{};
};

std::unique_ptr<RecordSource> open_rows(const Path& path, Compression compression,
                                        const RowSourceOptions& options);

}  // namespace muster
