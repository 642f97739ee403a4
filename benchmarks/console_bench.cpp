#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "benchmarks/report.h"
#include "muster/console/console.h"
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

// A run of 100 scalars at each of some steps, with names as long as those of real ones.
void write_wide_run(const Path& folder, std::int64_t steps) {
  std::filesystem::create_directories(folder);
  RecordWriter writer(folder / kEvents, {.durable = false});
  writer.append(encode_event({.what = FileVersion{std::string(kEventFileVersion)}}));
  for (std::int64_t step = 1; step <= steps; ++step) {
    Summary summary;
    for (int tag = 0; tag < 100; ++tag) {
      summary.push_back({.tag = fmt::format("layer_{}/gradient_norm", tag),
                         .data = static_cast<float>(step + tag)});
    }
    writer.append(encode_event(
        {.wall_time = 1.7e9 + static_cast<double>(step), .step = step, .what = summary}));
  }
  writer.close();
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double size = 0;
  double pages = 0;
  file >> size >> pages;
  return pages * 4096 / (1 << 20);
}

serving::HttpResponse ask(console::Console& console, const std::string& target) {
  return console.handle({.method = "GET",
                         .target = target,
                         .headers = {{"Host", "localhost"}, {"Accept-Encoding", "gzip"}},
                         .is_from_this_host = true});
}

// Until all runs have been read.
void wait_for_all(console::Console& console) {
  const auto is_reading = [&] {
    auto answer = console.handle({.method = "GET",
                                  .target = "/api/runs",
                                  .headers = {{"Host", "localhost"}},
                                  .is_from_this_host = true});
    return answer.body.find("\"isRead\":false") != std::string::npos;
  };
  while (is_reading()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

// Seconds that one call takes, the first one.
template <typename Work>
double seconds_of_first(const Work& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

void crowd_of_runs(bench::Report& report) {
  const std::string first = "console: indexing 10,000 runs of 100 tags for the first time";
  const std::string again = "console: the list of these, from the start of a console with an index";
  const std::string memory = "console: 300 MiB over what it takes then";
  if (!report.wants(first) && !report.wants(again) && !report.wants(memory)) return;
  const testing::TempDir folder;
  const int runs = bench::sized(10'000, 120);
  const std::int64_t steps = bench::sized<std::int64_t>(100, 2);
  write_wide_run(folder.path() / "run0", steps);
  for (int i = 1; i < runs; ++i) {
    const Path copy = folder.path() / fmt::format("run{}", i);
    std::filesystem::create_directories(copy);
    // One file with many names: what is measured is reading, not a disk.
    std::filesystem::create_hard_link(folder.path() / "run0" / kEvents, copy / kEvents);
  }
  const double first_seconds = seconds_of_first([&] {
    console::Console console({.log_folders = {folder.path()}});
    wait_for_all(console);
  });
  report.add({.name = first,
              .value = static_cast<double>(runs * steps) * 100 / first_seconds / 1e6,
              .unit = "million points/s",
              .aim = 2});
  std::optional<console::Console> console;
  const double again_seconds = seconds_of_first([&] {
    console.emplace(console::ConsoleOptions{.log_folders = {folder.path()}});
    bench::keep(ask(*console, "/api/runs"));
  });
  report.add({.name = again, .value = 1 / again_seconds, .unit = "1/s", .at_least = 1});
  wait_for_all(*console);
  report.add({.name = memory, .value = 300 / resident_mib(), .unit = "x", .at_least = 1});
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
  muster::crowd_of_runs(report);
  muster::long_run(report);
  return report.finish();
}
