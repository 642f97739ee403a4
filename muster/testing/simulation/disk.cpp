// The disks of simulated hosts: real files, of which a crash of the host leaves what was synced.
// Everything that is synced is copied beside the run's folder, by inode: bytes of files, and names
// of folders.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "muster/testing/simulation/world.h"

namespace muster::simulation {
namespace {

namespace fs = std::filesystem;

/// Calls of the scope are the system's own.
class Unsimulated {
 public:
  Unsimulated() : thread_(this_thread()) { set_this_thread(-1); }
  ~Unsimulated() { set_this_thread(thread_); }
  Unsimulated(const Unsimulated&) = delete;
  Unsimulated& operator=(const Unsimulated&) = delete;

 private:
  const int thread_;
};

fs::path kept_folder() { return world().kept_folder.data(); }

ino_t inode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

fs::path kept(ino_t inode) { return kept_folder() / std::to_string(inode); }

void copy_over(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
}

// Names and inodes, in the order of names.
std::map<std::string, ino_t> entries_of(const fs::path& folder) {
  std::map<std::string, ino_t> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    entries[entry.path().filename().string()] = inode_of(entry.path());
  }
  return entries;
}

std::map<std::string, ino_t> kept_entries(ino_t folder) {
  std::map<std::string, ino_t> entries;
  std::ifstream file(kept(folder));
  ino_t inode = 0;
  for (std::string name; file >> inode && file.get() && std::getline(file, name);) {
    entries[name] = inode;
  }
  return entries;
}

void keep_folder(const fs::path& folder, ino_t inode) {
  std::ofstream file(kept(inode));
  for (const auto& [name, entry] : entries_of(folder)) file << entry << ' ' << name << '\n';
}

/// Paths of this folder and all below it, by inode.
void find_inodes(const fs::path& folder, std::map<ino_t, fs::path>& paths) {
  for (const auto& [name, inode] : entries_of(folder)) {
    paths[inode] = folder / name;
    if (fs::is_directory(folder / name)) find_inodes(folder / name, paths);
  }
}

// Somewhere after what was synced.
void cut_short(const fs::path& path, std::uintmax_t synced) {
  const auto size = fs::file_size(path);
  if (size > synced) fs::resize_file(path, synced + draw_below(size - synced + 1));
}

/// Makes anew, elsewhere, the part of a folder that a crash leaves.
class Remains {
 public:
  explicit Remains(const fs::path& folder) { find_inodes(folder, live_); }

  void make(const fs::path& from, ino_t inode, const fs::path& to) {
    fs::create_directories(to);
    // The system may have written the names down by itself.
    const bool is_newer = !from.empty() && draw_below(2) == 0;
    for (const auto& [name, entry] : is_newer ? entries_of(from) : kept_entries(inode)) {
      const auto live = live_.find(entry);
      const fs::path path = live == live_.end() ? fs::path() : live->second;
      if (is_folder(entry, path)) {
        make(path, entry, to / name);
      } else {
        make_file(path, entry, to / name);
      }
    }
  }

 private:
  static bool is_folder(ino_t inode, const fs::path& live) {
    return live.empty() ? fs::exists(kept(inode).string() + ".folder") : fs::is_directory(live);
  }

  // As it was synced; or as it was last, whole or torn, where the system wrote it by itself.
  static void make_file(const fs::path& live, ino_t inode, const fs::path& to) {
    const bool is_kept = fs::exists(kept(inode));
    const std::uint64_t luck = draw_below(3);
    if (is_kept && (live.empty() || luck == 0 || same(live, kept(inode))))
      return copy_over(kept(inode), to);
    if (live.empty() || (!is_kept && luck == 0)) {
      std::ofstream(to).flush();
      return;
    }
    copy_over(live, to);
    if (luck == 1) cut_short(to, is_kept ? fs::file_size(kept(inode)) : 0);
  }

  static bool same(const fs::path& a, const fs::path& b) {
    std::ifstream x(a, std::ios::binary), y(b, std::ios::binary);
    return std::equal(std::istreambuf_iterator<char>(x), std::istreambuf_iterator<char>(),
                      std::istreambuf_iterator<char>(y), std::istreambuf_iterator<char>());
  }

  std::map<ino_t, fs::path> live_;
};

}  // namespace

void keep_synced(int descriptor) {
  if (world().kept_folder[0] == 0) return;
  const Unsimulated now;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return;
  const fs::path path = "/proc/self/fd/" + std::to_string(descriptor);
  if (S_ISDIR(status.st_mode)) {
    keep_folder(path, status.st_ino);
    std::ofstream(kept(status.st_ino).string() + ".folder").flush();
  } else if (S_ISREG(status.st_mode)) {
    copy_over(path, kept(status.st_ino));
  }
}

void lose_unsynced(const std::string& folder) {
  if (world().kept_folder[0] == 0 || !fs::exists(folder)) return;
  const fs::path made = folder + ".after-crash";
  Remains(folder).make(folder, inode_of(folder), made);
  fs::remove_all(folder);
  fs::rename(made, folder);
  // All that the crash has left is on the disk.
  std::map<ino_t, fs::path> left;
  find_inodes(folder, left);
  left[inode_of(folder)] = folder;
  for (const auto& [inode, path] : left) {
    if (fs::is_directory(path)) {
      keep_folder(path, inode);
      std::ofstream(kept(inode).string() + ".folder").flush();
    } else {
      copy_over(path, kept(inode));
    }
  }
}

}  // namespace muster::simulation
