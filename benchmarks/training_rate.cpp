#include "benchmarks/training_rate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/report.h"
#include "muster/base/thread_pool.h"

namespace muster::bench {

RunConfig silent_config(int threads) {
  static int folders = 0;
  RunConfig config;
  config.model_dir = std::filesystem::temp_directory_path() /
                     fmt::format("muster-bench-{}-{}", ::getpid(), folders++);
  config.log_step_count_steps = 0;
  config.save_summary_steps = 0;
  config.checkpoints.save_checkpoints = false;
  config.reproducibility.threads_per_replica = threads;
  return config;
}

double steps_per_second_of_run(const MakeEstimator& make, const InputFn& input, int threads,
                               std::int64_t all_steps) {
  using Clock = std::chrono::steady_clock;
  const std::int64_t steps = sized<std::int64_t>(all_steps, 2);
  const RunConfig config = silent_config(threads);
  Estimator estimator = make(config);
  const auto start = Clock::now();
  estimator.train(input, {.steps = steps, .handle_signals = false});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::filesystem::remove_all(config.model_dir);
  return static_cast<double>(steps) / seconds;
}

double steps_per_second(const MakeEstimator& make, const InputFn& input, int threads,
                        std::int64_t steps) {
  std::vector<double> rates;
  for (int i = 0; i < sized(3, 1); ++i)
    rates.push_back(steps_per_second_of_run(make, input, threads, steps));
  return median(std::move(rates));
}

double best_steps_per_second(const MakeEstimator& make, const InputFn& input, std::int64_t steps) {
  const auto processors = static_cast<int>(ThreadPool::available_processors());
  return std::max(steps_per_second(make, input, 1, steps),
                  steps_per_second(make, input, processors, steps));
}

std::optional<Anchor> run_anchor(const std::string& program) {
  if (is_quick()) return std::nullopt;
  const char* python = std::getenv("MUSTER_PYTHON");
  const std::string command =
      fmt::format("{} {}/benchmarks/anchors/{} 2>/dev/null",
                  python == nullptr ? "/usr/bin/python3" : python, MUSTER_SOURCE_DIR, program);
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  char buffer[4096];
  while (pipe != nullptr && std::fgets(buffer, sizeof(buffer), pipe.get()) != nullptr) {
    text += buffer;
  }
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    fmt::print(stderr, "no anchor {}: python3-torch is not installed\n", program);
    return std::nullopt;
  }
  fmt::print(stderr, "anchor {}: {}\n", program, json.dump());
  return Anchor{.examples_per_second = json.at("examples_per_second").get<double>(),
                .setting = json.value("setting", "")};
}

std::optional<double> anchor_examples_per_second(const std::string& program) {
  const auto anchor = run_anchor(program);
  if (!anchor) return std::nullopt;
  return anchor->examples_per_second;
}

}  // namespace muster::bench
