#include "muster/orchestration/launch/merged_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <limits>

namespace muster::launch {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 16;
// A task that never stops writing does not keep the others' lines back.
constexpr std::size_t kChunksATurn = 16;
// A longer line is printed in pieces.
constexpr std::size_t kMostLineBytes = std::size_t{1} << 20;
constexpr std::array kColours{36, 32, 33, 35, 34, 31};

bool contains_word(std::string_view line, std::string_view lower_case) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  };
  return std::search(line.begin(), line.end(), lower_case.begin(), lower_case.end(), same) !=
         line.end();
}

bool says_port_in_use(std::string_view line) {
  return contains_word(line, "address already in use") || contains_word(line, "port in use") ||
         contains_word(line, "port is in use") || contains_word(line, "eaddrinuse");
}

// Where in a line of muster's own logger, "2026-03-01T10:04:11.532 I worker:1 saved ...", the task
// is named.
constexpr std::size_t kNamePlace = 26;

bool names_task(std::string_view line, std::string_view task) {
  if (line.size() <= kNamePlace + task.size()) return false;
  const bool is_logged = line[4] == '-' && line[7] == '-' && line[10] == 'T' && line[13] == ':' &&
                         line[19] == '.' && line[23] == ' ' && line[25] == ' ';
  return is_logged && line.substr(kNamePlace, task.size()) == task &&
         line[kNamePlace + task.size()] == ' ';
}

}  // namespace

std::size_t MergedLog::follow(std::string name, const Path& file) {
  const std::size_t number = logs_.size();
  std::string prefix = fmt::format("[{}] ", name);
  if (colours_)
    prefix = fmt::format("\033[{}m{}\033[0m", kColours[number % kColours.size()], prefix);
  logs_.push_back({.name = std::move(name), .prefix = std::move(prefix), .file = file});
  return number;
}

void MergedLog::take_line(Log& log, std::string_view line) {
  if (says_port_in_use(line)) log.saw_port_in_use = true;
  note_results(line);
  text_ += log.prefix;
  if (names_task(line, log.name)) {
    text_ += line.substr(0, kNamePlace);
    line.remove_prefix(kNamePlace + log.name.size() + 1);
  }
  text_ += line;
  text_ += '\n';
}

void MergedLog::note_results(std::string_view line) {
  constexpr std::string_view kLoss = "Loss for final step: ";
  constexpr std::string_view kEvaluation = "Saving dict for global step ";
  if (const auto place = line.find(kLoss); place != std::string_view::npos) {
    final_loss_ = line.substr(place);
  }
  if (const auto place = line.find(kEvaluation); place != std::string_view::npos) {
    last_evaluation_ = line.substr(place + kEvaluation.size());
  }
}

void MergedLog::read_new(Log& log, std::size_t most_chunks) {
  const int file = ::open(log.file.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  std::array<char, kChunkBytes> chunk;
  for (std::size_t i = 0; i < most_chunks; ++i) {
    const ssize_t count =
        ::pread(file, chunk.data(), chunk.size(), static_cast<off_t>(log.read_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    log.read_bytes += static_cast<std::uint64_t>(count);
    log.unfinished.append(chunk.data(), static_cast<std::size_t>(count));
    std::string_view rest = log.unfinished;
    for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      take_line(log, rest.substr(0, end));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() > kMostLineBytes) {
      take_line(log, rest);
      rest = {};
    }
    log.unfinished.erase(0, log.unfinished.size() - rest.size());
    print();
  }
  ::close(file);
}

void MergedLog::print() {
  std::string_view rest = text_;
  while (!rest.empty() && out_ >= 0) {
    const ssize_t written = ::write(out_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      out_ = -1;
      break;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  text_.clear();
}

void MergedLog::poll() {
  for (Log& log : logs_) read_new(log, kChunksATurn);
}

void MergedLog::finish() {
  for (Log& log : logs_) {
    read_new(log, std::numeric_limits<std::size_t>::max());
    if (!log.unfinished.empty()) take_line(log, log.unfinished);
    log.unfinished.clear();
  }
  print();
}

}  // namespace muster::launch
