#include "muster/console/store_mirror.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/object_store.h"
#include "muster/base/sha256.h"
#include "muster/base/wait.h"

namespace muster::console {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kDeepestMirrored = 8;
constexpr std::size_t kHashLetters = 16;
constexpr std::size_t kMostMirroredFiles = 200'000;
constexpr std::uint64_t kMostMirroredJson = std::uint64_t{64} << 20;
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
// The share of the time that looks may take.
constexpr int kLeastPauses = 4;

bool is_event_file(const std::string& name) {
  return !name.starts_with('.') && name.find("tfevents.") != name.npos;
}

bool is_json(const std::string& name) { return !name.starts_with('.') && name.ends_with(".json"); }

// Names of a store that can be names of files here.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         name.find('\0') == name.npos;
}

// Checkpoints, exports and logs are neither asked for nor copied.
bool may_hold_runs(const std::string& name) {
  return !name.starts_with('.') && !name.starts_with("model.ckpt") && name != "export" &&
         name != "ps_log" && name != "checkpoint" && !name.ends_with(".log") &&
         !name.ends_with(".pbtxt");
}

std::string name_of_remote(const Path& remote) {
  const std::string name = remote.filename().string();
  return name.empty() ? remote.parent_path().filename().string() : name;
}

// Appends the bytes from `from` on to the copy.
void append_rest(const Path& remote, const Path& copy, std::uint64_t from) {
  const auto file = file_system_for(remote).open(remote);
  file->seek(from);
  std::ofstream out(copy, std::ios::binary | (from > 0 ? std::ios::app : std::ios::trunc));
  std::vector<char> bytes(kCopyBytes);
  while (const std::size_t got = file->read(bytes)) {
    out.write(bytes.data(), static_cast<std::streamsize>(got));
  }
  out.close();
  if (!out) throw ResourceExhausted("{} cannot be written", copy.string());
}

bool is_inside_of(const Path& path, const Path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

StoreMirror::StoreMirror(Path remote, const Path& cache, std::chrono::milliseconds pause)
    : remote_(std::move(remote)), pause_(pause) {
  const auto status = file_system_for(remote_).status(remote_);
  if (!status || !status->is_directory) {
    throw NotFound("--logdir: there is no folder {}", remote_.string());
  }
  const Path own = cache / sha256_hex(remote_.string()).substr(0, kHashLetters);
  fs::create_directories(own / name_of_remote(remote_));
  folder_ = fs::canonical(own / name_of_remote(remote_));
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void StoreMirror::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto begin = Clock::now();
    try {
      look(stop);
      if (!std::exchange(problem_, {}).empty()) log::info("{} answers again", remote_.string());
    } catch (const std::exception&) {
      const Description failure = describe(std::current_exception());
      if (std::exchange(problem_, failure.message) != failure.message) {
        log::warning("{} is not up to date: {}", remote_.string(), failure.message);
      }
    }
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    nap(stop, std::max(pause_, kLeastPauses * took));
  }
}

void StoreMirror::look(const std::stop_token& stop) {
  seen_.clear();
  look_at({}, 0, stop);
  if (!stop.stop_requested()) remove_gone();
}

void StoreMirror::look_at(const Path& below, int depth, const std::stop_token& stop) {
  FileSystem& files = file_system_for(remote_);
  const Path place = below.empty() ? remote_ : remote_ / below;
  for (const std::string& name : files.list(place)) {
    if (stop.stop_requested() || seen_.size() >= kMostMirroredFiles) return;
    if (!is_plain_name(name)) continue;
    const bool is_file = is_event_file(name) || is_json(name);
    if (!is_file && !may_hold_runs(name)) continue;
    const auto status = files.status(place / name);
    if (!status) continue;
    if (status->is_directory && depth < kDeepestMirrored) {
      look_at(below / name, depth + 1, stop);
    } else if (is_file && !status->is_directory) {
      seen_.insert(below / name);
      copy(below / name, *status);
    }
  }
}

void StoreMirror::copy(const Path& below, const FileStatus& status) {
  const auto known = copied_.find(below);
  const bool is_known = known != copied_.end();
  if (is_known && known->second.bytes == status.size_bytes &&
      known->second.modified_ns == status.modified_ns) {
    return;
  }
  const Path own = folder_ / below;
  fs::create_directories(own.parent_path());
  std::error_code error;
  const std::uint64_t here = fs::exists(own, error) ? fs::file_size(own, error) : 0;
  if (is_json(below.filename().string())) {
    write_file_atomically(own, read_file(remote_ / below, kMostMirroredJson), /*durable=*/false);
  } else if (status.size_bytes != here) {
    // One that is shorter than its copy is another file.
    append_rest(remote_ / below, own, status.size_bytes < here ? 0 : here);
  }
  copied_[below] = {.bytes = status.size_bytes, .modified_ns = status.modified_ns};
}

void StoreMirror::remove_gone() {
  std::error_code error;
  std::vector<Path> gone;
  for (fs::recursive_directory_iterator it(folder_, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!it->is_regular_file(error) || (!is_event_file(name) && !is_json(name))) continue;
    const Path below = it->path().lexically_relative(folder_);
    if (!seen_.contains(below)) gone.push_back(below);
  }
  for (const Path& below : gone) {
    fs::remove(folder_ / below, error);
    copied_.erase(below);
    // Folders without files go too.
    for (Path folder = (folder_ / below).parent_path();
         folder != folder_ && fs::is_empty(folder, error) && fs::remove(folder, error);) {
      folder = folder.parent_path();
    }
  }
}

StoreMirrors::StoreMirrors(std::vector<Path> folders, const StoreMirrorOptions& options)
    : folders_(std::move(folders)) {
  for (Path& folder : folders_) {
    if (!is_remote(folder) || options.cache.empty()) continue;
    mirrors_.push_back(std::make_unique<StoreMirror>(folder, options.cache, options.pause));
    folder = mirrors_.back()->folder();
  }
}

Path StoreMirrors::original_of(const Path& folder) const {
  for (const auto& mirror : mirrors_) {
    if (!is_inside_of(folder, mirror->folder())) continue;
    const Path below = folder.lexically_relative(mirror->folder());
    return below == "." ? mirror->remote() : mirror->remote() / below;
  }
  return folder;
}

}  // namespace muster::console
