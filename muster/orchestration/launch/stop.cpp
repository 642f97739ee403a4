#include "muster/orchestration/launch/stop.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/process_identity.h"

namespace muster::launch {
namespace {

using process::PidFile;

constexpr std::chrono::milliseconds kStopNap{20};
constexpr std::string_view kLauncher = "launch";

bool is_launcher(const PidFile& found) { return found.name == kLauncher; }
bool is_ps(const PidFile& found) { return found.name.starts_with("ps"); }

// Those that still run, by name. Files of processes that are gone are removed.
std::vector<PidFile> find_all(const Path& folder) {
  FileSystem& files = file_system_for(folder);
  const auto status = files.status(folder);
  if (!status || !status->is_directory) {
    throw NotFound("no folder {}: give the --log-dir of the launch", folder.string());
  }
  std::vector<PidFile> all = process::read_pid_files(folder);
  std::erase_if(all, [&](const PidFile& found) {
    if (process::is_alive(found.identity)) return false;
    files.remove(found.path);
    return true;
  });
  return all;
}

bool wait_for_end(const process::ProcessIdentity& process, const Deadline& deadline) {
  while (process::is_alive(process)) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(kStopNap);
  }
  return true;
}

// Tasks lead process groups; the launcher is a member of that of the process that started it.
void send(const PidFile& found, int signal) {
  ::kill(is_launcher(found) ? found.identity.pid : -found.identity.pid, signal);
}

// Asked together, then awaited together.
void end_together(const std::vector<PidFile>& all, std::chrono::milliseconds grace,
                  std::vector<std::string>& lines) {
  for (const PidFile& found : all) send(found, SIGTERM);
  const Deadline deadline = Deadline::after(grace);
  for (const PidFile& found : all) {
    const bool ended = wait_for_end(found.identity, deadline);
    if (!ended) send(found, SIGKILL);
    lines.push_back(fmt::format("{} {} (process {})", ended ? "stopped" : "killed", found.name,
                                found.identity.pid));
    file_system_for(found.path).remove(found.path);
  }
}

template <typename Keep>
std::vector<PidFile> those(const std::vector<PidFile>& all, Keep keep) {
  std::vector<PidFile> kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept), keep);
  return kept;
}

}  // namespace

std::vector<std::string> stop(const StopOptions& options) {
  std::vector<std::string> lines;
  // The launcher ends its tasks itself, in order.
  end_together(those(find_all(options.log_dir), is_launcher), options.grace, lines);
  const auto left = find_all(options.log_dir);
  end_together(those(left, [](const PidFile& f) { return !is_ps(f); }), options.grace, lines);
  end_together(those(left, is_ps), options.grace, lines);
  return lines;
}

}  // namespace muster::launch
