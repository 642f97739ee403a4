#include "muster/data/tables/table_analysis.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/fingerprint.h"
#include "muster/base/printable.h"
#include "muster/data/tables/exact_sum_internal.h"

namespace muster {
namespace {

/// Words longer than this are not counted one by one: pictures in columns of bytes.
constexpr std::size_t kMostWordBytes = 128;
/// Rows that are remembered, by fingerprint, to find those that are in two files.
constexpr std::size_t kMostKnownRows = std::size_t{1} << 22;

/// Numbers of nearly one size share a bucket: sign, exponent and twelve bits of the fraction.
std::int32_t bucket_of(double value) {
  const auto bits = std::bit_cast<std::int64_t>(value);
  const auto top = static_cast<std::int32_t>((bits & INT64_MAX) >> 40);
  return bits < 0 ? -1 - top : top;
}

/// The number of a bucket that is nearest to 0: whole ones up to 8,191 are right.
double number_of(std::int32_t bucket) {
  const std::int64_t top = bucket < 0 ? -1 - std::int64_t{bucket} : bucket;
  const double size = std::bit_cast<double>(top << 40);
  return bucket < 0 ? -size : size;
}

double mean_of(const ExactColumnSum& sum, std::uint64_t count) {
  return sum.value().high / static_cast<double>(count);
}

/// The deviation by sums without rounding: their difference may be small beside them.
double deviation_of(const ExactColumnSum& sum, const ExactColumnSum& squares, std::uint64_t count) {
  const auto n = static_cast<double>(count);
  const DoublePair s = sum.value();
  const DoublePair q = squares.value();
  // n * q - s * s, each product as two doubles.
  const double left = n * q.high;
  const double left_low = std::fma(n, q.high, -left) + n * q.low;
  const double right = s.high * s.high;
  const double right_low = std::fma(s.high, s.high, -right) + 2 * s.high * s.low;
  const double difference = (left - right) + (left_low - right_low);
  return std::sqrt(std::max(difference, 0.0)) / n;
}

class ColumnStatistics {
 public:
  explicit ColumnStatistics(TableField field) : field_(std::move(field)) {}

  const TableField& field() const { return field_; }

  void add(const TableColumn& column) {
    if (!column.splits.empty()) add_lists(column);
    std::visit([&](const auto& values) { add_values(values, column); }, column.values);
  }

  void merge(const ColumnStatistics& other) {
    values_ += other.values_;
    missing_ += other.missing_;
    nan_ += other.nan_;
    infinite_ += other.infinite_;
    zeros_ += other.zeros_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    sum_.merge(other.sum_);
    squares_.merge(other.squares_);
    for (const auto& [bucket, count] : other.buckets_) buckets_[bucket] += count;
    shortest_ = std::min(shortest_, other.shortest_);
    longest_ = std::max(longest_, other.longest_);
    shortest_list_ = std::min(shortest_list_, other.shortest_list_);
    longest_list_ = std::max(longest_list_, other.longest_list_);
    if (other.is_crowded_) crowd();
    for (const auto& [word, count] : other.words_) count_word(word, count);
  }

  ColumnSummary summary() const {
    ColumnSummary out;
    out.field = field_;
    out.values = values_;
    out.missing = missing_;
    if (is_number()) out.numbers = numbers();
    if (field_.type == TableType::kString && values_ > missing_) {
      out.strings = ColumnSummary::Strings{shortest_, longest_};
    }
    out.distinct.assign(words_.begin(), words_.end());
    std::ranges::sort(out.distinct, [](const auto& left, const auto& right) {
      return left.second != right.second ? left.second > right.second : left.first < right.first;
    });
    out.shortest_list = longest_list_ == 0 ? 0 : shortest_list_;
    out.longest_list = longest_list_;
    return out;
  }

  bool is_number() const {
    return field_.type != TableType::kString && field_.type != TableType::kBool;
  }
  std::uint64_t count() const { return values_ - missing_; }
  std::uint64_t values() const { return values_; }
  std::uint64_t finite() const { return count() - nan_ - infinite_; }
  double missing_share() const {
    return values_ == 0 ? 0 : static_cast<double>(missing_) / static_cast<double>(values_);
  }
  /// Nothing where there are too many.
  bool has_words() const { return !is_crowded_ && !words_.empty(); }
  const std::map<std::string, std::uint64_t, std::less<>>& words() const { return words_; }

