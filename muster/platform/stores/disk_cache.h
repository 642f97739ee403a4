#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/file_system.h"

namespace muster::stores {

struct DiskCacheOptions {
  /// Options of MUSTER_STORE_CACHE and MUSTER_STORE_CACHE_BYTES; nothing without the former.
  /// Throws InvalidArgument, naming the variable, for an invalid number.
  static std::optional<DiskCacheOptions> from_environment();

  Path folder{};
  /// Size limit for all processes that use the folder. Each may exceed it by 1/64 for a while.
  std::uint64_t most_bytes = std::uint64_t{10} << 30;
};

/// Ranges of files of stores, kept on a disk of this host for all processes that name the same
/// folder. What was not used for longest goes first. A file in it is whole or is not taken: names
/// appear by renaming, and a checksum is compared. It is never an error: where the disk is full, a
/// warning says so once, and the process continues without writing to it. Any thread may use it.
class DiskCache {
 public:
  /// Called once, when the cache is first asked; without options there is none.
  using MakeOptions = std::function<std::optional<DiskCacheOptions>()>;

  explicit DiskCache(MakeOptions make = DiskCacheOptions::from_environment);

  bool is_on();
  std::optional<std::string> get(const std::string& key);
  void put(const std::string& key, std::string_view bytes);

 private:
  const DiskCacheOptions* options();
  void write(const std::string& key, std::string_view bytes);
  void make_room(std::uint64_t bytes);
  void remove_oldest(std::uint64_t bytes);

  const MakeOptions make_;
  std::once_flag made_;
  std::optional<DiskCacheOptions> options_;
  std::mutex mutex_;
  /// Since the folder was looked through; nothing before it was.
  std::optional<std::uint64_t> written_;
  bool has_failed_ = false;
  std::uint64_t next_temporary_ = 0;
};

}  // namespace muster::stores
