#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>

#include "benchmarks/report.h"
#include "muster/console/run_store.h"
#include "muster/data/records/record_writer.h"
#include "muster/data/records/wire.h"
#include "muster/data/summary/event.h"
#include "muster/testing/temp_dir.h"

// How long the console takes for many runs and for a long one, from a warm page cache: rates are
// such that 1/s is the bound of a second.

namespace muster {
namespace {

using console::RunStore;

constexpr const char* kEvents = "events.out.tfevents.1.bench";

// An event with one scalar, by hand: ten million messages of protobuf would take longer than all
// else here.
void encode(std::int64_t step, std::string& out) {
  const double time = 1.7e9 + 0.01 * static_cast<double>(step);
  const auto value = static_cast<float>(std::exp(-static_cast<double>(step) / 1e6) +
                                        0.1 * std::sin(static_cast<double>(step)));
  out.assign("\x09", 1);
  out.append(reinterpret_cast<const char*>(&time), sizeof time);
  out += '\x10';
  wire::append_varint(static_cast<std::uint64_t>(step), out);
  out.append("\x2a\x0d\x0a\x0b\x0a\x04loss\x15", 11);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void write_run(const Path& folder, std::int64_t points) {
  std::filesystem::create_directories(folder);
  RecordWriter writer(folder / kEvents, {.durable = false});
  writer.append(encode_event({.what = FileVersion{std::string(kEventFileVersion)}}));
  std::string event;
  for (std::int64_t step = 0; step < points; ++step) {
    encode(step, event);
    writer.append(event);
  }
  writer.close();
}

void read_all(RunStore& store) {
  while (store.read_next()) {
  }
}

void many_runs(bench::Report& report) {
  const std::string listed = "console: listing 100 runs of 100,000 points";
  const std::string read = "console: reading them in the background";
  if (!report.wants(listed) && !report.wants(read)) return;
  const testing::TempDir folder;
  const int runs = bench::sized(100, 3);
  const std::int64_t points = bench::sized<std::int64_t>(100'000, 1'000);
  write_run(folder.path() / "run0", points);
  for (int i = 1; i < runs; ++i) {
    const Path copy = folder.path() / fmt::format("run{}", i);
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(folder.path() / "run0" / kEvents, copy / kEvents);
  }
  const double list_seconds = bench::median_seconds(
      [&] {
        const RunStore store({folder.path()});
        bench::keep(store.list());
      },
      report.effort());
  report.add({.name = listed, .value = 1 / list_seconds, .unit = "1/s", .at_least = 1});
  const double read_seconds = bench::median_seconds(
      [&] {
        RunStore store({folder.path()});
        read_all(store);
        bench::keep(store.list());
      },
      {.repetitions = 1, .min_seconds = 0});
  report.add({.name = read,
              .value = static_cast<double>(runs * points) / read_seconds / 1e6,
              .unit = "million points/s",
              .at_least = 2});
}

void long_run(bench::Report& report) {
  const std::string first = "console: opening a run of 10 million points for the first time";
  const std::string again = "console: opening it again";
  if (!report.wants(first) && !report.wants(again)) return;
  const testing::TempDir folder;
  write_run(folder.path() / "run", bench::sized<std::int64_t>(10'000'000, 10'000));
  const double first_seconds = bench::median_seconds(
      [&] {
        RunStore store({folder.path()});
        bench::keep(store.curves({{"run"}}, "loss", 2000));
      },
      {.repetitions = 1, .min_seconds = 0});
  report.add({.name = first, .value = 1 / first_seconds, .unit = "1/s", .aim = 1});
  RunStore store({folder.path()});
  read_all(store);
  const double again_seconds = bench::median_seconds(
      [&] { bench::keep(store.curves({{"run"}}, "loss", 2000)); }, report.effort());
  report.add({.name = again, .value = 1 / again_seconds, .unit = "1/s", .at_least = 1});
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::bench::Report report(argc, argv);
  muster::many_runs(report);
  muster::long_run(report);
  return report.finish();
}
