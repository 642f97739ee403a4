#include "muster/platform/stores/cached_ranges.h"

#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "muster/base/error.h"

namespace muster::stores {
namespace {

class CachedRanges {
 public:
  CachedRanges(std::shared_ptr<DiskCache> cache, std::string name, LookAtFile look,
               FetchRange fetch)
      : cache_(std::move(cache)),
        name_(std::move(name)),
        look_(std::move(look)),
        fetch_(std::move(fetch)) {}

  ObjectRange fetch(std::uint64_t offset, std::uint64_t length, const std::string& version,
                    const std::stop_token& stop) {
    const bool is_first = version.empty();
    if (is_first) set_stamp(look_());
    const std::optional<FileStamp> stamp = this->stamp();
    if (!stamp) return fetch_(offset, length, version, stop);
    try {
      return fetch_stamped(*stamp, offset, length, stop);
    } catch (const FailedPrecondition&) {
      // Replaced since it was looked at: no byte of the old one has been read yet.
      if (!is_first) throw;
      set_stamp(std::nullopt);
      return fetch_(offset, length, "", stop);
    }
  }

 private:
  ObjectRange fetch_stamped(const FileStamp& stamp, std::uint64_t offset, std::uint64_t length,
                            const std::stop_token& stop) {
    const std::uint64_t size = stamp.info.size_bytes;
    const std::uint64_t wanted = std::min(length, size - std::min(offset, size));
    ObjectRange range{.info = stamp.info};
    if (wanted == 0) return range;
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}\n{}", name_, stamp.text, size, offset, wanted);
    if (auto bytes = cache_->get(key); bytes && bytes->size() == wanted) {
      range.bytes = std::move(*bytes);
      return range;
    }
    range.bytes = fetch_(offset, wanted, stamp.info.version, stop).bytes;
    if (range.bytes.size() == wanted) cache_->put(key, range.bytes);
    return range;
  }

  void set_stamp(std::optional<FileStamp> stamp) {
    const std::lock_guard lock(mutex_);
    stamp_ = std::move(stamp);
  }
  std::optional<FileStamp> stamp() {
    const std::lock_guard lock(mutex_);
    return stamp_;
  }

  const std::shared_ptr<DiskCache> cache_;
  const std::string name_;
  const LookAtFile look_;
  const FetchRange fetch_;
  std::mutex mutex_;
  std::optional<FileStamp> stamp_;
};

}  // namespace

FetchRange cached_ranges(std::shared_ptr<DiskCache> cache, std::string name, LookAtFile look,
                         FetchRange fetch) {
  const auto ranges = std::make_shared<CachedRanges>(std::move(cache), std::move(name),
                                                     std::move(look), std::move(fetch));
  return [ranges](std::uint64_t offset, std::uint64_t length, const std::string& version,
                  const std::stop_token& stop) {
    return ranges->fetch(offset, length, version, stop);
  };
}

}  // namespace muster::stores
