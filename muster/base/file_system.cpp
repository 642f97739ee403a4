#include "muster/base/file_system.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/local_file_system_internal.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"

namespace muster {
namespace {

constexpr std::string_view kSchemeEnd = "://";

// The part before "://" if it is made of a scheme's characters; empty for a plain path.
std::string scheme_of(const Path& path) {
  const std::string& text = path.native();
  const auto end = text.find(kSchemeEnd);
  if (end == std::string::npos || end == 0) return "";
  for (std::size_t i = 0; i < end; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isalnum(c) == 0 && c != '+' && c != '-' && c != '.') return "";
  }
  return text.substr(0, end);
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<FileSystem>> by_scheme{{"file", make_local_file_system()}};
  // Replaced ones: references to them stay good for the life of the process.
  std::vector<std::shared_ptr<FileSystem>> retired;
};

// Leaked on purpose: files may be closed while statics are destroyed.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

Path parent_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

// Beside the target, so that the rename stays inside one file system; unique in this process and
// host.
Path temporary_beside(const Path& path) {
  // A file of an object store is seen when it is whole, under its own name.
  if (object_store_for(path) != nullptr) return path;
  static std::atomic<unsigned> counter{0};
  return parent_of(path) /
         fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), counter++);
}

/// The path, unless a rename to it would replace a device, a FIFO or a socket by a file.
const Path& checked_target(const Path& path) {
  if (is_remote(path)) return path;
  std::error_code unused;
  switch (std::filesystem::status(strip_file_scheme(path), unused).type()) {
    case std::filesystem::file_type::block:
    case std::filesystem::file_type::character:
    case std::filesystem::file_type::fifo:
    case std::filesystem::file_type::socket:
      throw InvalidArgument(
          "{} is a device, a FIFO or a socket, and would be replaced by a file; give the name of a "
          "file",
          path.string());
    default:
      return path;
  }
}

}  // namespace

FileSystem& file_system_for(const Path& path) {
  std::string scheme = scheme_of(path);
  if (scheme.empty()) scheme = "file";
  Registry& known = registry();
  std::lock_guard lock(known.mutex);
  const auto found = known.by_scheme.find(scheme);
  if (found != known.by_scheme.end()) return *found->second;
  std::vector<std::string> names;
  for (const auto& [name, unused] : known.by_scheme)
    names.push_back(name + std::string(kSchemeEnd));
  throw InvalidArgument(
      "no file system for the scheme {}:// of {}; known are plain paths, {}; a program has remote "
      "ones when it links muster::stores and calls muster::register_stores()",
      scheme, path.string(), fmt::join(names, ", "));
}

Path strip_file_scheme(const Path& path) {
  constexpr std::string_view kFile = "file://";
  return path.native().starts_with(kFile) ? Path(path.native().substr(kFile.size())) : path;
}

void register_file_system(std::string scheme, std::shared_ptr<FileSystem> file_system) {
  if (file_system == nullptr) throw InvalidArgument("no file system given for {}://", scheme);
  Registry& known = registry();
  std::lock_guard lock(known.mutex);
  auto& entry = known.by_scheme[std::move(scheme)];
  if (entry != nullptr) known.retired.push_back(entry);
  entry = std::move(file_system);
}

bool file_exists(const Path& path) { return file_system_for(path).status(path).has_value(); }

std::string read_file(const Path& path, std::uint64_t limit_bytes) {
  const auto file = file_system_for(path).open(path);
  // The size is a hint: files under /proc say 0, and others may grow while they are read.
  std::string bytes;
  std::size_t piece = static_cast<std::size_t>(std::min(file->size(), limit_bytes)) + 1;
  for (;;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + piece);
    const std::size_t count = file->read({bytes.data() + before, piece});
    bytes.resize(before + count);
    if (bytes.size() > limit_bytes) {
      throw ResourceExhausted("{} is larger than the {} bytes that are allowed here", path.string(),
                              limit_bytes);
    }
    if (count < piece) return bytes;
    piece = std::size_t{64} << 10;
  }
}

AtomicFile::AtomicFile(const Path& path)
    : path_(checked_target(path)),
      temporary_(temporary_beside(path)),
      file_(file_system_for(path).create(temporary_)) {}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  if (temporary_ == path_) return;  // The store discards what was not closed.
  try {
    file_->close();
    file_system_for(temporary_).remove(temporary_);
  } catch (const Error& error) {
    log::warning("could not clean up {}: {}", temporary_.string(), error.what());
  }
}

void AtomicFile::commit(bool durable) {
  FileSystem& files = file_system_for(path_);
  if (durable) file_->sync();
  file_->close();
  if (temporary_ != path_) files.rename(temporary_, path_);
  file_.reset();
  if (durable) files.sync_directory(parent_of(path_));
}

void write_file_atomically(const Path& path, std::string_view bytes, bool durable) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit(durable);
}

void publish_directory(const Path& temporary, const Path& final_path) {
  FileSystem& files = file_system_for(final_path);
  if (files.status(final_path)) throw AlreadyExists("{} is there already", final_path.string());
  files.sync_directory(temporary);
  files.rename(temporary, final_path);
  files.sync_directory(parent_of(final_path));
}

}  // namespace muster
