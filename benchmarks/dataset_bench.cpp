// How many elements a second pass through a pipeline whose functions do nothing: what muster itself
// costs.

#include <cstdint>
#include <span>

#include "benchmarks/report.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/records/synthetic_census.h"
#include "muster/testing/temp_dir.h"

namespace {

using muster::Dataset;
using muster::range;
using muster::bench::Report;
using muster::bench::Row;

const std::uint64_t kElements = muster::bench::sized<std::uint64_t>(4'000'000, 40'000);
constexpr std::size_t kBatch = 128;
constexpr char kUnit[] = "million/s";

std::int64_t pass_on(std::int64_t value) { return value; }

template <typename Batch>
void drain(const Dataset<Batch>& dataset) {
  const auto iterator = dataset.iterate();
  while (const auto batch = iterator->next()) muster::bench::keep(*batch);
}

/// Adds a row of millions of elements a second.
template <typename Batch>
void measure(Report& report, Row row, std::uint64_t elements, const Dataset<Batch>& dataset) {
  if (!report.wants(row.name)) return;
  const double seconds = muster::bench::median_seconds([&] { drain(dataset); }, report.effort());
  row.value = static_cast<double>(elements) / seconds / 1e6;
  report.add(std::move(row));
}

/// How quickly a part passes over the rows of all parts: what one task of 64 does with a file.
void measure_parts(Report& report) {
  Row first{.name = "dataset: csv_rows + shuffle(400) + shard(64, 1), first pass", .unit = kUnit};
  Row later{.name = "dataset: csv_rows + shuffle(400) + shard(64, 1), later ones", .unit = kUnit};
  if (!report.wants(first.name) && !report.wants(later.name)) return;
  const muster::testing::TempDir folder;
  const auto file = muster::write_synthetic_census(folder.path()).train;
  const auto part = [&] {
    return muster::csv_rows({file.path}).shuffle(400, 1).shard(64, 1).batch(40);
  };
  if (report.wants(first.name)) {
    const double seconds = muster::bench::median_seconds([&] { drain(part()); }, report.effort());
    first.value = static_cast<double>(file.rows) / seconds / 1e6;
    report.add(std::move(first));
  }
  measure(report, std::move(later), file.rows, part());
}

/// The cost of handing one element from thread to thread, where each is handed over alone.
void measure_hand_off(Report& report) {
  const std::uint64_t hand_offs = muster::bench::sized<std::uint64_t>(100'000, 1'000);
  Row row{.name = "dataset: prefetch(2), each hand-off", .unit = "microseconds"};
  if (!report.wants(row.name)) return;
  const auto one = [](std::int64_t value) { return std::vector<std::int64_t>{value}; };
  const auto plain = range(hand_offs).map(one);
  const auto pair = muster::bench::median_pair([&] { drain(plain.prefetch(2)); },
                                               [&] { drain(plain); }, report.effort());
  row.value = (pair.work_seconds - pair.limit_seconds) / static_cast<double>(hand_offs) * 1e6;
  report.add(std::move(row));
}

}  // namespace

int main(int argc, char** argv) {
  Report report(argc, argv);
  measure(report,
          {.name = "dataset: map + batch(128), serial", .unit = kUnit, .at_least = 50, .aim = 100},
          kElements, range(kElements).map(pass_on).batch(kBatch));
  measure(report,
          {.name = "dataset: map + batch(128), 2 threads", .unit = kUnit, .at_least = 5, .aim = 20},
          kElements, range(kElements).map(pass_on, {.parallelism = 2}).batch(kBatch));
  measure(report, {.name = "dataset: shuffle(10000) + batch(128)", .unit = kUnit}, kElements,
          range(kElements).shuffle(10'000, 1).batch(kBatch));
  measure(report, {.name = "dataset: global_shuffle + batch(128)", .unit = kUnit}, kElements / 4,
          range(kElements / 4).global_shuffle(1).batch(kBatch));
  measure(report, {.name = "dataset: prefetch(4096) + batch(128)", .unit = kUnit}, kElements,
          range(kElements).prefetch(4096).batch(kBatch));
  measure_parts(report);
  measure_hand_off(report);
  return report.finish();
}
