#include "muster/data/checkpoint/step_log_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"

namespace muster {
namespace {

using Kind = StepLogRecord::Kind;

/// Data of a committed step that the logs of all tasks must agree on.
struct Committed {
  Path file;
  bool is_left_out = false;
  std::vector<StepLogRecord::Push> pushes;
  std::vector<double> squares;
};
/// By step and batches skipped before.
using Steps = std::map<std::pair<std::int64_t, std::int64_t>, Committed>;

void check_replicas(std::vector<StepLogRecord::Push> pushes, std::int64_t replicas) {
  std::ranges::sort(pushes, {}, &StepLogRecord::Push::first);
  std::int64_t next = 0;
  for (const auto& push : pushes) {
    if (push.first == push.last) continue;
    if (push.first < next) throw DataLoss("replica {} is in it twice", push.first);
    if (push.first > next || push.last < push.first) break;
    next = push.last;
  }
  if (next != replicas) throw DataLoss("replica {} of {} is not in it", next, replicas);
}

// To the bit: norms of a step that was skipped are no numbers.
bool same_bits(const std::vector<double>& left, const std::vector<double>& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(double)) == 0;
}

void compare(const StepLogRecord& record, std::vector<StepLogRecord::Push> pushes, const Path& file,
             Steps& steps) {
  auto [place, is_new] = steps.try_emplace({record.step, record.skipped_batches});
  Committed& known = place->second;
  if (is_new) {
    known = {file, record.is_left_out, std::move(pushes), record.squares};
    return;
  }
  if (known.is_left_out != record.is_left_out || known.pushes != pushes ||
      !same_bits(known.squares, record.squares)) {
    throw DataLoss("{} tells otherwise of it", known.file.string());
  }
}

StepLogSummary check_log(const Path& file, Steps& steps) {
  StepLogSummary summary{.file = file};
  StepLogReader reader(file);
  std::optional<std::vector<StepLogRecord::Push>> prepared;
  std::string_view body;
  for (auto record = reader.next(body); record; record = reader.next(body)) {
    switch (record->kind) {
      case Kind::kBase:
        summary.identity = record->identity;
        summary.first_step = summary.last_step = record->step;
        break;
      case Kind::kPrepared:
        summary.void_attempts += prepared ? 1 : 0;
        prepared = std::move(record->pushes);
        break;
      case Kind::kCommitted:
        try {
          check_replicas(*prepared, summary.identity.replicas);
          compare(*record, std::move(*prepared), file, steps);
        } catch (Error& error) {
          error.add_context(fmt::format("{}: step {}", file.string(), record->step + 1));
          throw;
        }
        prepared.reset();
        ++summary.committed;
        ++(record->is_left_out ? summary.skipped_batches : summary.last_step);
        break;
      case Kind::kEnded:
        summary.ended = true;
        break;
    }
  }
  summary.torn = reader.torn_at().has_value();
  if (summary.identity.task.empty()) throw DataLoss("{} has no base", file.string());
  return summary;
}

// The folders of single tasks.
void add_task_folders(const Path& folder, std::vector<Path>& found) {
  FileSystem& files = file_system_for(folder);
  const auto status = files.status(folder);
  if (!status || !status->is_directory) throw NotFound("there is no folder {}", folder.string());
  if (!list_step_logs(folder).empty()) {
    found.push_back(folder);
    return;
  }
  const Path inside = file_exists(folder / "ps_log") ? folder / "ps_log" : folder;
  const std::size_t before = found.size();
  for (const std::string& name : files.list(inside)) {
    const auto inner = files.status(inside / name);
    if (inner && inner->is_directory && !list_step_logs(inside / name).empty()) {
      found.push_back(inside / name);
    }
  }
  if (found.size() == before) {
    throw NotFound("{} holds no log of a ps task (MODEL_DIR/ps_log/ps-0/*.log)", folder.string());
  }
}

}  // namespace

std::vector<StepLogSummary> check_step_logs(std::span<const Path> folders) {
  std::vector<Path> tasks;
  for (const Path& folder : folders) add_task_folders(folder, tasks);
  Steps steps;
  std::vector<StepLogSummary> summaries;
  for (const Path& task : tasks) {
    summaries.push_back(check_log(list_step_logs(task).back(), steps));
    const StepLogSummary& first = summaries.front();
    const StepLogSummary& last = summaries.back();
    if (last.identity.run != first.identity.run) {
      throw DataLoss("{} and {} are logs of two runs", first.file.string(), last.file.string());
    }
    // A step is prepared by all before one commits it, and the next only when all have.
    const std::int64_t apart = last.last_step - first.last_step;
    if (apart > 1 || apart < -1 || (apart != 0 && first.ended && last.ended)) {
      throw DataLoss("{} goes to step {}, {} to step {}", first.file.string(), first.last_step,
                     last.file.string(), last.last_step);
    }
  }
  return summaries;
}

}  // namespace muster
