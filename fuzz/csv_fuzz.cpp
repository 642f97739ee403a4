// CSV: cutting a file into rows, and rows into typed columns.

#include <string_view>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/data/records/csv.h"

namespace {

void decode_rows(const muster::CsvDecoder& decoder, muster::RecordSource& source) {
  auto columns = decoder.empty_columns();
  std::vector<muster::Record> rows;  // kept, since the strings are views into them
  for (muster::Record row; source.next(row);) {
    rows.push_back(row);
    try {
      decoder.append(row.bytes, columns);
    } catch (const muster::Error&) {
      // Refused; the columns must be as they were.
    }
    if (columns.int32s("age").size() != columns.rows) __builtin_trap();
    if (columns.strings("name").size() != columns.rows) __builtin_trap();
  }
}

void decode_text(const muster::CsvDecoder& decoder, std::string_view text,
                 const muster::CsvSourceOptions& options) {
  try {
    decode_rows(decoder, *muster::open_csv(text, "fuzz.csv", options));
  } catch (const muster::Error&) {
    // A row that does not end, or an empty one.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using muster::CsvField;
  static const std::vector<CsvField> fields{
      CsvField::string("name"), CsvField::int32("age", 0), CsvField::float32("score", 0.5F),
      CsvField::int64("id", 1), CsvField::float64("exact", 0.0)};
  static const muster::CsvDecoder strict(fields);
  static const muster::CsvDecoder loose(
      fields, {.delimiter = ';', .use_quotes = false, .strip_blanks = true, .na_value = "NA"});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  decode_text(strict, text, {.skip_empty_lines = true, .max_row_bytes = 1000});
  decode_text(loose, text, {.skip_header_lines = 1, .use_quotes = false});
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {"Ann,39,1.5,7,0.1\nBob,,,,\n", "\"x,\"\"y\"\"\",+1,-1e30,9223372036854775807,1e-300\n",
          "head\na;NA;NA;NA;NA\n b ;1;2;3;4\n",
          ",,,,\n\n,,,\r\n\"x\n\",1,2,3,4\n\"\",\"1\",\"2\",\"3\",\"4\"\n"};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {}; }
