#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/features/batch.h"
#include "muster/data/features/column_set.h"
#include "muster/data/records/csv.h"
#include "muster/data/records/record.h"

namespace muster {

/// The field of a row that is its label: words, which become ids.
struct CsvLabel {
  std::string field{};
  /// The words in the order of their ids.
  std::vector<std::string> vocabulary{};
  /// The ending that a word may have; it is taken off before the word is looked up.
  std::string ending{};
  /// Rows to predict may come without a label, which becomes 0.
  bool may_be_blank = false;
};

struct ParseCsvOptions {
  /// The label among them.
  std::vector<CsvField> fields{};
  CsvOptions csv{};
  CsvLabel label{};
  /// The sets whose ids and numbers are made here, beside training.
  std::vector<std::shared_ptr<const ColumnSet>> columns{};
  /// Names a row in errors, such as "train.csv line 17"; empty: rows are counted within the batch.
  std::function<std::string(std::string_view row)> name{};
};

/// Returns a function for Dataset::map() after Dataset::batch() that parses rows of CSV files into
/// a batch: features under the names of their fields, and labels int64 [rows, 1]. Throws
/// InvalidArgument for fields that a CsvDecoder refuses, and for a label that is not among them;
/// the function throws InvalidArgument for what does not parse and for unknown words, naming the
/// row. It may be called from several threads.
std::function<Batch(std::vector<Record>)> parse_csv(ParseCsvOptions options);

/// Returns a function for ParseCsvOptions::name. Rows carry no line numbers through shuffles and
/// batches, so it reads the files again, with `open`, up to the row.
std::function<std::string(std::string_view row)> find_row_in(
    std::vector<Path> files, std::function<std::unique_ptr<RecordSource>(const Path& file)> open);

}  // namespace muster