  /// The greatest difference between the shares of numbers below any bound (Kolmogorov-Smirnov).
  double distance(const ColumnStatistics& other) const {
    std::set<std::int32_t> all;
    for (const auto& [bucket, count] : buckets_) all.insert(bucket);
    for (const auto& [bucket, count] : other.buckets_) all.insert(bucket);
    double mine = 0;
    double its = 0;
    double greatest = 0;
    for (const std::int32_t bucket : all) {
      mine += share_of(bucket);
      its += other.share_of(bucket);
      greatest = std::max(greatest, std::abs(mine - its));
    }
    return greatest;
  }

 private:
  void add_lists(const TableColumn& column) {
    const auto& splits = column.splits.front();
    for (std::size_t i = 0; i + 1 < splits.size(); ++i) {
      const auto size = static_cast<std::uint64_t>(splits[i + 1] - splits[i]);
      shortest_list_ = std::min(shortest_list_, size);
      longest_list_ = std::max(longest_list_, size);
    }
  }

  template <typename Values>
  void add_values(const Values& values, const TableColumn& column) {
    using Value = std::decay_t<decltype(values[0])>;
    values_ += values.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!column.is_valid(i)) {
        ++missing_;
      } else if constexpr (std::is_same_v<Value, std::string_view>) {
        add_word(values[i]);
      } else if constexpr (std::is_same_v<Value, std::uint8_t>) {
        count_word(values[i] != 0 ? "true" : "false", 1);
      } else {
        add_number(static_cast<double>(values[i]));
        if constexpr (std::is_integral_v<Value>) {
          if (!is_crowded_) count_word(fmt::format("{}", values[i]), 1);
        }
      }
    }
  }

  void add_word(std::string_view word) {
    shortest_ = std::min(shortest_, word.size());
    longest_ = std::max(longest_, word.size());
    if (word.size() > kMostWordBytes) {
      crowd();
    } else {
      count_word(word, 1);
    }
  }

  void count_word(std::string_view word, std::uint64_t count) {
    if (is_crowded_) return;
    const auto found = words_.find(word);
    if (found != words_.end()) {
      found->second += count;
    } else if (words_.size() < kMostDistinct) {
      words_.emplace(word, count);
    } else {
      crowd();
    }
  }
  /// There are more words than are counted, in any order of the rows.
  void crowd() {
    is_crowded_ = true;
    words_.clear();
  }

  void add_number(double value) {
    if (std::isnan(value)) {
      ++nan_;
      return;
    }
    if (std::isinf(value)) {
      ++infinite_;
      return;
    }
    zeros_ += value == 0 ? 1 : 0;
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
    sum_.add(value);
    squares_.add_square(value);
    ++buckets_[bucket_of(value + 0.0)];
  }

  double share_of(std::int32_t bucket) const {
    const auto found = buckets_.find(bucket);
    if (found == buckets_.end()) return 0;
    return static_cast<double>(found->second) / static_cast<double>(finite());
  }

  ColumnSummary::Numbers numbers() const {
    ColumnSummary::Numbers out;
    out.count = finite();
    out.nan = nan_;
    out.infinite = infinite_;
    out.zeros = zeros_;
    if (out.count == 0) return out;
    out.min = min_;
    out.max = max_;
    out.mean = mean_of(sum_, out.count);
    out.deviation = deviation_of(sum_, squares_, out.count);
    const std::map<std::int32_t, std::uint64_t> ordered(buckets_.begin(), buckets_.end());
    out.quantiles = quantiles(ordered, out.count);
    out.histogram = histogram(ordered);
    return out;
  }

  std::vector<double> quantiles(const std::map<std::int32_t, std::uint64_t>& ordered,
                                std::uint64_t count) const {
    std::vector<double> found;
    std::uint64_t below = 0;
    for (const auto& [bucket, in_it] : ordered) {
      below += in_it;
      while (found.size() < std::size(kSummaryQuantiles) &&
             static_cast<double>(below) >=
                 kSummaryQuantiles[found.size()] * static_cast<double>(count)) {
        found.push_back(std::clamp(number_of(bucket), min_, max_));
      }
    }
    return found;
  }

