#include "muster/orchestration/launch/scale.h"

#include <fmt/core.h>

#include <charconv>
#include <string>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/wait.h"
#include "muster/orchestration/process/process_identity.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kScaleNap{20};
// Numbers of tasks have a few digits; what is longer was not written here.
constexpr std::size_t kLongestFile = 64;

Path range_file(const Path& log_dir) { return log_dir / "launch.workers"; }
Path request_file(const Path& log_dir) { return log_dir / "launch.scale"; }

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stopped != end || count < 0) return std::nullopt;
  return count;
}

// Without the end of the line; nothing where there is no such file.
std::optional<std::string> read_line(const Path& file) {
  FileSystem& files = file_system_for(file);
  const auto status = files.status(file);
  if (!status || status->size_bytes > kLongestFile) return std::nullopt;
  std::string text = read_file(file, kLongestFile);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

WorkerRange parse_worker_range(std::string_view text) {
  const auto colon = text.find(':');
  const auto least = parse_count(text.substr(0, colon));
  const auto most = colon == std::string_view::npos ? least : parse_count(text.substr(colon + 1));
  if (least && most && *least <= *most) return {*least, *most};
  throw InvalidArgument("a number of workers is N, or LEAST:MOST such as 2:8: {}", text);
}

void scale(const ScaleOptions& options) {
  const auto launcher = process::read_pid_file(options.log_dir / "launch.pid");
  if (!launcher || !process::is_alive(*launcher)) {
    throw FailedPrecondition("no launch uses {}; give the --log-dir of one that runs",
                             options.log_dir.string());
  }
  const auto written = read_line(range_file(options.log_dir));
  if (!written) {
    throw FailedPrecondition(
        "the launch of {} has a fixed number of workers; start it with --workers LEAST:MOST",
        options.log_dir.string());
  }
  const WorkerRange range = parse_worker_range(*written);
  if (options.workers < range.least || options.workers > range.most) {
    throw InvalidArgument("the launch of {} may have {} to {} workers: {}",
                          options.log_dir.string(), range.least, range.most, options.workers);
  }
  const Path request = request_file(options.log_dir);
  write_file_atomically(request, fmt::format("{}\n", options.workers));
  const Deadline deadline = Deadline::after(options.timeout);
  while (file_system_for(request).status(request)) {
    if (deadline.expired()) {
      file_system_for(request).remove(request);
      throw DeadlineExceeded("the launch of {} (process {}) has not heard of it within {} ms",
                             options.log_dir.string(), launcher->pid, options.timeout.count());
    }
    std::this_thread::sleep_for(kScaleNap);
  }
}

ScaleRequests::ScaleRequests(Path log_dir, const WorkerRange& range)
    : log_dir_(std::move(log_dir)), range_(range) {
  // Left over from a launch that was killed.
  file_system_for(log_dir_).remove(request_file(log_dir_));
  write_file_atomically(range_file(log_dir_), fmt::format("{}:{}\n", range.least, range.most));
}

ScaleRequests::~ScaleRequests() {
  try {
    for (const Path& file : {range_file(log_dir_), request_file(log_dir_)}) {
      file_system_for(file).remove(file);
    }
  } catch (const Error& error) {
    log::warning("{}", error.what());
  }
}

std::optional<std::int64_t> ScaleRequests::next() {
  const Path file = request_file(log_dir_);
  const auto line = read_line(file);
  if (!line) return std::nullopt;
  file_system_for(file).remove(file);
  const auto count = parse_count(*line);
  if (count && *count >= range_.least && *count <= range_.most) return count;
  log::warning("{} asks for '{}' workers, and there may be {} to {}", file.string(), *line,
               range_.least, range_.most);
  return std::nullopt;
}

}  // namespace muster::launch
