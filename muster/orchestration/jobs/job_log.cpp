#include "muster/orchestration/jobs/job_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/file_inside.h"
#include "muster/base/local_time.h"
#include "muster/base/printable.h"

namespace muster::jobs {
namespace {

constexpr std::size_t kLogChunkBytes = std::size_t{1} << 16;
// A longer line is printed in pieces.
constexpr std::size_t kMostLogLineBytes = std::size_t{1} << 20;
constexpr std::string_view kService = "service";
// Lengths in "2026-03-01T10:04:11.532 I worker:1 saved ...".
constexpr std::size_t kTimeBytes = 23;
constexpr std::size_t kLoggerHeaderBytes = 26;

std::string_view severity_of(char letter) {
  switch (letter) {
    case 'D':
      return "DEBUG";
    case 'I':
      return "INFO";
    case 'W':
      return "WARNING";
    case 'E':
      return "ERROR";
    default:
      return "";
  }
}

template <typename Number>
bool take_digits(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Type and index; nothing for what is no task's name.
std::optional<std::pair<std::string, std::int64_t>> parse_task(std::string_view word) {
  const auto letters =
      std::find_if(word.begin(), word.end(), [](char c) { return c < 'a' || c > 'z'; });
  const std::string type(word.begin(), letters);
  std::string_view rest = word.substr(type.size());
  for (const std::string_view separator : {"-replica-", ":"}) {
    if (!rest.starts_with(separator)) continue;
    rest.remove_prefix(separator.size());
    if (rest.empty()) return std::nullopt;
    break;
  }
  std::int64_t index = 0;
  const bool is_type = type == "master" || type == "chief" || type == "worker" || type == "ps" ||
                       type == "evaluator";
  if (!is_type || (!rest.empty() && !take_digits(rest, index)) || index < 0) return std::nullopt;
  return std::pair(type, index);
}

Time modified_time(const struct stat& status) {
  return Time(
      std::chrono::duration_cast<Time::duration>(std::chrono::seconds(status.st_mtim.tv_sec) +
                                                 std::chrono::nanoseconds(status.st_mtim.tv_nsec)));
}

}  // namespace

std::optional<Time> logger_time(std::string_view line) {
  if (line.size() < kLoggerHeaderBytes || line[4] != '-' || line[7] != '-' || line[10] != 'T' ||
      line[13] != ':' || line[16] != ':' || line[19] != '.' || line[23] != ' ' || line[25] != ' ' ||
      severity_of(line[24]).empty()) {
    return std::nullopt;
  }
  tm parts{};
  int millis = 0;
  if (!take_digits(line.substr(0, 4), parts.tm_year) ||
      !take_digits(line.substr(5, 2), parts.tm_mon) ||
      !take_digits(line.substr(8, 2), parts.tm_mday) ||
      !take_digits(line.substr(11, 2), parts.tm_hour) ||
      !take_digits(line.substr(14, 2), parts.tm_min) ||
      !take_digits(line.substr(17, 2), parts.tm_sec) || !take_digits(line.substr(20, 3), millis)) {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  parts.tm_isdst = -1;
  const time_t seconds = ::mktime(&parts);
  if (seconds == -1) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds) + std::chrono::milliseconds(millis);
}

// One file, read line by line.
class JobLog::Source {
 public:
  /// `folder` is that of the jobs; `logger_name` is what muster's logger calls the task;
  /// `is_stamped` says that kubectl's time stands before every line.
  Source(Path folder, Path file, std::string task, std::string logger_name, bool is_stamped)
      : folder_(std::move(folder)),
        file_(std::move(file)),
        task_(std::move(task)),
        logger_name_(std::move(logger_name)),
        is_stamped_(is_stamped) {}

  /// Whether a line is there to be taken.
  bool fill(bool is_last, bool follows) {
    if (has_line_) return true;
    for (;;) {
      const auto end = buffer_.find('\n', begin_);
      if (end != std::string::npos) return set_line(begin_, end, end + 1, follows);
      if (buffer_.size() - begin_ > kMostLogLineBytes) {
        return set_line(begin_, buffer_.size(), buffer_.size(), follows);
      }
      if (read_more(follows)) continue;
      if (!is_last || begin_ == buffer_.size()) return false;
      return set_line(begin_, buffer_.size(), buffer_.size(), follows);
    }
  }

  LogLine line() const { return line_; }
  Time time() const { return line_.time; }
  void drop() { has_line_ = false; }

