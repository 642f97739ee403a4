#include "muster/serving/core/response_cache.h"

#include <cstring>
#include <iterator>
#include <utility>

namespace muster::serving {
namespace {

// Bytes of an entry beside its key and its values: nodes of the list and the map.
constexpr std::size_t kEntryBytes = 256;

void append_number(std::uint64_t number, std::string& to) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  to.append(bytes, sizeof bytes);
}

// With its length in front, so that no two lists of texts are one.
void append_text(std::string_view text, std::string& to) {
  append_number(text.size(), to);
  to.append(text);
}

std::size_t bytes_held_by(const Tensors& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += kEntryBytes + name.size() + tensor.bytes.capacity();
    for (const std::string& text : tensor.strings) bytes += sizeof text + text.capacity();
  }
  return bytes;
}

}  // namespace

ResponseCache::Answer ResponseCache::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->answer;
}

void ResponseCache::drop(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

void ResponseCache::keep(const std::string& key, Answer answer) {
  const std::size_t bytes = kEntryBytes + key.size() + bytes_held_by(*answer);
  if (bytes > most_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;
  while (bytes_ + bytes > most_bytes_) {
    drop(std::prev(entries_.end()));
    ++evictions_;
  }
  entries_.push_front({.key = key, .answer = std::move(answer), .bytes = bytes});
  by_key_.emplace(entries_.front().key, entries_.begin());
  bytes_ += bytes;
}

void ResponseCache::forget(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->key.starts_with(prefix)) drop(entry);
    entry = next;
  }
}

ResponseCache::Counts ResponseCache::counts() const {
  const std::lock_guard lock(mutex_);
  return {.entries = entries_.size(), .bytes = bytes_, .evictions = evictions_};
}

CachedAnswers::CachedAnswers(std::shared_ptr<ResponseCache> cache) : cache_(std::move(cache)) {
  static std::atomic<std::uint64_t> next{0};
  append_number(next++, prefix_);
}

CachedAnswers::~CachedAnswers() { cache_->forget(prefix_); }

std::string CachedAnswers::key_of(std::string_view signature, const Tensors& inputs) const {
  std::string key = prefix_;
  append_text(signature, key);
  for (const auto& [name, tensor] : inputs) {
    append_text(name, key);
    append_number(static_cast<std::uint64_t>(tensor.dtype), key);
    append_number(tensor.shape.size(), key);
    for (const std::int64_t size : tensor.shape) {
      append_number(static_cast<std::uint64_t>(size), key);
    }
    append_text(tensor.bytes, key);
    append_number(tensor.strings.size(), key);
    for (const std::string& text : tensor.strings) append_text(text, key);
  }
  return key;
}

ResponseCache::Answer CachedAnswers::find(const std::string& key) {
  auto found = cache_->find(key);
  ++(found ? hits_ : misses_);
  return found;
}

void CachedAnswers::keep(const std::string& key, const Tensors& outputs) {
  cache_->keep(key, std::make_shared<const Tensors>(outputs));
}

}  // namespace muster::serving
