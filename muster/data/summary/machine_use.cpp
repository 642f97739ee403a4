#include "muster/data/summary/machine_use.h"

#include <fmt/core.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <tuple>

namespace muster {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The numbers behind names such as "read_bytes:", in the order of the names; -1 where there is
// none.
template <std::size_t kCount>
std::array<double, kCount> fields_of(const char* path,
                                     const std::array<std::string_view, kCount>& names) {
  std::array<double, kCount> values;
  values.fill(-1);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!line.starts_with(names[i])) continue;
      unsigned long long value = 0;
      if (std::sscanf(line.c_str() + names[i].size(), " %llu", &value) == 1) {
        values[i] = static_cast<double>(value);
      }
    }
  }
  return values;
}

// Bytes received and sent by the host's interfaces, all but the one that leads to itself.
std::pair<double, double> network_bytes() {
  std::ifstream file("/proc/self/net/dev");
  if (!file) return {-1, -1};
  double received = 0;
  double sent = 0;
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == line.npos) continue;
    const auto name_at = line.find_first_not_of(' ');
    if (std::string_view(line).substr(name_at, colon - name_at) == "lo") continue;
    unsigned long long in = 0;
    unsigned long long out = 0;
    if (std::sscanf(line.c_str() + colon + 1, " %llu %*u %*u %*u %*u %*u %*u %*u %llu", &in,
                    &out) != 2) {
      continue;
    }
    received += static_cast<double>(in);
    sent += static_cast<double>(out);
  }
  return {received, sent};
}

double processor_seconds_of_process() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<double> resident_mib() {
  unsigned long long pages = 0;
  if (std::sscanf(first_line("/proc/self/statm").c_str(), "%*u %llu", &pages) != 1) {
    return std::nullopt;
  }
  return static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / kMebibyte;
}

std::optional<double> host_memory_percent() {
  const auto [total, available] = fields_of<2>("/proc/meminfo", {"MemTotal:", "MemAvailable:"});
  if (total <= 0 || available < 0) return std::nullopt;
  return 100.0 * (total - available) / total;
}

}  // namespace

MachineUse::MachineUse() = default;

MachineUse::Counters MachineUse::count() {
  Counters now{.at = std::chrono::steady_clock::now(),
               .processor_seconds = processor_seconds_of_process()};
  std::istringstream ticks(first_line("/proc/stat"));
  std::string word;
  ticks >> word;
  // user, nice, system, idle, iowait, irq, softirq, steal; what guests take is in user already.
  std::uint64_t value = 0;
  for (int i = 0; i < 8 && ticks >> value; ++i) {
    now.host_ticks += value;
    if (i == 3 || i == 4) now.host_idle_ticks += value;
  }
  const auto [read, written] = fields_of<2>("/proc/self/io", {"read_bytes:", "write_bytes:"});
  now.disk_read_bytes = read;
  now.disk_written_bytes = written;
  std::tie(now.network_received_bytes, now.network_sent_bytes) = network_bytes();
  return now;
}

NamedValues MachineUse::read() {
  const Counters now = count();
  const double seconds = std::chrono::duration<double>(now.at - last_.at).count();
  NamedValues values;
  const auto add_rate = [&](const char* name, double before, double after, double unit) {
    if (before < 0 || after < before || seconds <= 0) return;
    values.emplace_back(name, (after - before) / seconds / unit);
  };
  add_rate("machine/processors", last_.processor_seconds, now.processor_seconds, 1);
  if (now.host_ticks > last_.host_ticks) {
    const auto all = static_cast<double>(now.host_ticks - last_.host_ticks);
    const auto idle = static_cast<double>(now.host_idle_ticks - last_.host_idle_ticks);
    values.emplace_back("machine/host_processor_percent", 100.0 * (all - idle) / all);
  }
  if (const auto mib = resident_mib()) values.emplace_back("machine/memory_mib", *mib);
  if (const auto percent = host_memory_percent()) {
    values.emplace_back("machine/host_memory_percent", *percent);
  }
  add_rate("machine/disk_read_mib_per_second", last_.disk_read_bytes, now.disk_read_bytes,
           kMebibyte);
  add_rate("machine/disk_written_mib_per_second", last_.disk_written_bytes, now.disk_written_bytes,
           kMebibyte);
  add_rate("machine/network_received_mib_per_second", last_.network_received_bytes,
           now.network_received_bytes, kMebibyte);
  add_rate("machine/network_sent_mib_per_second", last_.network_sent_bytes, now.network_sent_bytes,
           kMebibyte);
  for (const GpuLoad& gpu : gpus_.read()) {
    values.emplace_back(fmt::format("machine/gpu_{}_percent", gpu.index), gpu.busy_percent);
    values.emplace_back(fmt::format("machine/gpu_{}_memory_mib", gpu.index),
                        gpu.memory_bytes / kMebibyte);
    values.emplace_back(fmt::format("machine/gpu_{}_watts", gpu.index), gpu.watts);
  }
  last_ = now;
  return values;
}

}  // namespace muster
