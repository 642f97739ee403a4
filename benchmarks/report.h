#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::bench {

/// One line of the speed table. With a limit (what the machine can do at best, measured in the same
/// run) `at_least` and `aim` are meant for the ratio, without one for the value.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> limit{};
  std::optional<double> at_least{};
  std::optional<double> aim{};
};

/// How often each piece of work is timed.
struct Effort {
  int repetitions = 7;
  /// One timing runs the work again until this has passed.
  double min_seconds = 0.05;
};

/// Whether the environment has MUSTER_BENCH_QUICK=1: each piece of work is then a small part of
/// itself and done once, to see that it still runs. Figures mean nothing.
bool is_quick();

/// How much of something is measured: `all`, or `few` in a quick run.
template <typename T>
T sized(const T& all, const T& few) {
  return is_quick() ? few : all;
}

/// The middle one, or the mean of the two in the middle. Give one value or more.
double median(std::vector<double> values);

/// The median seconds that one call of `work` takes, after one call that does not count.
double median_seconds(const std::function<void()>& work, const Effort& effort = {});

/// The least time of a processor that one call of `work` takes in this thread, after one call that
/// does not count: what a machine that is busy with other work changes least. For work that is done
/// in the calling thread.
double least_thread_seconds(const std::function<void()>& work, const Effort& effort = {});

/// The medians of work and limit, timed in turns so that a busy machine slows both.
struct Pair {
  double work_seconds = 0;
  double limit_seconds = 0;
};
Pair median_pair(const std::function<void()>& work, const std::function<void()>& limit,
                 const Effort& effort = {});

/// Keeps the compiler from removing what computes this value.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// A benchmark program's command line and its table:
///
///   int main(int argc, char** argv) {
///     muster::bench::Report report(argc, argv);
///     report.add({.name = "parse", .value = 9.1, .unit = "million/s", .at_least = 8, .aim = 15});
///     return report.finish();
///   }
///
/// Flags: --json FILE, --repetitions N, --min-seconds S, --only TEXT (rows whose name has it). In a
/// quick run everything is timed once.
class Report {
 public:
  /// Ends the program with 2 on a flag it does not know.
  Report(int argc, char** argv);

  const Effort& effort() const { return effort_; }
  /// Whether the row is asked for; ask before work that takes long.
  bool wants(const std::string& name) const;
  void add(Row row);
  /// Prints the table and writes the JSON. What main() returns: a miss is shown, not a failure.
  int finish() const;

 private:
  Effort effort_;
  std::string only_;
  std::string json_path_;
  std::vector<Row> rows_;
};

}  // namespace muster::bench
