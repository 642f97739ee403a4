// The lines of a job's pods, as far as they are kept.
#include "muster/orchestration/jobs/kubernetes_logs_internal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/lines.h"
#include "muster/base/local_time.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/base/printable.h"
#include "muster/base/wait.h"
#include "muster/orchestration/jobs/job_log.h"
#include "muster/orchestration/jobs/kubectl_internal.h"
#include "muster/orchestration/jobs/supervisor.h"

namespace muster::jobs {
namespace {

constexpr std::uint64_t kMostLogFetchBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kFirstTailBytes = std::uint64_t{1} << 16;
constexpr std::chrono::seconds kLogLockPatience{60};

void append_to(const Path& path, std::string_view text) {
  OpenFile(path, O_WRONLY | O_CREAT | O_APPEND, 0600).write(text);
}

// Up to where a log is kept: the time of its last line, and how many lines have it.
struct LogPosition {
  std::chrono::nanoseconds time{};
  std::int64_t lines = 0;
};

std::string tail_of(const Path& path, std::uint64_t bytes, std::uint64_t size) {
  const auto file = file_system_for(path).open(path);
  file->seek(size > bytes ? size - bytes : 0);
  std::string tail(std::min(bytes, size), '\0');
  tail.resize(file->read(tail));
  return tail;
}

std::optional<LogPosition> log_position(const Path& path) {
  const auto status = file_system_for(path).status(path);
  if (!status || status->size_bytes == 0) return std::nullopt;
  for (std::uint64_t bytes = kFirstTailBytes;; bytes *= 2) {
    const std::string tail = tail_of(path, bytes, status->size_bytes);
    std::optional<LogPosition> last;
    for (const std::string_view line : lines_of(tail)) {
      const auto stamp = kubectl_stamp(line);
      if (!stamp) continue;
      if (!last || last->time != stamp->since_epoch) last = LogPosition{stamp->since_epoch, 0};
      ++last->lines;
    }
    if (last || bytes >= status->size_bytes) return last;
  }
}

// Seconds are what the API takes; they are cut off, never rounded up.
std::string since_time(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  std::string text = to_text(Time(std::chrono::duration_cast<Time::duration>(seconds)));
  return text.substr(0, text.find('.')) + "Z";
}

// The lines after `position`, each whole.
std::string new_lines(const std::string& text, std::optional<LogPosition> position, bool is_over) {
  std::string lines;
  std::int64_t to_skip = position ? position->lines : 0;
  bool is_new = !position;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto found = text.find('\n', begin);
    // One that is still being written is read by the next look.
    if (found == std::string::npos && !is_over) break;
    const auto end = std::min(found, text.size());
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    if (const auto stamp = kubectl_stamp(line); stamp && position) {
      is_new = stamp->since_epoch > position->time ||
               (stamp->since_epoch == position->time && --to_skip < 0);
    }
    if (is_new) lines.append(line).push_back('\n');
  }
  return lines;
}

Path pod_log(const JobStore& store, const Job& job, const KubernetesTaskPod& pod) {
  return store.folder_of(job.job_id) / "attempts" / pod.name /
         fmt::format("{}{}.log", pod.type, pod.index);
}

// Names of folders come from the cluster.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

// Once all of a pod that is over is kept.
Path whole_mark(const Path& log) { return log.parent_path() / "whole"; }

void fetch_log(const JobStore& store, const Job& job, const KubernetesTaskPod& pod) {
  const Path path = pod_log(store, job, pod);
  if (file_exists(whole_mark(path))) return;
  const KubernetesRun run = kubernetes_run(job);
  const auto position = log_position(path);
  Words words{"logs", pod.name,
              run.kind == "tfjob" ? "--container=tensorflow" : "--container=program",
              "--timestamps", fmt::format("--limit-bytes={}", kMostLogFetchBytes)};
  if (position) words.push_back("--since-time=" + since_time(position->time));
  const process::CapturedOutput output = call_kubectl(run, words);
  if (output.status != 0) {
    // Not started yet, or gone with its node: what is kept of it is all there is.
    if (has_no_log(output)) return;
    throw_kubectl(output, fmt::format("reading the log of {}", pod.name));
  }
  const bool is_cut = output.out.size() >= kMostLogFetchBytes;
  file_system_for(path).create_directories(path.parent_path());
  append_to(path, new_lines(output.out, position, pod.is_over && !is_cut));
  trim_file(path, job.local.log_bytes);
  if (pod.is_over && !is_cut) append_to(whole_mark(path), "");
}

// Whether all was read.
bool fetch_logs_alone(const JobStore& store, const Job& job, const KubernetesState& seen) {
  bool is_all = true;
  for (const KubernetesTaskPod& pod : seen.pods) {
    if (!pod.has_log || !is_file_name(pod.name) || !is_file_name(pod.type)) continue;
    try {
      fetch_log(store, job, pod);
    } catch (const Error& error) {
      is_all = false;
      log::warning("the log of {} could not be read: {}", pod.name, error.what());
    }
  }
  return is_all;
}

}  // namespace

void say(const JobStore& store, const std::string& name, char level, const std::string& text) {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::string line =
      fmt::format("{}.{:03} {} service {}\n", local_time(now), millis, level, printable(text));
  append_to(store.folder_of(name) / "service.log", line);
}

// Two that read at once would keep lines twice: one that need not read them all lets the other.
bool fetch_logs(const JobStore& store, const Job& job, const KubernetesState& seen, bool must_end) {
  const Deadline deadline = Deadline::after(must_end ? kLogLockPatience : std::chrono::seconds(0));
  do {
    const auto lock = HeldLock::take(store.folder_of(job.job_id) / "logs.lock");
    if (lock) return fetch_logs_alone(store, job, seen);
  } while (!deadline.expired());
  return false;
}

}  // namespace muster::jobs