  std::vector<std::uint64_t> histogram(const std::map<std::int32_t, std::uint64_t>& ordered) const {
    constexpr std::size_t kParts = 10;
    std::vector<std::uint64_t> parts(kParts, 0);
    const double width = max_ / kParts - min_ / kParts;
    for (const auto& [bucket, count] : ordered) {
      const double value = std::clamp(number_of(bucket), min_, max_);
      const double part = width > 0 ? (value - min_) / width : 0;
      parts[std::min(kParts - 1, static_cast<std::size_t>(part))] += count;
    }
    return parts;
  }

  TableField field_;
  std::uint64_t values_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t nan_ = 0;
  std::uint64_t infinite_ = 0;
  std::uint64_t zeros_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  ExactColumnSum sum_{};
  ExactColumnSum squares_{};
  std::unordered_map<std::int32_t, std::uint64_t> buckets_{};
  std::size_t shortest_ = SIZE_MAX;
  std::size_t longest_ = 0;
  std::uint64_t shortest_list_ = UINT64_MAX;
  std::uint64_t longest_list_ = 0;
  bool is_crowded_ = false;
  std::map<std::string, std::uint64_t, std::less<>> words_{};
};

std::uint64_t fingerprint_of_values(const TableColumn& column, std::size_t begin, std::size_t end) {
  return std::visit(
      [&](const auto& values) {
        std::uint64_t mixed = end - begin;
        for (std::size_t i = begin; i < end; ++i) {
          std::uint64_t one = 0;
          if constexpr (std::is_same_v<std::decay_t<decltype(values[i])>, std::string_view>) {
            one = fingerprint64(values[i]);
          } else {
            one = std::bit_cast<std::uint64_t>(static_cast<double>(values[i]));
          }
          mixed = concatenate_fingerprints(mixed, column.is_valid(i) ? one : 1);
        }
        return mixed;
      },
      column.values);
}

std::uint64_t fingerprint_of_row(const TableBlock& block, std::size_t row) {
  std::uint64_t mixed = 0;
  // By name: the columns of another file may have another order.
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    const TableColumn& column = block.columns[i];
    std::size_t begin = row;
    std::size_t end = row + 1;
    for (const auto& splits : column.splits) {
      begin = static_cast<std::size_t>(splits[begin]);
      end = static_cast<std::size_t>(splits[end]);
    }
    mixed += concatenate_fingerprints(fingerprint64((*block.fields)[i].name),
                                      fingerprint_of_values(column, begin, end));
  }
  return mixed;
}

/// Differences that are reported: shares of 1.
constexpr double kMostMissingDifference = 0.05;
constexpr double kMostDistance = 0.1;
constexpr double kMostUnseenShare = 0.01;
/// Fewer values say little about their distribution.
constexpr std::uint64_t kFewValues = 100;

void compare_words(const ColumnStatistics& train, const ColumnStatistics& other,
                   std::vector<std::string>& out) {
  if (!train.has_words() || !other.has_words()) return;
  std::uint64_t unseen = 0;
  std::string example;
  double greatest = 0;
  std::string greatest_word;
  for (const auto& [word, count] : other.words()) {
    const auto found = train.words().find(word);
    if (found == train.words().end()) {
      unseen += count;
      if (example.empty()) example = word;
    }
    const std::uint64_t known = found == train.words().end() ? 0 : found->second;
    const double difference =
        std::abs(static_cast<double>(count) / static_cast<double>(other.count()) -
                 static_cast<double>(known) / static_cast<double>(train.count()));
    if (difference > greatest) {
      greatest = difference;
      greatest_word = word;
    }
  }
  const double unseen_share = static_cast<double>(unseen) / static_cast<double>(other.count());
  if (unseen_share > kMostUnseenShare && !train.is_number()) {
    out.push_back(
        fmt::format("`{}`: {:.1f} % of the values are not in the training data, such as {}",
                    train.field().name, 100 * unseen_share, printable(example)));
  }
  const bool are_enough = train.count() >= kFewValues && other.count() >= kFewValues;
  if (greatest > kMostDistance && are_enough && !train.is_number()) {
    out.push_back(fmt::format("`{}`: the share of {} differs by {:.1f} %", train.field().name,
                              printable(greatest_word), 100 * greatest));
  }
}

