#include "muster/platform/stores/hdfs_file_system.h"

#include <fmt/core.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/platform/stores/cached_ranges.h"
#include "muster/platform/stores/hdfs_api.h"
#include "muster/platform/stores/hdfs_claim_objects.h"
#include "muster/platform/stores/held_claims.h"
#include "muster/platform/stores/range_file.h"

namespace muster::stores {
namespace {

/// Most bytes that are held because they could not be sent.
constexpr std::size_t kMostHeldBytes = std::size_t{64} << 20;

/// A file that is sent piece by piece, one on its way while the next is filled. Others see as much
/// as was sent; sync() and close() send the rest.
class HdfsFile : public WritableFile {
 public:
  /// `appends`: after what is there, by any writer.
  HdfsFile(std::shared_ptr<HdfsApi> api, std::string path, std::shared_ptr<Transfers> transfers,
           Permit permit, bool appends)
      : api_(std::move(api)),
        path_(std::move(path)),
        transfers_(std::move(transfers)),
        permit_(std::move(permit)),
        appends_(appends) {}

  ~HdfsFile() override {
    try {
      close();
    } catch (const Error& error) {
      log::error("{} is incomplete: {}", api_->shown(path_), error.what());
    }
  }

  void write(std::string_view bytes) override {
    if (closed_) throw FailedPrecondition("{} is closed: nothing can be written", path_);
    piece_.append(bytes);
    if (piece_.size() < api_->part_bytes()) return;
    settle();
    // Bytes that could not be sent are kept: sync() and close() try again.
    if (failure_ && piece_.size() > kMostHeldBytes) std::rethrow_exception(failure_);
    if (!failure_) start();
  }

  void sync() override {
    settle();
    if (!piece_.empty()) start();
    settle();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void close() override {
    if (closed_) return;
    if (piece_.empty() && !was_started_ && !appends_) start();  // It is there, and empty.
    sync();
    closed_ = true;
  }

 private:
  // Waits for what is on its way. Bytes that did not come through are again the first to go.
  void settle() {
    if (!in_flight_.valid()) return;
    try {
      in_flight_.get();
      was_tried_ = false;
    } catch (...) {
      failure_ = std::current_exception();
      piece_.insert(0, sending_);
      was_tried_ = true;
    }
    sending_.clear();
  }

  void start() {
    settle();
    permit_();
    failure_ = nullptr;
    was_started_ = true;
    sending_ = std::exchange(piece_, {});
    in_flight_ = transfers_->run([this] { transmit(); });
  }

  // In another thread, of which there is one at a time.
  void transmit() {
    if (!size_ && !appends_) {
      api_->create(path_, sending_);
      size_ = sending_.size();
      return;
    }
    bool was_tried = was_tried_;
    if (appends_ && !was_tried) {
      const auto found = api_->status(path_);
      size_ = found ? found->status.size_bytes : 0;
      if (!found) {
        try {
          api_->create_new(path_, sending_);
          size_ = sending_.size();
          return;
        } catch (const AlreadyExists&) {  // By another writer, or a call whose answer was lost.
          was_tried = true;
        }
      }
    }
    api_->append(path_, size_.value_or(0), sending_, was_tried);
    size_ = size_.value_or(0) + sending_.size();
  }

  const std::shared_ptr<HdfsApi> api_;
  const std::string path_;
  const std::shared_ptr<Transfers> transfers_;
  const Permit permit_;
  const bool appends_;
  std::string piece_;
  /// On its way: not touched here before it has come through or failed.
  std::string sending_;
  bool was_started_ = false;
  /// Whether some of the first bytes of the next piece may have come through.
  bool was_tried_ = false;
  bool closed_ = false;
  std::exception_ptr failure_;
  /// Size of the file; nothing before it was first written.
  std::optional<std::uint64_t> size_;
  std::future<void> in_flight_;
};

/// "hdfs://namenode:8020/path" in parts.
struct HdfsPath {
  std::string scheme{};
  std::string authority{};
  /// Begins with '/', and ends with none.
  std::string path{};

