#include "muster/base/process_stat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster {
namespace {

// Empty where it cannot be read: processes go at any time.
std::string stat_text(pid_t process) {
  try {
    return read_file(fmt::format("/proc/{}/stat", process));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::optional<ProcessStat> process_stat(pid_t process) {
  const std::string text = stat_text(process);
  // The name, in parentheses, may have any character.
  const auto name_end = text.rfind(')');
  if (name_end == text.npos) return std::nullopt;
  ProcessStat stat;
  unsigned long long user = 0;
  unsigned long long system = 0;
  unsigned long long start = 0;
  const int count = std::sscanf(text.c_str() + name_end + 1,
                                " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
                                "%*d %*d %*d %llu",
                                &stat.state, &stat.parent, &user, &system, &start);
  if (count != 5) return std::nullopt;
  const auto ticks_per_second = static_cast<unsigned long long>(::sysconf(_SC_CLK_TCK));
  stat.processor_time = std::chrono::milliseconds((user + system) * 1000 / ticks_per_second);
  stat.start_ticks = start;
  return stat;
}

}  // namespace muster
