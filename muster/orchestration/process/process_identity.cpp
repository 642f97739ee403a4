#include "muster/orchestration/process/process_identity.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/process_stat.h"
#include "muster/base/system_identity.h"

namespace muster::process {
namespace {

constexpr std::uint64_t kMostPidFileBytes = 4096;
// Counted after the name in brackets, which may hold blanks and brackets of its own.

template <typename Number>
std::optional<Number> to_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto first = text.find_first_not_of(" \n");
    if (first == std::string_view::npos) return words;
    text.remove_prefix(first);
    words.push_back(text.substr(0, text.find_first_of(" \n")));
    text.remove_prefix(words.back().size());
  }
}

std::string known_boot_id() {
  const std::string id = boot_id();
  return id.empty() ? "unknown" : id;
}

}  // namespace

std::optional<ProcessIdentity> identify(pid_t pid) {
  const auto stat = process_stat(pid);
  if (!stat || stat->has_ended()) return std::nullopt;
  return ProcessIdentity{.pid = pid, .start_ticks = stat->start_ticks, .boot_id = known_boot_id()};
}

bool is_alive(const ProcessIdentity& process) { return identify(process.pid) == process; }

void write_pid_file(const Path& path, const ProcessIdentity& process) {
  write_file_atomically(
      path, fmt::format("{}\nstarted {} {}\n", process.pid, process.start_ticks, process.boot_id),
      /*durable=*/false);
}

std::optional<ProcessIdentity> read_pid_file(const Path& path) {
  if (!file_exists(path)) return std::nullopt;
  std::string text;
  try {
    text = read_file(path, kMostPidFileBytes);
  } catch (const Error&) {
    return std::nullopt;  // It went meanwhile, or is something else.
  }
  const auto words = words_of(text);
  if (words.size() != 4 || words[1] != "started") return std::nullopt;
  const auto pid = to_number<pid_t>(words[0]);
  const auto start = to_number<std::uint64_t>(words[2]);
  if (!pid || *pid <= 0 || !start) return std::nullopt;
  return ProcessIdentity{.pid = *pid, .start_ticks = *start, .boot_id = std::string(words[3])};
}

std::vector<PidFile> read_pid_files(const Path& folder) {
  constexpr std::string_view kEnding = ".pid";
  std::vector<PidFile> all;
  for (const std::string& name : file_system_for(folder).list(folder)) {
    if (!name.ends_with(kEnding)) continue;
    const Path path = folder / name;
    if (const auto identity = read_pid_file(path)) {
      all.push_back({name.substr(0, name.size() - kEnding.size()), path, *identity});
    }
  }
  return all;
}

}  // namespace muster::process
