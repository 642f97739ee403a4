#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster {
namespace {

constexpr std::size_t kMaxBraceExpansions = 10'000;
constexpr std::size_t kMaxFolderDepth = 64;

bool has_wildcard(std::string_view text) {
  return text.find_first_of("*?[{\\") != std::string_view::npos;
}

// One character of a class such as [a-c!x]. Moves `pattern` after the class; an open one matches
// '['.
bool match_class(std::string_view& pattern, char c) {
  const auto close = pattern.find(']', pattern.size() > 1 && pattern[1] == '!' ? 3 : 2);
  if (close == std::string_view::npos) {
    pattern.remove_prefix(1);
    return c == '[';
  }
  std::string_view body = pattern.substr(1, close - 1);
  pattern.remove_prefix(close + 1);
  const bool negate = body.starts_with('!') || body.starts_with('^');
  if (negate) body.remove_prefix(1);
  bool inside = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (i + 2 < body.size() && body[i + 1] == '-') {
      inside |= body[i] <= c && c <= body[i + 2];
      i += 2;
    } else {
      inside |= body[i] == c;
    }
  }
  return inside != negate;
}

// One path component against one pattern component. Backtracks to the last star only, so it is
// linear in the name for each star.
bool match_name(std::string_view pattern, std::string_view name) {
  std::string_view star_pattern;
  std::string_view star_name;
  bool starred = false;
  while (!name.empty() || !pattern.empty()) {
    bool matched = false;
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      starred = true;
      star_pattern = pattern;
      star_name = name;
      continue;
    }
    if (!pattern.empty() && !name.empty()) {
      if (pattern.front() == '[') {
        matched = match_class(pattern, name.front());
      } else {
        if (pattern.front() == '\\' && pattern.size() > 1) {
          pattern.remove_prefix(1);
          matched = pattern.front() == name.front();
        } else {
          matched = pattern.front() == '?' || pattern.front() == name.front();
        }
        pattern.remove_prefix(1);
      }
    }
    if (matched) {
      name.remove_prefix(1);
      continue;
    }
    if (!starred || star_name.empty()) return false;
    star_name.remove_prefix(1);
    name = star_name;
    pattern = star_pattern;
  }
  return true;
}

// Every alternative of the first {..,..} in turn, recursively: "a{b,c}" gives "ab" and "ac".
void expand_braces(const std::string& pattern, std::vector<std::string>& out) {
  const auto open = pattern.find('{');
  const auto close = open == std::string::npos ? open : pattern.find('}', open);
  if (close == std::string::npos || pattern.find(',', open) > close) {
    out.push_back(pattern);
    if (out.size() > kMaxBraceExpansions) {
      throw InvalidArgument("the pattern has more than {} alternatives", kMaxBraceExpansions);
    }
    return;
  }
  std::size_t start = open + 1;
  while (start <= close) {
    const auto end = std::min(pattern.find(',', start), close);
    expand_braces(
        pattern.substr(0, open) + pattern.substr(start, end - start) + pattern.substr(close + 1),
        out);
    start = end + 1;
  }
}

/// Walks the components of one pattern, folder by folder.
class Walk {
 public:
  Walk(FileSystem& files, std::vector<std::string> components, std::vector<Path>& found)
      : files_(files), components_(std::move(components)), found_(found) {}

  void descend(const Path& folder, std::size_t index, std::size_t depth = 0) {
    if (index == components_.size()) return found_.push_back(folder);
    const std::string& component = components_[index];
    if (component == "**") return descend_any(folder, index, depth);
    if (!has_wildcard(component)) {
      const Path next = folder / component;
      if (files_.status(next)) descend(next, index + 1, depth);
      return;
    }
    for (const auto& name : names_in(folder)) {
      // As in a shell, hidden files match only a pattern that starts with a dot.
      if (name.starts_with('.') && !component.starts_with('.')) continue;
      if (match_name(component, name)) step(folder / name, index + 1, depth);
    }
  }

 private:
  void step(const Path& next, std::size_t index, std::size_t depth) {
    const bool last = index == components_.size();
    if (last || is_folder(next)) descend(next, index, depth);
  }

  void descend_any(const Path& folder, std::size_t index, std::size_t depth) {
    if (depth > kMaxFolderDepth) {
      throw InvalidArgument("folders are nested deeper than {} under {}", kMaxFolderDepth,
                            folder.string());
    }
    descend(folder, index + 1, depth);
    for (const auto& name : names_in(folder)) {
      if (!name.starts_with('.') && is_folder(folder / name)) {
        descend_any(folder / name, index, depth + 1);
      }
    }
  }

  std::vector<std::string> names_in(const Path& folder) {
    const Path shown = folder.empty() ? Path(".") : folder;
    return is_folder(shown) ? files_.list(shown) : std::vector<std::string>{};
  }

  bool is_folder(const Path& path) {
    const auto status = files_.status(path);
    return status && status->is_directory;
  }

  FileSystem& files_;
  std::vector<std::string> components_;
  std::vector<Path>& found_;
};

void glob_one(const std::string& pattern, std::vector<Path>& found) {
  FileSystem& files = file_system_for(pattern);
  if (!has_wildcard(pattern)) {
    if (files.status(pattern)) found.emplace_back(pattern);
    return;
  }
  // The scheme and bucket, or the leading '/', are no components to match.
  const auto scheme_end = pattern.find("://");
  std::size_t start = scheme_end == std::string::npos ? 0 : scheme_end + 3;
  if (start < pattern.size() && pattern[start] == '/') ++start;
  const Path root = pattern.substr(0, start);
  std::vector<std::string> components;
  while (start <= pattern.size()) {
    const auto end = std::min(pattern.find('/', start), pattern.size());
    if (end > start) components.push_back(pattern.substr(start, end - start));
    start = end + 1;
  }
  Walk(files, std::move(components), found).descend(root, 0);
}

}  // namespace

std::vector<Path> glob(const Path& pattern) {
  // A file whose very name holds a star or a bracket is meant as it stands.
  if (!has_wildcard(pattern.native()) || file_exists(pattern)) {
    return file_exists(pattern) ? std::vector<Path>{pattern} : std::vector<Path>{};
  }
  std::vector<std::string> alternatives;
  expand_braces(pattern.native(), alternatives);
  std::vector<Path> found;
  for (const auto& alternative : alternatives) glob_one(alternative, found);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace muster
