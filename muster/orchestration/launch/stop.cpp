#include "muster/orchestration/launch/stop.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/orchestration/launch/process_identity.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kStopNap{20};
constexpr std::string_view kEnding = ".pid";
constexpr std::string_view kLauncher = "launch";

struct Found {
  std::string name;
  Path file;
  ProcessIdentity process;
};

bool is_launcher(const Found& found) { return found.name == kLauncher; }
bool is_ps(const Found& found) { return found.name.starts_with("ps"); }

// Those that still run, by name. Files of processes that are gone are removed.
std::vector<Found> find_all(const Path& folder) {
  FileSystem& files = file_system_for(folder);
  const auto status = files.status(folder);
  if (!status || !status->is_directory) {
    throw NotFound("no folder {}: give the --log-dir of the launch", folder.string());
  }
  std::vector<Found> all;
  for (const std::string& name : files.list(folder)) {
    if (!name.ends_with(kEnding)) continue;
    const Path file = folder / name;
    const auto process = read_pid_file(file);
    if (!process) continue;
    if (is_alive(*process)) {
      all.push_back({name.substr(0, name.size() - kEnding.size()), file, *process});
    } else {
      files.remove(file);
    }
  }
  return all;
}

bool wait_for_end(const ProcessIdentity& process, const Deadline& deadline) {
  while (is_alive(process)) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(kStopNap);
  }
  return true;
}

// Tasks lead process groups; the launcher is a member of whoever started it.
void send(const Found& found, int signal) {
  ::kill(is_launcher(found) ? found.process.pid : -found.process.pid, signal);
}

// Asked together, then awaited together.
void end_together(const std::vector<Found>& all, std::chrono::milliseconds grace,
                  std::vector<std::string>& lines) {
  for (const Found& found : all) send(found, SIGTERM);
  const Deadline deadline = Deadline::after(grace);
  for (const Found& found : all) {
    const bool ended = wait_for_end(found.process, deadline);
    if (!ended) send(found, SIGKILL);
    lines.push_back(fmt::format("{} {} (process {})", ended ? "stopped" : "killed", found.name,
                                found.process.pid));
    file_system_for(found.file).remove(found.file);
  }
}

template <typename Keep>
std::vector<Found> those(const std::vector<Found>& all, Keep keep) {
  std::vector<Found> kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept), keep);
  return kept;
}

}  // namespace

std::vector<std::string> stop(const StopOptions& options) {
  std::vector<std::string> lines;
  // The launcher ends its tasks itself, in order.
  end_together(those(find_all(options.log_dir), is_launcher), options.grace, lines);
  const auto left = find_all(options.log_dir);
  end_together(those(left, [](const Found& f) { return !is_ps(f); }), options.grace, lines);
  end_together(those(left, is_ps), options.grace, lines);
  return lines;
}

}  // namespace muster::launch
