// Simulated runs: one that is replayed, with its story, or many seeds, until one is found in which
// something is not as it should be; its faults are then shrunk to those that it takes.
#include <fmt/core.h>
#include <sched.h>
#include <sys/personality.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/flags/flags.h"
#include "muster/base/program.h"
#include "muster/base/random.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/simulated_run.h"
#include "tests/simulation/warm_up.h"

namespace muster::simulation {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::uint64_t seed = 1;
  std::int64_t seeds = 1;
  double seconds = 0;
  std::string layout;
  std::string faults = "drawn";
  std::int64_t count = -1;
  std::int64_t steps = 12;
  std::string story;
  double patience = 300;
  bool shrink = true;
  bool goes_on = false;
  bool twice = false;
  std::string list;
};

// The last fault comes no later than so long after the start; runs without any take 0.4 s.
constexpr Time kLastFault = 700 * kMillisecond;
constexpr std::uint64_t kMostFaults = 6;
// All choices of so many are tried.
constexpr std::size_t kMostToShrink = 8;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

const Layout& layout_of(const Flags& flags, std::uint64_t seed) {
  if (!flags.layout.empty()) return layout_named(flags.layout);
  return layouts()[Random(seed, 0, 7).below(layouts().size())];
}

class Simulator {
 public:
  explicit Simulator(Flags flags)
      : flags_(std::move(flags)),
        folder_(fmt::format("/dev/shm/muster-simulation-{}", ::getpid())) {
    options_.steps = flags_.steps;
    options_.folder = folder_ / "run";
    options_.patience = static_cast<Time>(flags_.patience * kSecond);
    std::filesystem::create_directories(folder_);
  }
  ~Simulator() {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(folder_);
  }
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  int run() {
    hash_ = hash_of_one_process(options_);
    fmt::print("the weights of one process: {}\n", hash_);
    std::fflush(stdout);
    if (!flags_.list.empty()) return run_list();
    const auto start = Clock::now();
    std::uint64_t done = 0;
    std::size_t faults = 0;
    std::uint64_t found = 0;
    for (; !is_over(done, start); ++done) {
      const std::uint64_t seed = flags_.seed + done;
      choose(seed);
      RunEnd end = run_once(folder_ / "story");
      if (flags_.twice && end.finding.empty()) end.finding = compare_with_another();
      faults += options_.faults.size();
      report(end);
      if (end.finding.empty()) continue;
      ++found;
      fail(end);
      if (!flags_.goes_on) return 1;
    }
    if (found > 0) return 1;
    const double spent = seconds_since(start);
    fmt::print(
        "{} seeds, {} faults, {} starts of tasks, {:.0f} s simulated: all as they should be; "
        "{:.1f} s, {:.1f} seeds/s\n",
        done, faults, starts_, static_cast<double>(simulated_) / kSecond, spent,
        static_cast<double>(done) / spent);
    return 0;
  }

 private:
  // Runs that were found once; all of them, whatever is found.
  int run_list() {
    std::ifstream file(flags_.list);
    if (!file) throw UsageError("--list: cannot read {}", flags_.list);
    int found = 0;
    std::string faults;
    for (std::string layout; file >> options_.seed >> layout && std::getline(file, faults);) {
      options_.layout = layout_named(layout);
      options_.hash = hash_;
      options_.faults = parse_faults(faults, options_.layout.tasks());
      const RunEnd end = run_once(folder_ / "story");
      fmt::print("seed {} layout {}:{}: {}\n", options_.seed, layout, faults,
                 end.finding.empty() ? "as it should be" : end.finding);
      std::fflush(stdout);
      if (!end.finding.empty()) ++found;
    }
    return found > 0 ? 1 : 0;
  }

  bool is_over(std::uint64_t done, Clock::time_point start) const {
    if (flags_.seconds > 0) return seconds_since(start) >= flags_.seconds;
    return done >= static_cast<std::uint64_t>(flags_.seeds);
  }

  void choose(std::uint64_t seed) {
    options_.seed = seed;
    options_.layout = layout_of(flags_, seed);
    options_.hash = hash_;
    const auto tasks = options_.layout.tasks();
    if (flags_.faults != "drawn") {
      options_.faults = parse_faults(flags_.faults, tasks);
      return;
    }
    const auto count = flags_.count >= 0 ? static_cast<std::size_t>(flags_.count)
                                         : Random(seed, 0, 8).below(kMostFaults + 1);
    options_.faults = draw_faults(seed, count, tasks.size(), kLastFault);
  }

  RunEnd run_once(const Path& story) {
    options_.story = story;
    const RunEnd end = simulate(options_);
    starts_ += end.starts;
    simulated_ += end.length;
    return end;
  }

  std::string compare_with_another() {
    run_once(folder_ / "another");
    const bool same = read_file(folder_ / "story") == read_file(folder_ / "another");
    return same ? "" : "run once more, the seed has another story";
  }

