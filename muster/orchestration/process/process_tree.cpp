#include "muster/orchestration/process/process_tree.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/process_stat.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/process_identity.h"

namespace muster::process {
namespace {

constexpr std::chrono::milliseconds kEndNap{20};
// A killed process is gone when the kernel has freed its memory.
constexpr std::chrono::seconds kKillPatience{10};

std::string proc_text(pid_t process, const char* file) {
  std::ifstream stream(fmt::format("/proc/{}/{}", process, file), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  std::error_code ignored;
  for (const auto& item : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = item.path().filename().string();
    pid_t process = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (error == std::errc() && end == name.data() + name.size()) all.push_back(process);
  }
  return all;
}

bool is_started_with(pid_t process, const std::string& entry) {
  return ('\0' + proc_text(process, "environ")).find('\0' + entry + '\0') != std::string::npos;
}

// 0 for one that is gone.
pid_t parent_of(pid_t process) {
  const auto stat = process_stat(process);
  return stat ? stat->parent : 0;
}

void add_children(pid_t of, const std::multimap<pid_t, pid_t>& children, std::set<pid_t>& found) {
  const auto [begin, end] = children.equal_range(of);
  for (auto child = begin; child != end; ++child) {
    if (found.contains(child->second) || is_started_with(child->second, kOutlivesEntry)) continue;
    found.insert(child->second);
    add_children(child->second, children, found);
  }
}

}  // namespace

void adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) throw_errno(errno, "adopting orphans");
}

void reap_orphans(const std::vector<pid_t>& tasks) {
  for (;;) {
    siginfo_t info{};
    // Only a look: a task's own end is for who waits for it.
    const int status = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    if (status != 0 || info.si_pid == 0) return;
    if (std::find(tasks.begin(), tasks.end(), info.si_pid) != tasks.end()) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t process : all_processes()) children.emplace(parent_of(process), process);
  std::set<pid_t> found;
  add_children(::getpid(), children, found);
  std::vector<pid_t> running(found.begin(), found.end());
  std::erase_if(running, [](pid_t process) { return !identify(process); });
  return running;
}

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found = all_processes();
  std::erase_if(found, [&](pid_t process) {
    return process == ::getpid() || !is_started_with(process, entry);
  });
  return found;
}

void end_processes(const std::function<std::vector<pid_t>()>& find, std::chrono::milliseconds grace,
                   const std::string& whose, const std::function<void(pid_t)>& on_ask) {
  const Deadline polite = Deadline::after(grace);
  const Deadline last = Deadline::after(grace + kKillPatience);
  std::set<pid_t> asked;
  for (;;) {
    const auto left = find();
    if (left.empty()) return;
    for (const pid_t process : left) {
      if (asked.insert(process).second) {
        on_ask(process);
        ::kill(process, SIGTERM);
      }
      if (polite.expired()) ::kill(process, SIGKILL);
    }
    if (last.expired()) {
      throw Unavailable("process {}, which {} started, does not end", left.front(), whose);
    }
    std::this_thread::sleep_for(kEndNap);
  }
}

void end_leftovers(const std::string& entry, std::chrono::milliseconds grace,
                   const std::string& whose, const std::function<void(pid_t)>& on_ask) {
  end_processes([&] { return processes_with(entry); }, grace, whose, on_ask);
}

}  // namespace muster::process
