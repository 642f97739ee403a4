#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/thread_pool.h"
#include "muster/cli/command.h"
#include "muster/cli/records.h"
#include "muster/data/records/sharded_files.h"
#include "muster/data/tables/open_table.h"
#include "muster/data/tables/table_analysis.h"

namespace muster::cli {
namespace {

using nlohmann::json;

struct RecordsAnalyzeOptions {
  std::vector<std::string> files{};
  std::vector<std::string> other{};
  std::vector<std::string> columns{};
  std::string query{};
  std::string label = "label";
  std::size_t words = 5;
  bool as_json = false;
};

/// The analysis of all files, each in a thread of its own: it does not depend on how many there
/// are.
TableAnalysis analyze_files(const std::vector<std::string>& patterns,
                            const RecordsAnalyzeOptions& options) {
  const std::vector<Path> files = expand_files(patterns);
  std::vector<std::optional<TableAnalysis>> parts(files.size());
  std::vector<std::exception_ptr> failures(files.size());
  std::mutex mutex;
  std::size_t next = 0;
  const auto work = [&] {
    while (true) {
      std::size_t file = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == files.size()) return;
        file = next++;
      }
      try {
        parts[file] = analyze_table(*open_table(
            files[file], {.columns = options.columns, .any_file = true, .query = options.query}));
      } catch (...) {
        failures[file] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t count = std::min(files.size(), ThreadPool::available_processors());
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }
  TableAnalysis all;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    all.merge(*parts[i]);
  }
  return all;
}

double percent_of(std::uint64_t part, std::uint64_t all) {
  return all == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

/// One bar per part, as high as its share of the largest.
std::string bars(const std::vector<std::uint64_t>& histogram) {
  constexpr std::string_view kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint64_t most = std::max<std::uint64_t>(std::ranges::max(histogram), 1);
  std::string text;
  for (const std::uint64_t count : histogram) {
    const double share = static_cast<double>(count) / static_cast<double>(most);
    text += kBars[static_cast<std::size_t>(std::ceil(share * 8))];
  }
  return text;
}

void print_numbers(const ColumnSummary::Numbers& numbers) {
  if (numbers.count == 0) return;
  fmt::print("  {:g} to {:g}, mean {:g}, deviation {:g}, {:.1f} % are 0  |{}|\n", numbers.min,
             numbers.max, numbers.mean, numbers.deviation, percent_of(numbers.zeros, numbers.count),
             bars(numbers.histogram));
  fmt::print("  quantiles");
  for (std::size_t i = 0; i < numbers.quantiles.size(); ++i) {
    fmt::print("{} {:g} %: {:g}", i == 0 ? "" : ",", 100 * kSummaryQuantiles[i],
               numbers.quantiles[i]);
  }
  fmt::print("\n");
  if (numbers.nan + numbers.infinite > 0)
    fmt::print("  {} NaN, {} infinite\n", numbers.nan, numbers.infinite);
}

void print_words(const ColumnSummary& column, std::size_t most) {
  if (column.distinct.empty()) return;
  fmt::print("  {} different:", column.distinct.size());
  const std::uint64_t there = column.values - column.missing;
  for (std::size_t i = 0; i < std::min(most, column.distinct.size()); ++i) {
    const auto& [word, count] = column.distinct[i];
    fmt::print("{} {} {:.1f} %", i == 0 ? "" : ",", printable_line(word), percent_of(count, there));
  }
  fmt::print("{}\n", column.distinct.size() > most ? ", ..." : "");
}

void print_column(const ColumnSummary& column, const RecordsAnalyzeOptions& options) {
  const bool is_label = column.field.name == options.label;
  fmt::print("{} ({}{}): {} values, {:.1f} % missing{}\n", printable_line(column.field.name),
             column.field.list_depth > 0 ? "list of " : "", name_of(column.field.type),
             column.values, percent_of(column.missing, column.values),
             is_label ? "; the label" : "");
  if (column.field.list_depth > 0)
    fmt::print("  {} to {} a row\n", column.shortest_list, column.longest_list);
  if (column.numbers) print_numbers(*column.numbers);
  if (column.strings) {
    fmt::print("  {} to {} bytes long{}\n", column.strings->shortest, column.strings->longest,
               column.distinct.empty()
                   ? fmt::format(", more than {} different or one very long", kMostDistinct)
                   : "");
  }
  print_words(column, is_label ? kMostDistinct : options.words);
}

json column_json(const ColumnSummary& column) {
  json out{{"name", column.field.name},
           {"type", name_of(column.field.type)},
           {"list", column.field.list_depth > 0},
           {"values", column.values},
           {"missing", column.missing}};
  if (column.numbers) {
    const auto& numbers = *column.numbers;
    out["numbers"] = {{"count", numbers.count},
                      {"nan", numbers.nan},
                      {"infinite", numbers.infinite},
                      {"zeros", numbers.zeros},
                      {"min", numbers.min},
                      {"max", numbers.max},
                      {"mean", numbers.mean},
                      {"deviation", numbers.deviation},
                      {"quantiles", numbers.quantiles},
                      {"histogram", numbers.histogram}};
  }
  if (column.strings)
    out["strings"] = {{"shortest", column.strings->shortest}, {"longest", column.strings->longest}};
  if (column.field.list_depth > 0)
    out["list_lengths"] = {column.shortest_list, column.longest_list};
  if (!column.distinct.empty()) {
    json& distinct = out["distinct"] = json::object();
    for (const auto& [word, count] : column.distinct) distinct[printable_line(word)] = count;
  }
  return out;
}

void analyze(const RecordsAnalyzeOptions& options) {
  const TableAnalysis analysis = analyze_files(options.files, options);
  std::vector<std::string> differences;
  if (!options.other.empty()) {
    differences = analysis.differences(analyze_files(options.other, options));
  }
  if (options.as_json) {
    json columns = json::array();
    for (const ColumnSummary& column : analysis.columns()) columns.push_back(column_json(column));
    json out{{"rows", analysis.rows()}, {"columns", std::move(columns)}};
    if (!options.other.empty()) out["differences"] = differences;
    fmt::print("{}\n", out.dump(2, ' ', false, json::error_handler_t::replace));
    return;
  }
  fmt::print("{} rows\n", analysis.rows());
  for (const ColumnSummary& column : analysis.columns()) print_column(column, options);
  if (options.other.empty()) return;
  fmt::print("\n{}\n", differences.empty() ? "no differences to the other files"
                                           : "differences to the other files");
  for (const std::string& difference : differences)
    fmt::print("  {}\n", printable_line(difference));
}

}  // namespace

void add_records_analyze(CLI::App& command) {
  const auto options = std::make_shared<RecordsAnalyzeOptions>();
  command
      .add_option("FILE", options->files,
                  "Files of one table: CSV with a header, TFRecord of tf.Examples, .parquet, "
                  ".jsonl, SQLite")
      ->required();
  command.add_option("--compare", options->other,
                     "Files of evaluation, to be compared: missing values, distributions, unseen "
                     "words, rows in both");
  command.add_option("--columns", options->columns, "Columns to look at; none: all")
      ->delimiter(',');
  command.add_option("--query", options->query, "A SELECT, for SQLite databases");
  command.add_option("--label", options->label, "The column whose values are all shown")
      ->capture_default_str();
  command.add_option("--words", options->words, "Most frequent values to print of other columns")
      ->capture_default_str();
  add_json_flag(command, options->as_json, "One JSON object, with everything");
  command.callback([options] { analyze(*options); });
}

}  // namespace muster::cli
