#include "muster/train/compiler/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/sha256.h"
#include "muster/base/thread_pool.h"

namespace muster::compiler {
namespace {

constexpr std::size_t kDigestLetters = 64;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

KernelCache::KernelCache(std::string folder) : folder_(std::move(folder)) {}

std::string KernelCache::default_folder() {
  if (std::getenv("MUSTER_KERNEL_CACHE") != nullptr) return variable("MUSTER_KERNEL_CACHE");
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) {
    return caches + "/muster/kernels";
  }
  const std::string home = variable("HOME");
  return home.empty() ? home : home + "/.cache/muster/kernels";
}

std::string KernelCache::file_of(std::string_view key) const {
  return folder_ + "/" + sha256_hex(key) + ".cubin";
}

std::optional<std::string> KernelCache::find(std::string_view key) const {
  if (folder_.empty()) return std::nullopt;
  const std::string file = file_of(key);
  try {
    if (!file_exists(file)) return std::nullopt;
    std::string all = read_file(file);
    const bool whole =
        all.size() > kDigestLetters && sha256_hex(std::string_view(all).substr(kDigestLetters)) ==
                                           std::string_view(all).substr(0, kDigestLetters);
    if (whole) return all.substr(kDigestLetters);
    log::warning("{} is damaged: the kernel is compiled again", file);
  } catch (const std::exception& error) {
    log::warning("the kernel cache {} cannot be read: {}", folder_, error.what());
  }
  return std::nullopt;
}

void KernelCache::keep(std::string_view key, std::string_view code) const {
  if (folder_.empty()) return;
  try {
    file_system_for(folder_).create_directories(folder_);
    write_file_atomically(file_of(key), sha256_hex(code) + std::string(code), /*durable=*/false);
  } catch (const std::exception& error) {
    log::warning("the kernel cache {} cannot be written: {}", folder_, error.what());
  }
}

void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex turn;
  std::exception_ptr failure;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(turn);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  const std::size_t most = ThreadPool::available_processors();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(count, most); ++i) threads.emplace_back(take);
    take();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace muster::compiler
