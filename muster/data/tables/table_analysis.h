#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/tables/table.h"

namespace muster {

/// Statistics of the values of one column, those of lists taken together.
struct ColumnSummary {
  TableField field{};
  /// Values and how many of them are missing.
  std::uint64_t values = 0;
  std::uint64_t missing = 0;

  /// Numbers that are neither missing, infinite nor NaN.
  struct Numbers {
    std::uint64_t count = 0;
    std::uint64_t nan = 0;
    std::uint64_t infinite = 0;
    std::uint64_t zeros = 0;
    double min = 0;
    double max = 0;
    double mean = 0;
    /// Deviation of the population: divided by the count.
    double deviation = 0;
    /// Numbers below which 1, 25, 50, 75 and 99 % of all lie, to 0.03 % of their size.
    std::vector<double> quantiles{};
    /// How many there are in each of ten equal parts from min to max.
    std::vector<std::uint64_t> histogram{};
  };
  std::optional<Numbers> numbers{};

  /// Lengths of strings in bytes.
  struct Strings {
    std::size_t shortest = 0;
    std::size_t longest = 0;
  };
  std::optional<Strings> strings{};

  /// Different values of strings, whole numbers and booleans with their counts, most frequent
  /// first; empty where there are more than kMostDistinct.
  std::vector<std::pair<std::string, std::uint64_t>> distinct{};
  /// Lengths of lists.
  std::uint64_t shortest_list = 0;
  std::uint64_t longest_list = 0;
};

/// Shares of numbers that TableAnalysis gives quantiles for.
inline constexpr double kSummaryQuantiles[] = {0.01, 0.25, 0.5, 0.75, 0.99};
inline constexpr std::size_t kMostDistinct = 1000;

/// Statistics of a table in one pass: counts, sums without rounding, histograms by size. Merging
/// parts in any order gives the statistics of the whole to the bit. Belongs to one thread.
class TableAnalysis {
 public:
  TableAnalysis();
  ~TableAnalysis();
  TableAnalysis(TableAnalysis&&) noexcept;
  TableAnalysis& operator=(TableAnalysis&&) noexcept;

  /// Throws InvalidArgument for a block whose columns are others than those before; columns may
  /// come in any order.
  void add(const TableBlock& block);
  void merge(const TableAnalysis& other);

  std::uint64_t rows() const;
  std::vector<ColumnSummary> columns() const;

  /// Differences between the data of training, this, and `other`, of evaluation: a column
  /// that is not in both or of another type, missing values, numbers and words that are distributed
  /// otherwise, words that training has not seen, rows that are in both. One sentence each.
  std::vector<std::string> differences(const TableAnalysis& other) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// All rows of a table.
TableAnalysis analyze_table(TableReader& reader);

}  // namespace muster
