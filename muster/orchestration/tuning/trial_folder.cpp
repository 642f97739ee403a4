#include <algorithm>
#include <filesystem>

#include "muster/base/copy_whole_file.h"
#include "muster/base/lines.h"
#include "muster/base/printable.h"
#include "muster/orchestration/tuning/study_hparams_internal.h"
#include "muster/orchestration/tuning/trial_folder_internal.h"

namespace muster::tuning {
namespace {

constexpr std::uint64_t kTailBytes = 2048;
constexpr std::size_t kMostWordsBytes = 400;
constexpr std::size_t kLinesSaid = 2;

std::string tail_of(const Path& file) {
  FileSystem& files = file_system_for(file);
  const auto status = files.status(file);
  if (!status || status->is_directory) return "";
  const auto open = files.open(file);
  open->seek(status->size_bytes - std::min(status->size_bytes, kTailBytes));
  std::string tail(kTailBytes, '\0');
  tail.resize(open->read(tail));
  return tail;
}

}  // namespace

std::string last_words_of(const Path& log) {
  const std::string tail = tail_of(log);
  auto lines = lines_of(tail);
  std::erase_if(lines, [](std::string_view line) {
    return line.find_first_not_of(" \t\r") == std::string_view::npos;
  });
  std::string words;
  for (auto line = lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), kLinesSaid));
       line != lines.end(); ++line) {
    words += (words.empty() ? "" : "; ") + std::string(*line);
  }
  if (words.size() > kMostWordsBytes) words.replace(0, words.size() - kMostWordsBytes, "...");
  return printable(words);
}

void copy_trial_folder(const Path& from, const Path& to) {
  FileSystem& files = file_system_for(to);
  files.remove_all(to);
  files.create_directories(to);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    const Path target = to / entry.path().lexically_relative(from);
    if (entry.is_symlink()) {
      std::filesystem::copy_symlink(entry.path(), target);
    } else if (entry.is_directory()) {
      files.create_directories(target);
    } else if (entry.is_regular_file() && !is_hparams_file(entry.path())) {
      copy_whole_file(entry.path(), target);
    }
  }
}

}  // namespace muster::tuning
