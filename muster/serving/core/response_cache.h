#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "muster/serving/core/servable.h"

namespace muster::serving {

/// A cache of answers of all models of a server, up to a limit of bytes. The least recently used
/// are evicted. Any thread may call all functions.
class ResponseCache {
 public:
  using Answer = std::shared_ptr<const Tensors>;

  /// Answers that are held now, and those that went to make room.
  struct Counts {
    std::size_t entries = 0;
    std::size_t bytes = 0;
    std::uint64_t evictions = 0;
  };

  explicit ResponseCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  ResponseCache(const ResponseCache&) = delete;
  ResponseCache& operator=(const ResponseCache&) = delete;

  /// Nothing if there is none.
  Answer find(const std::string& key);
  /// Keeps an answer, unless it is larger than the limit or the key has one.
  void keep(const std::string& key, Answer answer);
  /// Drops all whose keys begin so.
  void forget(std::string_view prefix);
  Counts counts() const;

 private:
  struct Entry {
    std::string key;
    Answer answer;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  void drop(Entries::iterator entry);

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  // The last one that was asked for first.
  Entries entries_{};
  std::unordered_map<std::string_view, Entries::iterator> by_key_{};
  std::size_t bytes_ = 0;
  std::uint64_t evictions_ = 0;
};

/// The part of a cache that one loaded version has, and no other: not the same number after a
/// reload either. What is in it goes with it.
class CachedAnswers {
 public:
  explicit CachedAnswers(std::shared_ptr<ResponseCache> cache);
  ~CachedAnswers();
  CachedAnswers(const CachedAnswers&) = delete;
  CachedAnswers& operator=(const CachedAnswers&) = delete;

  /// Requests with equal tensors have equal keys, in whichever protocol and form they came.
  std::string key_of(std::string_view signature, const Tensors& inputs) const;
  /// Counts a hit or a miss.
  ResponseCache::Answer find(const std::string& key);
  void keep(const std::string& key, const Tensors& outputs);

  std::uint64_t hits() const { return hits_.load(); }
  std::uint64_t misses() const { return misses_.load(); }

 private:
  std::shared_ptr<ResponseCache> cache_;
  std::string prefix_;
  std::atomic<std::uint64_t> hits_{0};
  std::atomic<std::uint64_t> misses_{0};
};

}  // namespace muster::serving
