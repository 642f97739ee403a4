#include "muster/saved_model/graph/export_folder.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/saved_model/graph/saved_model.h"

namespace muster::graph {
namespace {

constexpr std::string_view kUnfinishedPrefix = "temp-";

bool is_number(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string_view without_zeros(std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// Longer numbers are larger; a name that is the same number as another stands by its text.
bool is_smaller(const std::string& left, const std::string& right) {
  const auto key = [](const std::string& name) {
    const std::string_view digits = without_zeros(name);
    return std::pair(digits.size(), digits);
  };
  return std::pair(key(left), std::string_view(left)) <
         std::pair(key(right), std::string_view(right));
}

std::vector<std::string> names_in(const Path& base) {
  if (!file_exists(base)) return {};
  return file_system_for(base).list(base);
}

// 0 for what is no number, or one beyond what servers count to.
std::int64_t number_of(std::string_view name) {
  std::int64_t number = 0;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = is_number(name) && end.ec == std::errc();
  return whole && number < std::numeric_limits<std::int64_t>::max() ? number : 0;
}

Path next_export(const Path& base) {
  std::int64_t number = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  for (const auto& name : names_in(base)) number = std::max(number, number_of(name) + 1);
  return base / std::to_string(number);
}

}  // namespace

std::vector<Path> exports_in(const Path& base) {
  std::vector<std::string> numbers = names_in(base);
  std::erase_if(numbers, [&](const std::string& name) {
    return !is_number(name) || !is_saved_model(base / name);
  });
  std::sort(numbers.begin(), numbers.end(), is_smaller);
  std::vector<Path> exports;
  for (const auto& name : numbers) exports.push_back(base / name);
  return exports;
}

Path latest_export(const Path& base) {
  const std::vector<Path> exports = exports_in(base);
  return exports.empty() ? Path() : exports.back();
}

Path write_numbered_export(const Path& base, const std::function<void(const Path& dir)>& write) {
  file_system_for(base).create_directories(base);
  for (;;) {
    const Path dir = next_export(base);
    try {
      write(dir);
    } catch (const AlreadyExists&) {
      // The folder of another exporter, that was faster; or another failure, whose retries would
      // never end.
      if (!file_exists(dir)) throw;
      continue;
    }
    return dir;
  }
}

void remove_export(const Path& dir) {
  FileSystem& files = file_system_for(dir);
  if (object_store_for(dir) != nullptr) {
    // No folder is renamed there; one without a model is no export.
    for (const auto& name : files.list(dir)) {
      if (name.starts_with("saved_model.")) files.remove(dir / name);
    }
    files.remove_all(dir);
  } else {
    const Path doomed = dir.parent_path() / ("temp-removed-" + dir.filename().string());
    files.rename(dir, doomed);
    files.remove_all(doomed);
  }
  log::info("removed the export {}", dir.string());
}

void remove_unfinished_exports(const Path& base) {
  const bool in_store = object_store_for(base) != nullptr;
  for (const auto& name : names_in(base)) {
    // In an object store an export is filled under its own name, the model last.
    const bool is_unfinished = name.starts_with(kUnfinishedPrefix) ||
                               (in_store && is_number(name) && !is_saved_model(base / name));
    if (!is_unfinished) continue;
    log::info("removing {}, which an export left that did not come to its end",
              (base / name).string());
    file_system_for(base).remove_all(base / name);
  }
}

}  // namespace muster::graph
