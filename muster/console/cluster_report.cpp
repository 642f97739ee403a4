#include "muster/console/cluster_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/orchestration/jobs/job_log.h"

namespace muster::console {
namespace {

constexpr std::size_t kMostReportTasks = 1000;
constexpr std::size_t kMostReportEntries = 500;
constexpr std::size_t kMostReportBytes = 500;
constexpr std::string_view kServiceTask = "service";

// Words behind the name of a task that the others wait for.
constexpr std::array<std::string_view, 7> kStallWords{
    " is gone: ",           " has not been heard of for ", " is lost and waited for: ",
    " has not pushed for ", " cannot be reached: ",        " cannot take part: ",
    " has not sent "};

std::string bounded(std::string_view text) { return std::string(text.substr(0, kMostReportBytes)); }

template <typename Entry>
void push_bounded(std::vector<Entry>& entries, Entry entry) {
  if (entries.size() >= kMostReportEntries) entries.erase(entries.begin());
  entries.push_back(std::move(entry));
}

// The number after some words; nothing where it does not stand there.
template <typename Number>
std::optional<Number> number_behind(std::string_view text, std::string_view words) {
  const auto at = text.find(words);
  if (at == text.npos) return std::nullopt;
  const char* const begin = text.data() + at + words.size();
  Number value{};
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end == begin) return std::nullopt;
  return value;
}

// "worker:1" as files name it; nothing for what is no task.
std::optional<std::string> replica_name(std::string_view word) {
  try {
    return jobs::task_name(word);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

// Whether "master:0 [0, 1), worker:0 [1, 2), ps:0" has the task of that name.
bool has_member(std::string_view members, std::string_view replica) {
  constexpr std::string_view kReplica = "-replica-";
  const auto at = replica.find(kReplica);
  if (at == replica.npos) return false;
  const std::string name =
      std::string(replica.substr(0, at)) + ':' + std::string(replica.substr(at + kReplica.size()));
  for (auto found = members.find(name); found != members.npos;
       found = members.find(name, found + 1)) {
    const char behind = found + name.size() < members.size() ? members[found + name.size()] : ',';
    if (behind == ' ' || behind == ',') return true;
  }
  return false;
}

}  // namespace

// Null where there are too many.
ClusterReport::Task* ClusterReport::task_of(std::string_view name) {
  const auto found = tasks_.find(std::string(name));
  if (found != tasks_.end()) return &found->second;
  if (tasks_.size() >= kMostReportTasks) return nullptr;
  return &tasks_[std::string(name)];
}

void ClusterReport::end_stalls(ReportTime time) {
  for (Stall& stall : stalls_) {
    if (!stall.ended) stall.ended = time;
  }
}

// "generation 3: replicas of ..." and "generation 3: 4 tasks are ready seconds=0.1".
bool ClusterReport::take_generation(ReportTime time, std::string_view message) {
  constexpr std::string_view kMembers = ": replicas of ";
  if (!message.starts_with("generation ")) return false;
  const auto number = number_behind<std::int64_t>(message, "generation ");
  const auto at = message.find(kMembers);
  if (number && at != message.npos) {
    const std::string_view members = message.substr(at + kMembers.size());
    push_bounded(generations_, {.number = *number, .began = time, .members = bounded(members)});
    for (auto& [name, task] : tasks_) {
      if (has_member(members, name)) task.gone.clear();
    }
    return true;
  }
  const auto seconds = number_behind<double>(message, "seconds=");
  if (!number || !seconds || generations_.empty() || generations_.back().number != *number) {
    return false;
  }
  generations_.back().seconds = seconds;
  end_stalls(time);
  return true;
}

bool ClusterReport::take_stall(ReportTime time, std::string_view message) {
  constexpr std::string_view kWaits = "the run waits for ";
  if (message.starts_with(kWaits)) {
    push_bounded(
        stalls_,
        {.began = time,
         .task = bounded(message.substr(kWaits.size(), message.find(", which") - kWaits.size())),
         .reason = bounded(message)});
    return true;
  }
  for (const std::string_view words : kStallWords) {
    const auto at = message.find(words);
    if (at == message.npos) continue;
    const auto name = replica_name(message.substr(0, at));
    if (!name) continue;
    const std::string reason = bounded(message.substr(at + 1));
    push_bounded(stalls_, {.began = time, .task = *name, .reason = reason});
    Task* const task = task_of(*name);
    if (task != nullptr && words == " is gone: ") task->gone = reason;
    return true;
  }
  return false;
}

bool ClusterReport::take_staleness(ReportTime time, std::string_view message) {
  if (!message.starts_with("staleness: mean=")) return false;
  const auto mean = number_behind<double>(message, "mean=");
  const auto max = number_behind<std::int64_t>(message, "max=");
  const auto step = number_behind<std::int64_t>(message, "step = ");
  if (!mean || !max || !step) return false;
  push_bounded(staleness_, {.step = *step, .time = time, .mean = *mean, .max = *max});
  return true;
}

// Takes a line of the launcher: "worker:1 failed ...: restart 1 of 3 in 500 ms".
void ClusterReport::take_service(std::string_view message) {
  const auto name = replica_name(message.substr(0, message.find(' ')));
  const auto restart = number_behind<std::int64_t>(message, ": restart ");
  if (!name || !restart) return;
  if (Task* const task = task_of(*name)) task->restarts = *restart;
}

void ClusterReport::take(std::string_view name, ReportTime time, std::string_view message) {
  if (name == kServiceTask) return take_service(message);
  Task* const task = task_of(name);
  if (task == nullptr) return;
  task->last_time = time;
  task->last_line = bounded(message);
  if (const auto step = number_behind<std::int64_t>(message, "step = ")) task->step = step;
  take_generation(time, message) || take_staleness(time, message) || take_stall(time, message);
}

}  // namespace muster::console
