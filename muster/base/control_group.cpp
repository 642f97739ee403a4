#include "muster/base/control_group.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace muster {
namespace {

// A hierarchy of control groups, as /proc/self/mountinfo shows it.
struct GroupMount {
  /// Group that the mount point shows.
  std::string root{};
  Path point{};
  bool is_unified = false;
};

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
  }
  return false;
}

// mountinfo has spaces in paths as \040.
std::string unescaped(const std::string& text) {
  const auto is_octal = [](char one) { return one >= '0' && one <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
        is_octal(text[i + 3])) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// Nothing for mounts that are not of this controller.
std::optional<GroupMount> group_mount(const std::string& line, std::string_view controller) {
  // ID PARENT DEVICE ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPER_OPTIONS
  std::istringstream text(line);
  const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const auto dash = std::ranges::find(words, "-");
  if (dash - words.begin() < 6 || words.end() - dash < 4) return std::nullopt;
  const bool is_unified = dash[1] == "cgroup2";
  if (!is_unified && (dash[1] != "cgroup" || !has_word(dash[3], controller))) return std::nullopt;
  return GroupMount{
      .root = unescaped(words[3]), .point = unescaped(words[4]), .is_unified = is_unified};
}

// The group of this process in a hierarchy; empty where it is in none.
std::string own_group(const Path& proc, std::string_view controller, bool is_unified) {
  std::ifstream file(proc / "cgroup");
  for (std::string line; std::getline(file, line);) {
    // NUMBER:CONTROLLERS:GROUP, without controllers in version 2.
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (is_unified ? controllers.empty() : has_word(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return {};
}

// Where the mount shows the group: below it, or as the mount itself in a container that sees its
// own groups alone.
Path folder_below(const GroupMount& mount, const std::string& group) {
  const Path root = mount.root;
  const Path relative = Path(group).lexically_normal().lexically_relative(root);
  const bool is_below =
      !relative.empty() && *relative.begin() != ".." && group.find("..") == group.npos;
  return is_below && relative != "." ? mount.point / relative : mount.point;
}

std::string group_line(const Path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "max" and -1 are no limits, nor is a file that is not there.
std::optional<double> positive_number(std::istream& text) {
  double number = 0;
  if (!(text >> number) || number <= 0) return std::nullopt;
  return number;
}

std::optional<double> quota_of(const Path& folder) {
  // Version 2 has "QUOTA PERIOD" in one file, version 1 two files.
  for (const std::string& line :
       {group_line(folder / "cpu.max"),
        group_line(folder / "cpu.cfs_quota_us") + ' ' + group_line(folder / "cpu.cfs_period_us")}) {
    std::istringstream text(line);
    const auto quota = positive_number(text);
    const auto period = quota ? positive_number(text) : std::nullopt;
    if (period) return *quota / *period;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> memory_of(const Path& folder) {
  for (const char* const name : {"memory.max", "memory.limit_in_bytes"}) {
    std::istringstream text(group_line(folder / name));
    std::uint64_t bytes = 0;
    if (text >> bytes) return bytes;
  }
  return std::nullopt;
}

template <typename Number, typename Read>
std::optional<Number> smallest(const std::vector<Path>& folders, Read read) {
  std::optional<Number> out;
  for (const Path& folder : folders) {
    const std::optional<Number> limit = read(folder);
    if (limit) out = std::min(out.value_or(*limit), *limit);
  }
  return out;
}

}  // namespace

std::vector<Path> control_group_folders(std::string_view controller, const Path& proc) {
  std::vector<Path> folders;
  std::ifstream file(proc / "mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto mount = group_mount(line, controller);
    if (!mount) continue;
    const std::string group = own_group(proc, controller, mount->is_unified);
    if (group.empty()) continue;
    Path folder = folder_below(*mount, group);
    for (; folder != mount->point; folder = folder.parent_path()) folders.push_back(folder);
    folders.push_back(folder);
  }
  return folders;
}

std::optional<double> processor_quota(const Path& proc) {
  return smallest<double>(control_group_folders("cpu", proc), quota_of);
}

std::optional<std::uint64_t> memory_limit(const Path& proc) {
  return smallest<std::uint64_t>(control_group_folders("memory", proc), memory_of);
}

}  // namespace muster
