#include "muster/serving/core/version_folders.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/object_store.h"
#include "muster/serving/codec/model_files.h"

namespace muster::serving {
namespace {

std::optional<std::int64_t> version_number(std::string_view name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

std::string fingerprint_of(const Path& dir) {
  std::string text;
  const auto add = [&](const Path& file) {
    const auto status = file_system_for(file).status(file);
    if (!status || status->is_directory) return;
    text += fmt::format("{} {} {}\n", file.string(), status->size_bytes, status->modified_ns);
  };
  // A TorchScript file may be a version without a folder.
  if (torch_script_in(dir) == dir) {
    add(dir);
    add(torch_script_signature_path(dir));
    return text;
  }
  for (const Path& part : {dir, dir / "variables", dir / "assets", dir / "assets.extra"}) {
    auto& files = file_system_for(part);
    const auto folder = files.status(part);
    if (!folder || !folder->is_directory) continue;
    for (const std::string& name : files.list(part)) add(part / name);
  }
  return text;
}

}  // namespace

std::map<std::int64_t, Path> versions_in(const Path& base_path) {
  std::map<std::int64_t, Path> versions;
  if (is_version(base_path)) {
    const Path name =
        base_path.has_filename() ? base_path.filename() : base_path.parent_path().filename();
    versions[version_number(name.string()).value_or(1)] = base_path;
    return versions;
  }
  if (!file_exists(base_path)) throw NotFound("there is no folder {}", base_path.string());
  // In an object store a version is filled under its own name, the model last.
  const bool in_store = object_store_for(base_path) != nullptr;
  for (const std::string& name : file_system_for(base_path).list(base_path)) {
    const auto number = version_number(name);
    if (!number || (in_store && !is_version(base_path / name))) continue;
    versions[*number] = base_path / name;
  }
  return versions;
}

// An error from a folder that changes meanwhile is as good as another fingerprint.
std::string version_fingerprint(const Path& dir) {
  try {
    return fingerprint_of(dir);
  } catch (const Error&) {
    return {};
  }
}

std::string without_warm_up(std::string_view fingerprint) {
  std::string text;
  while (!fingerprint.empty()) {
    const auto end = std::min(fingerprint.find('\n'), fingerprint.size() - 1);
    const std::string_view line = fingerprint.substr(0, end + 1);
    if (line.find("/assets.extra/tf_serving_warmup_requests ") == line.npos) text += line;
    fingerprint.remove_prefix(line.size());
  }
  return text;
}

}  // namespace muster::serving