  std::string parent() const { return path.substr(0, path.rfind('/')); }
};

HdfsPath parse_hdfs_path(const Path& given) {
  const std::string& text = given.native();
  const auto end = text.find("://");
  if (end == std::string::npos) throw InvalidArgument("{} is no path of HDFS", text);
  HdfsPath parts{.scheme = text.substr(0, end)};
  const auto slash = std::min(text.find('/', end + 3), text.size());
  parts.authority = text.substr(end + 3, slash - end - 3);
  for (std::size_t at = slash; at < text.size();) {
    const auto next = std::min(text.find('/', at + 1), text.size());
    const std::string part = text.substr(at, next - at);
    if (part != "/") parts.path += part;
    at = next;
  }
  if (parts.path.empty()) parts.path = "/";
  return parts;
}

class HdfsFileSystem : public SharedFileSystem {
 public:
  HdfsFileSystem(std::function<HdfsSettings()> settings, std::shared_ptr<Transfers> transfers,
                 const std::optional<ClaimOptions>& claims, std::shared_ptr<DiskCache> cache)
      : settings_(std::move(settings)),
        transfers_(std::move(transfers)),
        claim_options_(claims),
        cache_(std::move(cache)) {}

  std::unique_ptr<ReadableFile> open(const Path& path) override {
    return open_ranges(fetch_of(path), transfers_, {.range_bytes = at(path).api->part_bytes()});
  }

  std::shared_ptr<const MappedFile> map(const Path& path, Access) override {
    return map_ranges(fetch_of(path), *transfers_, {.range_bytes = at(path).api->part_bytes()});
  }

  std::unique_ptr<WritableFile> create(const Path& path) override { return file(path, false); }
  std::unique_ptr<WritableFile> append(const Path& path) override { return file(path, true); }
  std::unique_ptr<WritableFile> create_growing(const Path& path) override { return create(path); }

  std::optional<FileStatus> status(const Path& path) override {
    const Place place = at(path);
    const auto entry = place.api->status(place.path);
    return entry ? std::optional(entry->status) : std::nullopt;
  }

  std::vector<std::string> list(const Path& folder) override {
    const Place place = at(folder);
    std::vector<std::string> names;
    for (const HdfsEntry& entry : place.api->list(place.path)) names.push_back(entry.name);
    std::ranges::sort(names);
    return names;
  }

  void create_directories(const Path& folder) override {
    const Place place = at(folder);
    place.api->make_directories(place.path);
  }

  void remove(const Path& path) override {
    const Place place = at(path);
    place.api->remove(place.path, /*all=*/false);
  }

  void remove_all(const Path& path) override {
    const Place place = at(path);
    if (place.path == "/") throw InvalidArgument("{} is all of a file system", path.string());
    place.api->remove(place.path, /*all=*/true);
  }

  void rename(const Path& from, const Path& to) override {
    const Place source = at(from);
    const Place target = at(to);
    if (source.api != target.api) {
      throw InvalidArgument("renaming {} to {}: these are two file systems", from.string(),
                            to.string());
    }
    target.permit();
    source.api->rename(source.path, target.path);
  }

  void sync_directory(const Path&) override {}

  std::shared_ptr<void> claim(const Path& folder) override {
    const Place place = at(folder);
    auto claim = std::make_shared<ObjectClaim>(
        std::make_shared<HdfsClaimObjects>(place.api),
        ObjectName{.key = place.path + "/" + ObjectClaim::kObjectName}, folder.string(),
        claim_options_ ? *claim_options_ : ClaimOptions::from_environment());
    // Removes files of processes that were killed, or refused just now.
    const std::string litter = std::string(ObjectClaim::kObjectName) + HdfsClaimObjects::kOnTheWay;
    for (const HdfsEntry& entry : place.api->list(place.path)) {
      if (entry.name.starts_with(litter)) place.api->remove(place.path + "/" + entry.name, false);
    }
    claims_.add(place.api->shown(place.path), claim);
    return claim;
  }

