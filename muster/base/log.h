#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

/// One line, one event; words first, then key=value. Lines go to standard error, or to a file:
///   2026-03-01T10:04:11.532 I worker:1 saved checkpoint step=400 path=runs/census/model.ckpt-400
/// All functions may be called from any thread.
namespace muster::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info", "warning" (or "warn"), "error" (or "fatal"), "off", in any case.
/// Throws InvalidArgument on another word.
Level parse_level(std::string_view word);

/// Lines below this level are dropped. Info at start, or what MUSTER_LOG_LEVEL says.
void set_level(Level level);
Level level();

/// The role and index that every line carries, such as "worker:1"; empty leaves the word out.
void set_task(std::string task);
std::string task();

/// Appends lines to this file instead of standard error; an empty path goes back.
void set_file(const std::filesystem::path& path);

/// Also hands every line, already laid out and without a line end, to `sink`; an empty one ends
/// that.
void set_sink(std::function<void(Level, std::string_view)> sink);

/// A line that is redrawn in place on a terminal; elsewhere it is dropped. Empty clears it.
void progress(std::string_view line);
/// Whether standard error is a terminal, so that progress() shows anything.
bool shows_progress();

void write(Level level, std::string_view message);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kDebug) {
    write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kInfo)
    write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kWarning) {
    write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (level() <= Level::kError) {
    write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace muster::log
