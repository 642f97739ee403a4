// The feature columns of the Census model: both column sets of a batch, and what they are made of.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/fingerprint.h"
#include "muster/data/features/census_columns_internal.h"
#include "muster/data/features/column_set.h"
#include "muster/data/features/vocabulary.h"

namespace {

using muster::ColumnSet;
using muster::ColumnUse;

// Batches a second, so that more is better, as in every other row; `most_us` is the longest that a
// batch may take.
void measure_batch(muster::bench::Report& report, std::size_t rows, double most_us) {
  const auto name = fmt::format("census columns, batch {}", rows);
  if (!report.wants(name)) return;
  const auto columns = muster::internal::census_columns();
  const ColumnSet wide(columns.wide, ColumnUse::kLinear);
  const ColumnSet deep(columns.deep, ColumnUse::kInputLayer);
  const auto features = muster::internal::census_features(rows);
  const double seconds = muster::bench::median_seconds(
      [&] {
        muster::ColumnCache cache(features);
        muster::bench::keep(wide.pieces(cache));
        muster::bench::keep(deep.pieces(cache));
      },
      report.effort());
  report.add({.name = name,
              .value = 1e-3 / seconds,
              .unit = "thousand batches/s",
              .at_least = 1e3 / most_us});
}

void measure_fingerprints(muster::bench::Report& report) {
  const std::string name = "fingerprint of a word";
  if (!report.wants(name)) return;
  const auto features = muster::internal::census_features(1024);
  const auto words = features.strings("occupation").values();
  const double seconds = muster::bench::median_seconds(
      [&] {
        std::uint64_t sum = 0;
        for (const auto word : words) sum += muster::fingerprint64(word);
        muster::bench::keep(sum);
      },
      report.effort());
  report.add({.name = name,
              .value = 1e-6 * static_cast<double>(words.size()) / seconds,
              .unit = "million/s"});
}

void measure_vocabulary(muster::bench::Report& report) {
  const std::string name = "look-up among 100,000 words";
  if (!report.wants(name)) return;
  std::vector<std::string> list;
  for (int i = 0; i < 100'000; ++i) list.push_back(fmt::format("word{}", i));
  const muster::Vocabulary words(list);
  const double seconds = muster::bench::median_seconds(
      [&] {
        std::int64_t sum = 0;
        for (const auto& word : list) sum += words.find(word);
        muster::bench::keep(sum);
      },
      report.effort());
  report.add({.name = name,
              .value = 1e-6 * static_cast<double>(list.size()) / seconds,
              .unit = "million/s"});
}

}  // namespace

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  measure_batch(report, 40, 100);
  measure_batch(report, 1024, 1536);
  measure_fingerprints(report);
  measure_vocabulary(report);
  return report.finish();
}