 private:
  bool read_more(bool follows) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    if (is_refused_) return false;
    if (refuse()) return true;
    const int descriptor = ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return false;
    if (offset_ == 0) skip_hole(descriptor, follows);
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kLogChunkBytes);
    ssize_t count = 0;
    do {
      count =
          ::pread(descriptor, buffer_.data() + before, kLogChunkBytes, static_cast<off_t>(offset_));
    } while (count < 0 && errno == EINTR);
    ::close(descriptor);
    buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count > 0) offset_ += static_cast<std::uint64_t>(count);
    return count > 0;
  }

  // One that is a FIFO, or leads out of the folder of the jobs, is not read: a line says so
  // instead.
  bool refuse() {
    try {
      check_file_inside(folder_, file_.lexically_relative(folder_));
    } catch (const InvalidArgument& error) {
      is_refused_ = true;
      buffer_ = fmt::format("this log is not read: {}\n", error.message());
    } catch (const Error&) {
      return false;  // Not there yet, most often: opening it tells.
    }
    return is_refused_;
  }

  // Skips the hole at the beginning of a long log, which reads as zeros.
  void skip_hole(int descriptor, bool follows) {
    struct stat status {};
    if (!follows && ::fstat(descriptor, &status) == 0) time_ = modified_time(status);
    const off_t data = ::lseek(descriptor, 0, SEEK_DATA);
    if (data > 0) offset_ = static_cast<std::uint64_t>(data);
  }

  bool set_line(std::size_t begin, std::size_t end, std::size_t next, bool follows) {
    std::string_view text(buffer_.data() + begin, end - begin);
    begin_ = next;
    while (!text.empty() && text.front() == '\0') text.remove_prefix(1);
    line_ = {.severity = "DEFAULT", .task = task_};
    const auto stamp = is_stamped_ ? kubectl_stamp(text) : std::nullopt;
    if (stamp) {
      time_ = Time(std::chrono::duration_cast<Time::duration>(stamp->since_epoch));
      text.remove_prefix(stamp->bytes);
    }
    if (const auto logged = logger_time(text)) {
      line_.severity = severity_of(text[kTimeBytes + 1]);
      // That of a stamp is in no other host's time zone.
      if (!stamp) time_ = *logged;
      text.remove_prefix(kLoggerHeaderBytes);
      if (text.starts_with(logger_name_ + " ")) text.remove_prefix(logger_name_.size() + 1);
    } else if (!stamp && (follows || time_ == Time())) {
      time_ = std::chrono::system_clock::now();
    }
    line_.time = time_;
    line_.message = text;
    has_line_ = true;
    return true;
  }

  Path folder_;
  Path file_;
  bool is_refused_ = false;
  std::string task_;
  std::string logger_name_;
  bool is_stamped_;
  std::uint64_t offset_ = 0;
  std::string buffer_;
  std::size_t begin_ = 0;
  Time time_{};
  bool has_line_ = false;
  LogLine line_{};
};

std::string to_text(const LogLine& line) {
  return fmt::format("{}\t{}\t{}\t\t{}", line.severity,
                     local_time(line.time, "%Y-%m-%d %H:%M:%S %z"), line.task,
                     printable(line.message));
}

std::optional<KubectlStamp> kubectl_stamp(std::string_view line) {
  constexpr std::size_t kSecondsBytes = 19;
  constexpr std::size_t kMostDigits = 9;
  if (line.size() <= kSecondsBytes) return std::nullopt;
  std::size_t end = kSecondsBytes;
  std::int64_t nanoseconds = 0;
  if (line[end] == '.') {
    const auto begin = ++end;
    while (end < line.size() && line[end] >= '0' && line[end] <= '9') ++end;
    std::string digits(line.substr(begin, std::min(end - begin, kMostDigits)));
    digits.resize(kMostDigits, '0');
    if (!take_digits(digits, nanoseconds)) return std::nullopt;
  }
  // "Z ", or "+02:00 " of a node in another time zone.
  std::chrono::minutes offset{0};
  if (line.substr(end).starts_with("Z ")) {
    end += 2;
  } else {
    int hours = 0;
    int minutes = 0;
    const std::string_view zone = line.substr(end, 7);
    if (zone.size() != 7 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':' ||
        zone[6] != ' ' || !take_digits(zone.substr(1, 2), hours) ||
        !take_digits(zone.substr(4, 2), minutes)) {
      return std::nullopt;
    }
    offset =
        (zone[0] == '+' ? 1 : -1) * (std::chrono::hours(hours) + std::chrono::minutes(minutes));
    end += zone.size();
  }
  try {
    const Time seconds = parse_time(fmt::format("{}.000000Z", line.substr(0, kSecondsBytes)));
    return KubectlStamp{.since_epoch = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           seconds.time_since_epoch() - offset) +
                                       std::chrono::nanoseconds(nanoseconds),
                        .bytes = end};
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

std::string task_name(std::string_view word) {
  if (word == kService) return std::string(word);
  const auto task = parse_task(word);
  if (!task) {
    throw InvalidArgument(
        "there is no task \"{}\": name one as worker-replica-1 or worker:1, or service", word);
  }
  return fmt::format("{}-replica-{}", task->first, task->second);
}

JobLog::JobLog(const JobStore& store, std::string name, std::optional<std::string> task)
    : store_(store), name_(std::move(name)), task_(std::move(task)) {}

JobLog::~JobLog() = default;

void JobLog::find_sources() {
  const Path folder = store_.folder_of(name_);
  const auto add = [&](const Path& file, const std::string& task, const std::string& logger_name,
                       bool is_stamped) {
    if (task_ && *task_ != task) return;
    sources_.try_emplace(file, store_.folder(), file, task, logger_name, is_stamped);
  };
  add(folder / "service.log", std::string(kService), std::string(kService), false);
  const Path attempts = folder / "attempts";
  if (!file_exists(attempts)) return;
  FileSystem& files = file_system_for(attempts);
  for (const std::string& attempt : files.list(attempts)) {
    // A number on this host; of a cluster the name of a pod.
    const bool is_pod = attempt.find_first_not_of("0123456789") != std::string::npos;
    for (const std::string& file : files.list(attempts / attempt)) {
      if (!file.ends_with(".log")) continue;
      const auto task = parse_task(std::string_view(file).substr(0, file.size() - 4));
      if (!task) continue;
      add(attempts / attempt / file, fmt::format("{}-replica-{}", task->first, task->second),
          fmt::format("{}:{}", task->first, task->second), is_pod);
    }
  }
}

void JobLog::poll(const std::function<void(const LogLine&)>& take, bool is_last) {
  find_sources();
  for (;;) {
    Source* oldest = nullptr;
    for (auto& [file, source] : sources_) {
      if (!source.fill(is_last, follows_)) continue;
      if (oldest == nullptr || source.time() < oldest->time()) oldest = &source;
    }
    if (oldest == nullptr) break;
    take(oldest->line());
    oldest->drop();
  }
  follows_ = true;
}

}  // namespace muster::jobs
