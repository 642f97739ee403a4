// With R replicas the weights are the same wherever they run: one process, towers, workers that
// exchange gradients, parameter servers, and any of these killed and resumed as another.
//
// By default a seeded choice of layouts is trained for 20 steps, and one of MNIST for 6:
// MUSTER_LAYOUT_SEED draws another one. MUSTER_LONG_TESTS=1 trains every layout for 200.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/checkpoint/checkpoint.h"
#include "muster/testing/long_tests.h"
#include "muster/testing/process.h"
#include "muster/testing/words.h"
#include "tests/example_job.h"
#include "tests/latest_hash.h"

namespace muster {
namespace {

using testing::are_tests_long;
using testing::RunningProgram;
using testing::Words;

std::uint64_t choice_seed() {
  const char* text = std::getenv("MUSTER_LAYOUT_SEED");
  return text == nullptr ? 1 : std::stoull(text);
}

// MNIST takes three times as long as census over the same code.
template <typename Job>
constexpr bool kIsSlow = std::is_same_v<Job, MnistJob>;

template <typename Job>
std::int64_t last_step() {
  return are_tests_long() ? 200 : kIsSlow<Job> ? 6 : 20;
}
std::int64_t save_every() { return are_tests_long() ? 10 : 2; }

/// Where the replicas of a run are.
struct Layout {
  std::string name;
  /// For `muster launch`; empty: one process.
  Words cluster;
  Words flags;
};

Words cluster_of(int tasks, int servers) {
  return {"--chief", "--workers", std::to_string(tasks - 1), "--ps", std::to_string(servers)};
}

Layout one_process() { return {"one process", {}, {"--concurrent-replicas", "1"}}; }

Layout collective(int tasks, int towers) {
  return {fmt::format("{} workers with {} towers", tasks, towers),
          cluster_of(tasks, 0),
          {"--strategy=collective", "--concurrent-replicas", std::to_string(towers)}};
}

Layout servers(int tasks, int count) {
  return {fmt::format("{} ps, {} workers", count, tasks), cluster_of(tasks, count), {"--sync"}};
}

/// Those of four replicas but one process, which is what all are compared with.
std::vector<Layout> layouts_of_four() {
  std::vector<Layout> layouts{
      {"4 towers", {}, {"--concurrent-replicas", "4"}}, collective(4, 1), collective(2, 2)};
  for (const int count : {1, 2, 3}) {
    for (const int tasks : {1, 2, 4}) layouts.push_back(servers(tasks, count));
  }
  return layouts;
}

std::vector<Layout> layouts_of_others() { return {collective(3, 1), servers(2, 2)}; }

Words more_flags(const CensusJob&) { return {"--clip-global-norm", "0.5"}; }
Words more_flags(const MnistJob&) { return {}; }

/// An example that is trained in one layout after another.
template <typename Job>
class Table {
 public:
  explicit Table(std::int64_t replicas) : job_(replicas), replicas_(replicas) {
    run("whole", one_process());
    expected_ = hash_of(job_.job_dir("whole"));
    fmt::print("R={} steps={} one process: {}\n", replicas_, last_step<Job>(), expected_);
  }

  void expect_same(const Layout& layout) {
    const std::string name = next_name();
    run(name, layout);
    compare(name, layout.name);
  }
  // Killed once this step is saved, all of it at once, and resumed.
  void expect_same_killed(const Layout& first, std::int64_t step, const Layout& then) {
    const std::string name = next_name();
    const std::int64_t killed_at = kill_at(name, first, step);
    run(name, then);
    compare(name, fmt::format("{}, killed with step {} saved, then {}", first.name, killed_at,
                              then.name));
  }

 private:
  std::string next_name() { return fmt::format("job-{}", ++jobs_); }

