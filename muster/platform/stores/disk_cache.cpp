#include "muster/platform/stores/disk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/open_file.h"
#include "muster/base/sha256.h"
#include "muster/platform/stores/environment_variables.h"
#include "muster/platform/stores/large_buffer.h"

namespace muster::stores {
namespace {

/// After the bytes of every file: their number and their checksum.
struct CacheTrailer {
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  char magic[4] = {'m', 'r', 'c', '1'};
};
static_assert(sizeof(CacheTrailer) == 16);

constexpr const char* kTemporary = "tmp-";
constexpr const char* kEnding = ".range";
/// A temporary file of this age belongs to a process that was killed.
constexpr std::time_t kOldTemporarySeconds = 3600;
/// How much of the limit a process writes before it looks what others have written.
constexpr std::uint64_t kLooks = 64;

struct CacheEntry {
  std::string name{};
  std::uint64_t bytes = 0;
  timespec used{};
};

bool is_older(const CacheEntry& a, const CacheEntry& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

// Files that can be removed; adds their sizes to `total`.
std::vector<CacheEntry> entries_of(const Path& folder, std::uint64_t& total) {
  std::vector<CacheEntry> entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (open == nullptr) throw_errno(errno, "listing " + folder.string());
  const std::time_t now = std::time(nullptr);
  while (const dirent* const found = ::readdir(open.get())) {
    const std::string name = static_cast<const char*>(found->d_name);
    struct stat status {};
    const Path path = folder / name;
    if (::lstat(path.c_str(), &status) != 0) continue;
    if (!S_ISREG(status.st_mode)) continue;
    const bool is_left =
        name.starts_with(kTemporary) && now - status.st_mtim.tv_sec > kOldTemporarySeconds;
    if (is_left) ::unlink(path.c_str());
    if (!name.ends_with(kEnding)) continue;
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    total += bytes;
    entries.push_back({name, bytes, status.st_mtim});
  }
  return entries;
}

Path path_of(const Path& folder, const std::string& key) {
  return folder / (sha256_hex(key) + kEnding);
}

bool read_all(int descriptor, std::span<char> out) {
  while (!out.empty()) {
    const auto count = ::read(descriptor, out.data(), out.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// Takes the trailer off. False where it does not fit the bytes, as after a crash of the machine.
bool take_trailer(std::string& file) {
  CacheTrailer trailer;
  std::memcpy(&trailer, file.data() + file.size() - sizeof trailer, sizeof trailer);
  file.resize(file.size() - sizeof trailer);
  return std::ranges::equal(trailer.magic, CacheTrailer{}.magic) && trailer.size == file.size() &&
         trailer.crc == crc32c(file);
}

}  // namespace

std::optional<DiskCacheOptions> DiskCacheOptions::from_environment() {
  DiskCacheOptions options{.folder = variable("MUSTER_STORE_CACHE")};
  if (options.folder.empty()) return std::nullopt;
  options.most_bytes = static_cast<std::uint64_t>(
      number_variable("MUSTER_STORE_CACHE_BYTES", static_cast<std::int64_t>(options.most_bytes),
                      std::int64_t{1} << 20, std::int64_t{1} << 50));
  return options;
}

DiskCache::DiskCache(MakeOptions make) : make_(std::move(make)) {}

const DiskCacheOptions* DiskCache::options() {
  std::call_once(made_, [this] { options_ = make_(); });
  return options_ ? &*options_ : nullptr;
}

bool DiskCache::is_on() { return options() != nullptr; }

std::optional<std::string> DiskCache::get(const std::string& key) {
  const DiskCacheOptions* const given = options();
  if (given == nullptr) return std::nullopt;
  try {
    const OpenFile file(path_of(given->folder, key), O_RDONLY | O_NOFOLLOW);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return std::nullopt;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size < sizeof(CacheTrailer) || size > given->most_bytes) return std::nullopt;
    std::string bytes;
    reserve_large(bytes, size);
    bytes.resize(size);
    if (!read_all(file.get(), bytes) || !take_trailer(bytes)) {
      ::unlink(file.path().c_str());
      return std::nullopt;
    }
    ::futimens(file.get(), nullptr);  // Used now.
    return bytes;
  } catch (const Error&) {  // Not there, or not readable: both are had from the store.
    return std::nullopt;
  }
}

void DiskCache::put(const std::string& key, std::string_view bytes) {
  const DiskCacheOptions* const given = options();
  if (given == nullptr || bytes.size() > given->most_bytes / 4) return;
  {
    const std::lock_guard lock(mutex_);
    if (has_failed_) return;
  }
  try {
    make_room(bytes.size() + sizeof(CacheTrailer));
    write(key, bytes);
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_failed_, true)) return;
    log::warning(
        "the cache of stores takes no more, going on without it; make room, or name another folder "
        "in MUSTER_STORE_CACHE: {}",
        error.what());
  }
}

void DiskCache::write(const std::string& key, std::string_view bytes) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_temporary_++;
  }
  // The address tells two caches of one process apart.
  const Path temporary = options_->folder / fmt::format("{}{}-{}-{}", kTemporary, ::getpid(),
                                                        static_cast<const void*>(this), number);
  try {
    const OpenFile file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    const CacheTrailer trailer{.size = bytes.size(), .crc = crc32c(bytes)};
    file.write(bytes);
    file.write({reinterpret_cast<const char*>(&trailer), sizeof trailer});
    if (::rename(temporary.c_str(), path_of(options_->folder, key).c_str()) != 0) {
      throw_errno(errno, "renaming " + temporary.string());
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void DiskCache::make_room(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  // Cached data may be secret, but a folder that was there is others' too.
  if (!written_ && ::access(options_->folder.c_str(), F_OK) != 0) {
    file_system_for(options_->folder).create_directories(options_->folder);
    ::chmod(options_->folder.c_str(), 0700);
  }
  if (!written_ || *written_ + bytes > options_->most_bytes / kLooks) {
    remove_oldest(bytes);
    written_ = 0;
  }
  *written_ += bytes;
}

void DiskCache::remove_oldest(std::uint64_t bytes) {
  const OpenFile lock(options_->folder / "lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  // Another process removes: it leaves room for this one too.
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::uint64_t total = 0;
  auto entries = entries_of(options_->folder, total);
  if (total + bytes <= options_->most_bytes) return;
  std::ranges::sort(entries, is_older);
  const std::uint64_t target = options_->most_bytes - options_->most_bytes / 8;
  for (const CacheEntry& entry : entries) {
    if (total + bytes <= target) break;
    if (::unlink((options_->folder / entry.name).c_str()) == 0) total -= entry.bytes;
  }
}

}  // namespace muster::stores
