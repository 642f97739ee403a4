#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/cli/progress.h"
#include "muster/cli/records.h"
#include "muster/data/records/record_reader.h"

namespace muster::cli {
namespace {

struct RecordsBenchOptions {
  std::string file;
  int repetitions = 5;
};

struct Totals {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
};

double median_seconds(int repetitions, const std::function<void()>& work) {
  work();  // Warms the page cache.
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const auto middle = seconds.begin() + repetitions / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

Totals read_through(const Path& file, bool verify) {
  RecordReaderOptions options;
  options.verify_checksums = verify;
  RecordReader reader(file, options);
  Totals totals;
  while (const auto record = reader.next()) {
    ++totals.records;
    totals.bytes += record->size();
  }
  return totals;
}

// Baseline of the machine: a copy of as many bytes between two touched buffers, in pieces if they
// are many.
double memcpy_seconds(std::uint64_t bytes, int repetitions) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;
  const auto size = static_cast<std::size_t>(std::clamp<std::uint64_t>(bytes, 1, kMostBytes));
  std::vector<char> from(size, 1);
  std::vector<char> to(size, 2);
  const double once = median_seconds(repetitions, [&] {
    std::memcpy(to.data(), from.data(), size);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
  return once * static_cast<double>(bytes) / static_cast<double>(size);
}

void print_row(const char* name, const Totals& totals, double seconds, double limit) {
  fmt::print("{:<24} {:>9.3f} s  {:>12}/s  {:>14} records/s  {:>5.2f} of memcpy\n", name, seconds,
             human_bytes(static_cast<double>(totals.bytes) / seconds),
             human_count(static_cast<double>(totals.records) / seconds), limit / seconds);
}

void run(const RecordsBenchOptions& options) {
  const Path file = options.file;
  const Totals totals = read_through(file, true);
  if (totals.records == 0) throw InvalidArgument("{} has no records to time", options.file);
  const double limit = memcpy_seconds(totals.bytes, options.repetitions);
  const double checked = median_seconds(options.repetitions, [&] { read_through(file, true); });
  const double unchecked = median_seconds(options.repetitions, [&] { read_through(file, false); });
  fmt::print("{}: {} records, {}, CRC32C by {}, median of {}\n", options.file, totals.records,
             human_bytes(static_cast<double>(totals.bytes)), crc32c_implementation(),
             options.repetitions);
  print_row("read, data checked", totals, checked, limit);
  print_row("read, lengths checked", totals, unchecked, limit);
  print_row("memcpy of the same bytes", totals, limit, limit);
}

}  // namespace

void add_records_bench(CLI::App& command) {
  const auto options = std::make_shared<RecordsBenchOptions>();
  command.add_option("FILE", options->file, "A TFRecord file")->required();
  command
      .add_option("--repetitions", options->repetitions, "Timings, of which the median is printed")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.callback([options] { run(*options); });
}

}  // namespace muster::cli