  Words flags_of(const Layout& layout) const {
    return more_flags(job_) + Words{"--save-checkpoints-steps", std::to_string(save_every())} +
           layout.flags;
  }
  void run(const std::string& name, const Layout& layout) const {
    if (layout.cluster.empty()) {
      job_.run_alone(name, flags_of(layout), last_step<Job>());
    } else {
      job_.launch(name, layout.cluster, flags_of(layout), last_step<Job>());
    }
  }
  std::int64_t saved_step(const std::string& name) const {
    const auto latest = latest_checkpoint(job_.job_dir(name));
    return latest ? checkpoint_step(*latest).value_or(-1) : -1;
  }
  std::int64_t kill_at(const std::string& name, const Layout& layout, std::int64_t step) const {
    const bool alone = layout.cluster.empty();
    // Processes that a launcher started end with it.
    RunningProgram running(alone ? job_.program() : MUSTER_PROGRAM,
                           alone ? job_.words(name, flags_of(layout), last_step<Job>())
                                 : job_.launch_words_of(job_.program(), name, layout.cluster,
                                                        flags_of(layout), last_step<Job>()));
    while (!running.ended() && saved_step(name) < step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    running.send(SIGKILL);
    running.wait();
    return saved_step(name);
  }
  void compare(const std::string& name, const std::string& what) const {
    const std::string hash = hash_of(job_.job_dir(name));
    EXPECT_EQ(saved_step(name), last_step<Job>()) << what;
    EXPECT_EQ(hash, expected_) << "R=" << replicas_ << ", " << what;
    fmt::print("R={} {}: {}\n", replicas_, what, hash == expected_ ? "same" : hash);
    std::fflush(stdout);
  }

  const Job job_;
  const std::int64_t replicas_;
  std::string expected_;
  int jobs_ = 0;
};

/// Which layouts a short test takes.
class Choice {
 public:
  Choice() { fmt::print("MUSTER_LAYOUT_SEED={}\n", choice_seed()); }

  std::size_t below(std::size_t end) {
    return static_cast<std::size_t>(random_.uniform(0, static_cast<double>(end)));
  }
  // All of them in a long test.
  std::vector<std::size_t> some_numbers(std::size_t end, std::size_t count) {
    std::vector<std::size_t> numbers(end);
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    if (are_tests_long()) return numbers;
    for (std::size_t i = 0; i < count; ++i) std::swap(numbers[i], numbers[i + below(end - i)]);
    numbers.resize(count);
    return numbers;
  }
  std::vector<Layout> some(const std::vector<Layout>& layouts, std::size_t count) {
    std::vector<Layout> chosen;
    for (const std::size_t number : some_numbers(layouts.size(), count)) {
      chosen.push_back(layouts[number]);
    }
    return chosen;
  }

 private:
  Random random_{choice_seed(), 0, 0};
};

template <typename T>
class Layouts : public ::testing::Test {};
using Jobs = ::testing::Types<CensusJob, MnistJob>;
TYPED_TEST_SUITE(Layouts, Jobs);

TYPED_TEST(Layouts, OfFourReplicasGiveTheWeightsOfOneProcess) {
  Choice choice;
  Table<TypeParam> table(4);
  const std::size_t count = kIsSlow<TypeParam> ? 1 : 2;
  for (const Layout& layout : choice.some(layouts_of_four(), count)) table.expect_same(layout);
}

TYPED_TEST(Layouts, KilledAndResumedAsAnotherChangeNothing) {
  if (kIsSlow<TypeParam> && !are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 runs it";
  Choice choice;
  Table<TypeParam> table(4);
  std::vector<Layout> all = layouts_of_four();
  all.insert(all.begin(), one_process());
  const auto chosen = choice.some_numbers(all.size(), 2);
  for (const std::size_t first : chosen) {
    const std::size_t then = (first + 1 + choice.below(all.size() - 1)) % all.size();
    const auto half = static_cast<std::size_t>(last_step<TypeParam>() / 2);
    const auto step = static_cast<std::int64_t>(choice.below(half)) + 1;
    table.expect_same_killed(all[first], step, all[then]);
  }
}

TYPED_TEST(Layouts, OfThreeAndSixReplicasGiveTheWeightsOfOneProcess) {
  if (kIsSlow<TypeParam> && !are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 runs it";
  Choice choice;
  for (const std::int64_t replicas : {3, 6}) {
    Table<TypeParam> table(replicas);
    for (const Layout& layout : choice.some(layouts_of_others(), 1)) table.expect_same(layout);
  }
}

// The terms of the promise are what the weights depend on: else the tests above would compare runs
// that forget to train.
TYPED_TEST(Layouts, OfAnotherNumberOfReplicasDiffer) {
  if (kIsSlow<TypeParam> && !are_tests_long()) GTEST_SKIP() << "MUSTER_LONG_TESTS=1 runs it";
  const TypeParam four(4), three(3);
  const Words flags = more_flags(four);
  four.run_alone("job", flags, 2);
  three.run_alone("job", flags, 2);
  EXPECT_NE(hash_of(four.job_dir("job")), hash_of(three.job_dir("job")));
}

TEST(CensusLayouts, ClippingByGlobalNormTakesPart) {
  const CensusJob job;
  job.run_alone("clipped", {"--clip-global-norm", "0.5"}, 2);
  job.run_alone("free", {}, 2);
  EXPECT_NE(hash_of(job.job_dir("clipped")), hash_of(job.job_dir("free")));
}

}  // namespace
}  // namespace muster
