#include "benchmarks/report.h"

#include <fmt/core.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster::bench {
namespace {

double seconds_once(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double seconds_per_call(const std::function<void()>& work, double min_seconds) {
  double total = 0;
  int calls = 0;
  do {
    total += seconds_once(work);
    ++calls;
  } while (total < min_seconds);
  return total / calls;
}

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Looking at this clock costs a call of the system, so ever more calls of the work pass in between.
double thread_seconds_per_call(const std::function<void()>& work, double min_seconds) {
  const double begin = thread_seconds();
  double used = 0;
  int calls = 0;
  for (int more = 1; used < min_seconds; more *= 2) {
    for (int i = 0; i < more; ++i) work();
    calls += more;
    used = thread_seconds() - begin;
  }
  return used / calls;
}

std::optional<double> ratio(const Row& row) {
  if (!row.limit) return std::nullopt;
  return row.value / *row.limit;
}

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

nlohmann::json to_json(const Row& row) {
  const auto number = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
  };
  return {{"name", row.name},
          {"value", row.value},
          {"unit", row.unit},
          {"limit", number(row.limit)},
          {"ratio", number(ratio(row))},
          {"at_least", number(row.at_least)},
          {"aim", number(row.aim)}};
}

}  // namespace

bool is_quick() {
  const char* const value = std::getenv("MUSTER_BENCH_QUICK");
  return value != nullptr && std::string(value) == "1";
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median_seconds(const std::function<void()>& work, const Effort& effort) {
  work();
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(effort.repetitions));
  for (int i = 0; i < effort.repetitions; ++i) {
    seconds.push_back(seconds_per_call(work, effort.min_seconds));
  }
  return median(std::move(seconds));
}

double least_thread_seconds(const std::function<void()>& work, const Effort& effort) {
  work();
  double least = thread_seconds_per_call(work, effort.min_seconds);
  for (int i = 1; i < effort.repetitions; ++i) {
    least = std::min(least, thread_seconds_per_call(work, effort.min_seconds));
  }
  return least;
}

Pair median_pair(const std::function<void()>& work, const std::function<void()>& limit,
                 const Effort& effort) {
  work();
  limit();
  std::vector<double> work_seconds;
  std::vector<double> limit_seconds;
  for (int i = 0; i < effort.repetitions; ++i) {
    work_seconds.push_back(seconds_per_call(work, effort.min_seconds));
    limit_seconds.push_back(seconds_per_call(limit, effort.min_seconds));
  }
  return {median(std::move(work_seconds)), median(std::move(limit_seconds))};
}

Report::Report(int argc, char** argv) {
  if (is_quick()) effort_ = {.repetitions = 1, .min_seconds = 0};
  CLI::App app("Measures a part of muster");
  app.add_option("--json", json_path_, "Also write the rows to this file");
  app.add_option("--repetitions", effort_.repetitions, "Timings that each median is taken of")
      ->check(CLI::PositiveNumber);
  app.add_option("--min-seconds", effort_.min_seconds, "How long one timing lasts at least");
  app.add_option("--only", only_, "Only rows whose name has this text in it");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
}

bool Report::wants(const std::string& name) const { return name.find(only_) != std::string::npos; }

void Report::add(Row row) {
  if (wants(row.name)) rows_.push_back(std::move(row));
}

int Report::finish() const {
  fmt::print("name | value | unit | limit | ratio | at least | aim\n");
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows_) {
    fmt::print("{} | {:.4g} | {} | {} | {} | {} | {}\n", row.name, row.value, row.unit,
               cell(row.limit), cell(ratio(row)), cell(row.at_least), cell(row.aim));
    list.push_back(to_json(row));
  }
  if (json_path_.empty()) return 0;
  std::ofstream file(json_path_);
  file << list.dump(2) << '\n';
  file.close();
  if (file) return 0;
  fmt::print(stderr, "cannot write {}\n", json_path_);
  return 1;
}

}  // namespace muster::bench
