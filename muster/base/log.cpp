#include "muster/base/log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/printable.h"

namespace muster::log {
namespace {

Level level_from_environment() {
  const char* word = std::getenv("MUSTER_LOG_LEVEL");
  if (word == nullptr || *word == '\0') return Level::kInfo;
  try {
    return parse_level(word);
  } catch (const Error&) {
    // A static initialiser cannot fail usefully; the first line says what is in force.
    constexpr std::string_view kBad = "MUSTER_LOG_LEVEL is not a level and was ignored\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kBad.data(), kBad.size());
    return Level::kInfo;
  }
}

std::atomic<Level>& level_cell() {
  static std::atomic<Level> cell{level_from_environment()};
  return cell;
}

/// Everything that a line passes through. Leaked on purpose: threads may log while statics are
/// destroyed.
struct Output {
  std::mutex mutex;
  std::string task;
  int file = STDERR_FILENO;
  bool progress_shown = false;
  std::function<void(Level, std::string_view)> sink;
};

Output& output() {
  static auto* const instance = new Output;
  return *instance;
}

char letter(Level level) {
  constexpr char kLetters[] = {'D', 'I', 'W', 'E', '-'};
  return kLetters[static_cast<int>(level)];
}

// Local time with milliseconds; written out by hand because fmt's chrono header doubles compile
// time.
std::string timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const time_t seconds = millis / 1000;
  tm parts{};
  ::localtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     millis % 1000);
}

// One write() a line, so that lines of several processes on one terminal or file do not mix.
void put(int file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // Nowhere left to say that logging failed.
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

Level parse_level(std::string_view word) {
  std::string lower;
  std::transform(word.begin(), word.end(), std::back_inserter(lower),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "debug") return Level::kDebug;
  if (lower == "info") return Level::kInfo;
  if (lower == "warn" || lower == "warning") return Level::kWarning;
  if (lower == "error" || lower == "fatal") return Level::kError;
  if (lower == "off") return Level::kOff;
  throw InvalidArgument("not a log level: '{}' (debug, info, warning, error, off)", word);
}

void set_level(Level level) { level_cell() = level; }
Level level() { return level_cell().load(std::memory_order_relaxed); }

void set_task(std::string task) {
  std::lock_guard lock(output().mutex);
  output().task = std::move(task);
}

std::string task() {
  std::lock_guard lock(output().mutex);
  return output().task;
}

void set_file(const std::filesystem::path& path) {
  int file = STDERR_FILENO;
  if (!path.empty()) {
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) throw_errno(errno, fmt::format("opening the log file {}", path.string()));
  }
  std::lock_guard lock(output().mutex);
  if (output().file != STDERR_FILENO) ::close(output().file);
  output().file = file;
}

void set_sink(std::function<void(Level, std::string_view)> sink) {
  std::lock_guard lock(output().mutex);
  output().sink = std::move(sink);
}

bool shows_progress() {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  return is_terminal;
}

void progress(std::string_view line) {
  if (!shows_progress()) return;
  std::lock_guard lock(output().mutex);
  put(STDERR_FILENO, fmt::format("{}{}", kEraseLine, line));
  output().progress_shown = !line.empty();
}

void write(Level level, std::string_view message) {
  const std::string time = timestamp();
  Output& out = output();
  std::lock_guard lock(out.mutex);
  const std::string line = fmt::format("{} {} {}{}{}\n", time, letter(level), out.task,
                                       out.task.empty() ? "" : " ", printable(message));
  if (out.progress_shown && out.file == STDERR_FILENO) {
    put(STDERR_FILENO, kEraseLine);
    out.progress_shown = false;
  }
  put(out.file, line);
  if (out.sink) out.sink(level, std::string_view(line).substr(0, line.size() - 1));
}

}  // namespace muster::log