 private:
  /// Place that a path leads to.
  struct Place {
    std::shared_ptr<HdfsApi> api{};
    std::string path{};
    /// For files directly in the folder of the path.
    Permit permit{};
  };

  Place at(const Path& path) {
    const HdfsPath parts = parse_hdfs_path(path);
    const std::shared_ptr<HdfsApi> api = api_of(parts);
    return {api, parts.path, claims_.permit_for(api->shown(parts.parent()))};
  }

  std::shared_ptr<HdfsApi> api_of(const HdfsPath& parts) {
    const std::string shown = parts.scheme + "://" + parts.authority;
    const std::lock_guard lock(mutex_);
    auto& api = apis_[shown];
    if (api == nullptr) {
      const HdfsSettings settings = settings_();
      api = std::make_shared<HdfsApi>(settings,
                                      namenodes_of(settings, parts.scheme, parts.authority), shown);
    }
    return api;
  }

  std::unique_ptr<WritableFile> file(const Path& path, bool appends) {
    Place place = at(path);
    return std::make_unique<HdfsFile>(place.api, place.path, transfers_, std::move(place.permit),
                                      appends);
  }

  // The status is asked for after the bytes: while the file has the id that it had at first, they
  // are of that file.
  FetchRange fetch_of(const Path& path) {
    const Place place = at(path);
    FetchRange fetch = [api = place.api, name = place.path](
                           std::uint64_t offset, std::uint64_t length, const std::string& version,
                           const std::stop_token& stop) {
      const auto look = [&] {
        const auto entry = api->status(name);
        if (!entry) throw NotFound("reading {}: no such file", api->shown(name));
        if (entry->status.is_directory) {
          throw FailedPrecondition("reading {}: it is a folder", api->shown(name));
        }
        return *entry;
      };
      ObjectRange range;
      const HdfsEntry before = version.empty() ? look() : HdfsEntry{.file_id = version};
      if (version.empty()) length = std::min(length, before.status.size_bytes);
      if (length > 0) range.bytes = api->read(name, offset, length, stop);
      const HdfsEntry after = range.bytes.empty() ? before : look();
      if (after.file_id != before.file_id) {
        throw FailedPrecondition(
            "reading {}: it was replaced while it was read; read it from its beginning",
            api->shown(name));
      }
      range.info = {.size_bytes = before.status.size_bytes,
                    .modified_ns = before.status.modified_ns,
                    .version = before.file_id};
      return range;
    };
    if (cache_ == nullptr || !cache_->is_on()) return fetch;
    // A file that grows keeps its id.
    const auto look = [api = place.api, name = place.path]() -> std::optional<FileStamp> {
      const auto entry = api->status(name);
      if (!entry || entry->status.is_directory) return std::nullopt;
      return FileStamp{.info = {.size_bytes = entry->status.size_bytes,
                                .modified_ns = entry->status.modified_ns,
                                .version = entry->file_id},
                       .text = fmt::format("{}/{}", entry->file_id, entry->status.modified_ns)};
    };
    return cached_ranges(cache_, path.native(), look, std::move(fetch));
  }

  const std::function<HdfsSettings()> settings_;
  const std::shared_ptr<Transfers> transfers_;
  const std::optional<ClaimOptions> claim_options_;
  const std::shared_ptr<DiskCache> cache_;
  HeldClaims claims_;
  std::mutex mutex_;
  /// By scheme and authority.
  std::map<std::string, std::shared_ptr<HdfsApi>> apis_;
};

}  // namespace

std::shared_ptr<SharedFileSystem> make_hdfs_file_system(std::function<HdfsSettings()> settings,
                                                        std::shared_ptr<Transfers> transfers,
                                                        std::optional<ClaimOptions> claims,
                                                        std::shared_ptr<DiskCache> cache) {
  return std::make_shared<HdfsFileSystem>(std::move(settings), std::move(transfers), claims,
                                          std::move(cache));
}

}  // namespace muster::stores
