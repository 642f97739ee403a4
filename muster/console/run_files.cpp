#include "muster/console/run_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

namespace muster::console {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostListed = 1000;
constexpr int kDeepestExport = 6;

std::optional<struct stat> status_of(const Path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

double modified(const struct stat& status) {
  constexpr double kNano = 1e-9;
  return static_cast<double>(status.st_mtim.tv_sec) +
         kNano * static_cast<double>(status.st_mtim.tv_nsec);
}

// "model.ckpt-100" of "model.ckpt-100.index" and "model.ckpt-100.data-00000-of-00001"; "" of
// others.
std::string checkpoint_of(const std::string& name) {
  constexpr std::string_view kEnding = ".index";
  const auto end = name.ends_with(kEnding) ? name.size() - kEnding.size() : name.rfind(".data-");
  if (end == name.npos || name.find("ckpt-") >= end) return {};
  return name.substr(0, end);
}

std::int64_t step_of(const std::string& prefix) {
  const auto dash = prefix.rfind('-');
  std::int64_t step = 0;
  if (dash != prefix.npos) {
    std::from_chars(prefix.data() + dash + 1, prefix.data() + prefix.size(), step);
  }
  return step;
}

// The entries of a folder that are regular files, or folders, by name.
std::vector<std::string> names_of(const Path& folder, fs::file_type type, bool& is_cut) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->symlink_status(error).type() != type) continue;
    if (names.size() == kMostListed) {
      is_cut = true;
      break;
    }
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

void add_sizes(const Path& folder, int depth, RunFile& sum, bool& is_cut) {
  for (const std::string& name : names_of(folder, fs::file_type::regular, is_cut)) {
    const auto status = status_of(folder / name);
    if (!status) continue;
    sum.bytes += static_cast<std::uint64_t>(status->st_size);
    sum.time = std::max(sum.time, modified(*status));
  }
  if (depth == kDeepestExport) return;
  for (const std::string& name : names_of(folder, fs::file_type::directory, is_cut)) {
    add_sizes(folder / name, depth + 1, sum, is_cut);
  }
}

void add_exports(const Path& folder, RunFiles& found) {
  const Path exports = folder / "export";
  const auto status = status_of(exports);
  if (!status || !S_ISDIR(status->st_mode)) return;
  for (const std::string& exporter : names_of(exports, fs::file_type::directory, found.is_cut)) {
    for (const std::string& number :
         names_of(exports / exporter, fs::file_type::directory, found.is_cut)) {
      if (found.exports.size() == kMostListed) {
        found.is_cut = true;
        return;
      }
      RunFile one{.name = "export/" + exporter + "/" + number};
      add_sizes(exports / exporter / number, 0, one, found.is_cut);
      found.exports.push_back(std::move(one));
    }
  }
}

}  // namespace

RunFiles files_of_run(const Path& folder) {
  RunFiles found;
  std::map<std::string, RunCheckpoint> checkpoints;
  for (const std::string& name : names_of(folder, fs::file_type::regular, found.is_cut)) {
    const auto status = status_of(folder / name);
    if (!status || name.starts_with('.')) continue;
    const auto bytes = static_cast<std::uint64_t>(status->st_size);
    const std::string prefix = checkpoint_of(name);
    if (prefix.empty()) {
      found.files.push_back({.name = name, .bytes = bytes, .time = modified(*status)});
      continue;
    }
    RunCheckpoint& one = checkpoints[prefix];
    one.name = prefix;
    one.step = step_of(prefix);
    one.bytes += bytes;
    one.time = std::max(one.time, modified(*status));
  }
  found.checkpoints.reserve(checkpoints.size());
  for (auto& [prefix, one] : checkpoints) found.checkpoints.push_back(std::move(one));
  std::ranges::sort(found.checkpoints, {}, &RunCheckpoint::step);
  add_exports(folder, found);
  return found;
}

}  // namespace muster::console