  void report(const RunEnd& end) const {
    // A finding's is printed when its faults are shrunk.
    if (flags_.seeds == 1 && flags_.seconds <= 0 && flags_.story.empty() && end.finding.empty()) {
      print_story();
    }
    keep_story();
    if (!end.finding.empty()) {
      fmt::print("seed {} layout {}: {}\n", options_.seed, options_.layout.name, end.finding);
    }
    std::fflush(stdout);
  }

  void print_story() const { fmt::print("{}", read_file((folder_ / "story").string())); }

  std::string replay_words() const {
    std::string words = fmt::format("--seed {} --layout {} --steps {}", options_.seed,
                                    options_.layout.name, options_.steps);
    if (flags_.patience != Flags().patience)
      words += fmt::format(" --patience {}", flags_.patience);
    return words + fmt::format(" --faults '{}'", to_text(options_.faults, options_.layout.tasks()));
  }

  void keep_story() const {
    if (flags_.story.empty()) return;
    std::filesystem::copy_file(folder_ / "story", flags_.story,
                               std::filesystem::copy_options::overwrite_existing);
  }

  void fail(RunEnd end) {
    if (flags_.shrink) end = shrink(std::move(end));
    print_story();
    keep_story();
    fmt::print("found: {}\nreplay: scripts/simulate {}\n", end.finding, replay_words());
    std::fflush(stdout);
  }

  // The fewest of its faults with which something is found still: one alone, then two, and so on.
  // The story is then that of these.
  RunEnd shrink(RunEnd found) {
    const std::vector<Fault> all = options_.faults;
    if (all.size() > kMostToShrink) return found;
    for (std::size_t count = 0; count < all.size(); ++count) {
      for (std::uint64_t chosen = 0; chosen < (std::uint64_t{1} << all.size()); ++chosen) {
        if (static_cast<std::size_t>(std::popcount(chosen)) != count) continue;
        options_.faults = chosen_of(all, chosen);
        RunEnd end = run_once(folder_ / "shrunk");
        if (end.finding.empty()) continue;
        std::filesystem::rename(folder_ / "shrunk", folder_ / "story");
        return end;
      }
    }
    options_.faults = all;
    return found;
  }

  static std::vector<Fault> chosen_of(const std::vector<Fault>& all, std::uint64_t chosen) {
    std::vector<Fault> faults;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1U) != 0) faults.push_back(all[i]);
    }
    return faults;
  }

  const Flags flags_;
  const Path folder_;
  RunOptions options_;
  std::string hash_;
  std::int64_t starts_ = 0;
  Time simulated_ = 0;
};

// Every simulation must find the same addresses and threads: those of libraries are chosen when
// they are loaded.
void begin_anew_without_chance(char** argv) {
  const int persona = ::personality(0xffffffff);
  if ((persona & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE) < 0) return;
  for (const char* variable : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    ::setenv(variable, "1", 1);
  }
  // Exactly one thread runs at a time: on one processor the next one has the baton at once.
  cpu_set_t processor;
  CPU_ZERO(&processor);
  CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &processor);
  ::sched_setaffinity(0, sizeof(processor), &processor);
  ::setenv("TZ", "UTC0", 1);
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  // Samples of this machine follow from no seed.
  ::setenv("MUSTER_MACHINE_SECONDS", "0", 1);
  for (const char* variable : {"TF_CONFIG", "MUSTER_LOG_LEVEL", "MUSTER_SECRET"})
    ::unsetenv(variable);
  ::execv("/proc/self/exe", argv);
}

int run(int argc, char** argv) {
  Flags flags;
  FlagSet set("Runs small trainings as simulated clusters, with faults, and judges their ends.");
  set.add("--seed", &flags.seed, "The first seed, from which all else follows");
  set.add("--seeds", &flags.seeds, "So many seeds, one after the other").positive();
  set.add("--seconds", &flags.seconds, "As many seeds as fit, instead");
  set.add("--layout", &flags.layout, "Empty: drawn by the seed");
  set.add("--faults", &flags.faults,
          "As a replay line has them, instead of those that the seed draws");
  set.add("--fault-count", &flags.count, "Faults to draw; -1: the seed says");
  set.add("--steps", &flags.steps, "Steps of the training").positive();
  set.add("--story", &flags.story, "File for the last run's story");
  set.add("--patience", &flags.patience,
          "A run ends within so many simulated seconds after its last fault")
      .positive();
  set.add("--go-on", &flags.goes_on, "Look at all seeds, also after a finding");
  set.add("--twice", &flags.twice, "Run every seed twice, and compare the stories");
  set.add("--list", &flags.list, "Instead of seeds: a file with lines SEED LAYOUT FAULTS");
  set.add("--shrink", &flags.shrink, "Leave out the faults that a finding does not take");
  if (!set.parse(argc, argv)) return 0;
  warm_up();
  reserve_world();
  return Simulator(flags).run();
}

}  // namespace
}  // namespace muster::simulation

int main(int argc, char** argv) {
  muster::simulation::begin_anew_without_chance(argv);
  return muster::run_main([&] { return muster::simulation::run(argc, argv); });
}