void compare_columns(const ColumnStatistics& train, const ColumnStatistics& other,
                     std::vector<std::string>& out) {
  const std::string& name = train.field().name;
  const bool are_alike =
      train.is_number() == other.is_number() &&
      (train.field().type == TableType::kString) == (other.field().type == TableType::kString);
  if (!are_alike || train.field().list_depth != other.field().list_depth) {
    out.push_back(fmt::format("`{}` is {} in the training data and {} in the other", name,
                              name_of(train.field().type), name_of(other.field().type)));
    return;
  }
  if (std::abs(train.missing_share() - other.missing_share()) > kMostMissingDifference) {
    out.push_back(
        fmt::format("`{}`: {:.1f} % are missing in the training data, {:.1f} % in the other", name,
                    100 * train.missing_share(), 100 * other.missing_share()));
  }
  if (train.is_number() && train.finite() >= kFewValues && other.finite() >= kFewValues) {
    const double distance = train.distance(other);
    if (distance > kMostDistance) {
      out.push_back(
          fmt::format("`{}`: its numbers are distributed otherwise, by up to {:.1f} % of them",
                      name, 100 * distance));
    }
  }
  compare_words(train, other, out);
}

}  // namespace

struct TableAnalysis::Impl {
  std::uint64_t rows = 0;
  std::vector<ColumnStatistics> columns{};
  std::unordered_set<std::uint64_t> known_rows{};

  const ColumnStatistics* find(std::string_view name) const {
    const auto found = std::ranges::find_if(
        columns, [&](const auto& column) { return column.field().name == name; });
    return found == columns.end() ? nullptr : &*found;
  }
  ColumnStatistics& of(const TableField& field, bool is_first) {
    for (ColumnStatistics& column : columns) {
      if (column.field().name != field.name) continue;
      if (column.field().type != field.type || column.field().list_depth != field.list_depth) {
        throw InvalidArgument("`{}` is {} in one file and {} in another", field.name,
                              name_of(column.field().type), name_of(field.type));
      }
      return column;
    }
    if (!is_first) throw InvalidArgument("`{}` is not a column of all files", field.name);
    return columns.emplace_back(field);
  }
};

TableAnalysis::TableAnalysis() : impl_(std::make_unique<Impl>()) {}
TableAnalysis::~TableAnalysis() = default;
TableAnalysis::TableAnalysis(TableAnalysis&&) noexcept = default;
TableAnalysis& TableAnalysis::operator=(TableAnalysis&&) noexcept = default;

void TableAnalysis::add(const TableBlock& block) {
  const bool is_first = impl_->columns.empty();
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    impl_->of((*block.fields)[i], is_first).add(block.columns[i]);
  }
  for (std::size_t row = 0; row < block.rows && impl_->known_rows.size() < kMostKnownRows; ++row) {
    impl_->known_rows.insert(fingerprint_of_row(block, row));
  }
  impl_->rows += block.rows;
}

void TableAnalysis::merge(const TableAnalysis& other) {
  const bool is_first = impl_->columns.empty();
  for (const ColumnStatistics& column : other.impl_->columns) {
    impl_->of(column.field(), is_first).merge(column);
  }
  impl_->known_rows.insert(other.impl_->known_rows.begin(), other.impl_->known_rows.end());
  impl_->rows += other.impl_->rows;
}

std::uint64_t TableAnalysis::rows() const { return impl_->rows; }

std::vector<ColumnSummary> TableAnalysis::columns() const {
  std::vector<ColumnSummary> out;
  for (const ColumnStatistics& column : impl_->columns) out.push_back(column.summary());
  return out;
}

std::vector<std::string> TableAnalysis::differences(const TableAnalysis& other) const {
  std::vector<std::string> out;
  for (const ColumnStatistics& column : impl_->columns) {
    if (const auto* its = other.impl_->find(column.field().name)) {
      compare_columns(column, *its, out);
    } else {
      out.push_back(fmt::format("`{}` is in the training data alone", column.field().name));
    }
  }
  for (const ColumnStatistics& column : other.impl_->columns) {
    if (impl_->find(column.field().name) == nullptr) {
      out.push_back(fmt::format("`{}` is not in the training data", column.field().name));
    }
  }
  const auto shared = std::ranges::count_if(
      other.impl_->known_rows, [&](std::uint64_t row) { return impl_->known_rows.contains(row); });
  if (shared > 0) {
    out.push_back(fmt::format("{} different rows are also in the training data", shared));
  }
  return out;
}

TableAnalysis analyze_table(TableReader& reader) {
  TableAnalysis analysis;
  while (const auto block = reader.next()) analysis.add(*block);
  return analysis;
}

}  // namespace muster
