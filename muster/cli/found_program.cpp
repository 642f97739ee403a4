#include "muster/cli/found_program.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/cli/words.h"

namespace muster::cli {
namespace {

bool is_program(const Path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<Path> folders_of(const std::string& package_path) {
  std::vector<Path> folders;
  if (!package_path.empty()) folders.emplace_back(package_path);
  const char* const path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    folders.emplace_back(folder.empty() ? "." : folder);
  }
  return folders;
}

// Where Python would look for a module: trainer.task in trainer/.
Path module_file(const std::string& word, const std::string& package_path) {
  std::string file = word;
  std::replace(file.begin(), file.end(), '.', '/');
  return Path(package_path.empty() ? "." : folder_of_package(package_path)) / file;
}

}  // namespace

std::string folder_of_package(const std::string& package_path) {
  const Path package = std::filesystem::absolute(package_path).lexically_normal();
  return (package.has_filename() ? package.parent_path() : package.parent_path().parent_path())
      .string();
}

std::string found_program(const std::string& word, const std::string& package_path) {
  const bool is_path = word.find('/') != std::string::npos;
  const bool is_module = !is_path && word.find('.') != std::string::npos;
  std::vector<Path> candidates;
  if (is_path) {
    candidates.emplace_back(word);
  } else {
    for (const Path& folder : folders_of(package_path)) candidates.push_back(folder / word);
    if (is_module) candidates.push_back(module_file(word, package_path));
  }
  for (const Path& candidate : candidates) {
    if (is_program(candidate)) {
      return std::filesystem::absolute(candidate).lexically_normal().string();
    }
  }
  std::string places = is_path ? "" : package_path.empty() ? "" : " in " + package_path + " or";
  if (!is_path) places += " on the PATH";
  if (is_module) {
    places += ", nor " + module_file(word, package_path).lexically_normal().string() +
              ", which a module of that name would be";
  }
  throw UsageError("there is no program \"{}\" that can be executed{}", word, places);
}

}  // namespace muster::cli
