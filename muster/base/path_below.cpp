#include "muster/base/path_below.h"

#include <fmt/core.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster {
namespace {

// The kernel's PATH_MAX; stores have keys of up to 1,024 bytes.
constexpr std::size_t kMostNameBytes = 4096;

std::string flaw_of_part(std::string_view part) {
  if (part.empty()) return "it has an empty part between or beside '/'";
  if (part == "." || part == "..") return fmt::format("it has the part '{}'", part);
  return "";
}

}  // namespace

std::string flaw_of_name_below(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.front() == '/') return "it begins with '/'";
  if (name.size() > kMostNameBytes) {
    return fmt::format("it has {} bytes, more than {}", name.size(), kMostNameBytes);
  }
  if (name.find('\0') != std::string_view::npos) return "it has a NUL in it";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    std::string flaw = flaw_of_part(name.substr(begin, end - begin));
    if (!flaw.empty()) return flaw;
    begin = end + 1;
  }
  return "";
}

Path path_below(const Path& folder, std::string_view name) {
  const std::string flaw = flaw_of_name_below(name);
  if (!flaw.empty()) {
    throw InvalidArgument("\"{}\" can be no file below {}: {}", name.substr(0, kMostNameBytes),
                          folder.string(), flaw);
  }
  return folder / name;
}

}  // namespace muster
