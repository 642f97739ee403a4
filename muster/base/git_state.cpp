#include "muster/base/git_state.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/lines.h"

namespace muster {
namespace {

constexpr std::uint64_t kMostRefBytes = std::uint64_t{64} << 20;
constexpr std::string_view kRefPrefix = "ref: ";
constexpr std::string_view kBranchPrefix = "refs/heads/";
constexpr std::string_view kGitDirPrefix = "gitdir: ";

// The first line of a file; nothing if it cannot be read.
std::optional<std::string> first_line(const Path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) return std::nullopt;
  try {
    const std::string text = read_file(path, kMostRefBytes);
    const auto lines = lines_of(text, 1);
    return lines.empty() ? std::string() : std::string(lines[0]);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == text.npos;
}

// The folder that .git is, or that a file of this name points to, as in a worktree or submodule.
std::optional<Path> git_folder_of(const Path& repository) {
  const Path git = repository / ".git";
  std::error_code failure;
  if (std::filesystem::is_directory(git, failure)) return git;
  const auto line = first_line(git);
  if (!line || !line->starts_with(kGitDirPrefix)) return std::nullopt;
  return (repository / line->substr(kGitDirPrefix.size())).lexically_normal();
}

// A worktree has its own HEAD; branches are in the repository that it belongs to.
Path common_folder_of(const Path& git_folder) {
  const auto line = first_line(git_folder / "commondir");
  return line && !line->empty() ? (git_folder / *line).lexically_normal() : git_folder;
}

std::string packed_commit(const Path& common, std::string_view ref) {
  std::error_code failure;
  const Path path = common / "packed-refs";
  if (!std::filesystem::is_regular_file(path, failure)) return {};
  try {
    const std::string text = read_file(path, kMostRefBytes);
    for (const std::string_view line : lines_of(text)) {
      const auto space = line.find(' ');
      if (space == line.npos || line.substr(space + 1) != ref) continue;
      if (is_commit(line.substr(0, space))) return std::string(line.substr(0, space));
    }
  } catch (const Error&) {
    return {};
  }
  return {};
}

std::string commit_of(const Path& git_folder, const std::string& ref) {
  const Path common = common_folder_of(git_folder);
  const auto loose = first_line(common / ref);
  if (loose && is_commit(*loose)) return *loose;
  return packed_commit(common, ref);
}

}  // namespace

std::optional<GitState> git_state_of(const Path& folder) {
  std::error_code failure;
  Path place = std::filesystem::absolute(folder, failure).lexically_normal();
  if (failure) return std::nullopt;
  for (;; place = place.parent_path()) {
    const auto git_folder = git_folder_of(place);
    const auto head = git_folder ? first_line(*git_folder / "HEAD") : std::nullopt;
    if (head) {
      GitState state{.repository = place};
      if (!head->starts_with(kRefPrefix)) {
        if (is_commit(*head)) state.commit = *head;
        return state;
      }
      const std::string ref = head->substr(kRefPrefix.size());
      state.branch = ref.starts_with(kBranchPrefix) ? ref.substr(kBranchPrefix.size()) : ref;
      state.commit = commit_of(*git_folder, ref);
      return state;
    }
    if (!place.has_relative_path()) return std::nullopt;
  }
}

}  // namespace muster
