#include "muster/cli/limit_flags.h"

#include <string>

namespace muster::cli {
namespace {

void add_limit(CLI::App& group, const std::string& name, std::int64_t& limit,
               const std::string& text) {
  group.add_option(name, limit, text)->check(CLI::NonNegativeNumber)->capture_default_str();
}

}  // namespace

void add_limit_flags(CLI::App& command, executor::RunLimits& limits) {
  auto* const group =
      command.add_option_group("limits", "Limits for loading the model, and for each request");
  add_limit(*group, "--max-live-bytes,--max_live_bytes", limits.live_bytes,
            "Bytes of values at one time, without variables and inputs");
  add_limit(*group, "--max-total-bytes,--max_total_bytes", limits.total_bytes,
            "Bytes of all values that are computed");
  add_limit(*group, "--max-operations,--max_operations", limits.operations,
            "Operations that are run");
  add_limit(*group, "--max-calls,--max_calls", limits.calls,
            "Calls of functions, and steps of loops (two calls each)");
  group
      ->add_option_function<std::int64_t>(
          "--max-seconds,--max_seconds",
          [&limits](const std::int64_t& seconds) { limits.time = std::chrono::seconds(seconds); },
          "Time, checked between operations and within long ones (600)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

}  // namespace muster::cli
