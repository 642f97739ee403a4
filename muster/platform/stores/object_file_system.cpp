#include "muster/platform/stores/object_file_system.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/path_below.h"
#include "muster/platform/stores/cached_ranges.h"
#include "muster/platform/stores/held_claims.h"
#include "muster/platform/stores/large_buffer.h"
#include "muster/platform/stores/list_pages.h"
#include "muster/platform/stores/range_file.h"

namespace muster::stores {
namespace {

constexpr int kMostAppendTries = 20;
/// Parts double after this many of one size, so that a large file has not too many.
constexpr int kPartsOfOneSize = 1000;
constexpr std::size_t kSmallFileBytes = std::size_t{64} << 10;

std::string folder_key(std::string key) {
  if (!key.empty() && !key.ends_with('/')) key.push_back('/');
  return key;
}

// The name of an entry in the folder whose keys begin with `prefix`.
std::string name_in_folder(const Path& folder, const std::string& prefix, std::string_view key) {
  if (!key.starts_with(prefix)) {
    throw DataLoss("listing {}: the store names \"{}\", which does not begin with \"{}\"",
                   folder.string(), key, prefix);
  }
  const std::string_view name = key.substr(prefix.size());
  std::string flaw = flaw_of_name_below(name);
  if (flaw.empty() && name.find('/') != std::string_view::npos) flaw = "it lies deeper";
  if (!flaw.empty()) {
    throw InvalidArgument(
        "listing {}: the store has a key \"{}\" there, of which \"{}\" can be no name of a file or "
        "folder: {}; remove or rename what has such keys",
        folder.string(), key, name, flaw);
  }
  return std::string(name);
}

/// A file that is whole or not there.
class UploadedFile : public WritableFile {
 public:
  UploadedFile(std::shared_ptr<ObjectApi> api, ObjectName name, Precondition precondition,
               Permit permit)
      : api_(std::move(api)),
        name_(std::move(name)),
        precondition_(std::move(precondition)),
        permit_(std::move(permit)),
        part_bytes_(api_->part_bytes()) {}

  void write(std::string_view bytes) override {
    if (closed_) throw FailedPrecondition("{} is closed: nothing can be written", name_.key);
    while (!bytes.empty()) {
      const std::size_t count = std::min<std::size_t>(bytes.size(), part_bytes_ - part_.size());
      // All at once for what is no small file: growing would copy it.
      if (part_.size() + count > kSmallFileBytes) reserve_large(part_, part_bytes_);
      part_.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      // Kept back until more comes: a file of one part is one request.
      if (part_.size() == part_bytes_ && !bytes.empty()) send_part();
    }
  }

  void sync() override {}

  void close() override {
    if (closed_) return;
    closed_ = true;
    permit_();
    if (upload_ == nullptr) {
      api_->put(name_, part_, precondition_);
    } else {
      upload_->add(std::move(part_));
      upload_->complete(precondition_);
      upload_.reset();
    }
  }

 private:
  void send_part() {
    if (upload_ == nullptr) upload_ = api_->begin_upload(name_, precondition_);
    upload_->add(std::exchange(part_, {}));
    if (++parts_ % kPartsOfOneSize == 0) part_bytes_ *= 2;
  }

  const std::shared_ptr<ObjectApi> api_;
  const ObjectName name_;
  const Precondition precondition_;
  const Permit permit_;
  std::size_t part_bytes_;
  std::string part_;
  int parts_ = 0;
  bool closed_ = false;
  // Destroyed without complete(), it removes its parts from the store.
  std::unique_ptr<ObjectUpload> upload_;
};

/// A file that others see as far as sync() was called: all of it is sent each time while it is
/// small, then only what is new.
class GrowingFile : public WritableFile {
 public:
  /// `appends`: after what is there, by any writer.
  GrowingFile(std::shared_ptr<ObjectApi> api, ObjectName name, Permit permit, bool appends)
      : api_(std::move(api)),
        name_(std::move(name)),
        permit_(std::move(permit)),
        appends_(appends) {}

  ~GrowingFile() override {
    try {
      close();
    } catch (const Error& error) {
      log::error("{} is incomplete: {}", name_.key, error.what());
    }
  }

  void write(std::string_view bytes) override {
    if (closed_) throw FailedPrecondition("{} is closed: nothing can be written", name_.key);
    tail_.append(bytes);
  }

  void sync() override {
    if (closed_ || (tail_.empty() && was_published_)) return;
    permit_();
    for (int tries = 1;; ++tries) {
      try {
        return publish();
      } catch (const Error& error) {
        const bool raced =
            error.code() == ErrorCode::kAborted || error.code() == ErrorCode::kAlreadyExists;
        if (!raced || !appends_ || tries >= kMostAppendTries) throw;
        base_.reset();  // Another writer has appended: after that.
      }
    }
  }

  void close() override {
    if (closed_) return;
    sync();
    closed_ = true;
  }

 private:
  /// Content of the object in the store, as far as it is known here.
  struct Base {
    /// Empty where there is no object.
    std::string version{};
    std::uint64_t size = 0;
    /// All of it, while it is small.
    std::string bytes{};
  };

  Base look() const {
    if (!appends_) return {};
    try {
      ObjectRange range = api_->get(name_, 0, api_->part_bytes(), "", {});
      return {.version = range.info.version,
              .size = range.info.size_bytes,
              .bytes = std::move(range.bytes)};
    } catch (const NotFound&) {
      return {};
    }
  }

  void publish() {
    if (!base_) base_ = look();
    std::string version;
    if (base_->size >= api_->part_bytes()) {
      version = api_->extend(name_, base_->version, tail_);
      base_->bytes.clear();
    } else {
      const Precondition must_be = !appends_ ? Precondition::none()
                                   : base_->version.empty()
                                       ? Precondition::absent()
                                       : Precondition::unchanged(base_->version);
      std::string all = base_->bytes + tail_;
      version = api_->put(name_, all, must_be);
      base_->bytes = std::move(all);
    }
    base_->size += tail_.size();
    base_->version = std::move(version);
    tail_.clear();
    was_published_ = true;
  }

  const std::shared_ptr<ObjectApi> api_;
  const ObjectName name_;
  const Permit permit_;
  const bool appends_;
  std::optional<Base> base_;
  std::string tail_;
  bool was_published_ = false;
  bool closed_ = false;
};

class ObjectFileSystem : public ObjectStore {
 public:
  ObjectFileSystem(std::string scheme, MakeObjectApi make_api, std::shared_ptr<Transfers> transfers,
                   const std::optional<ClaimOptions>& claims, std::shared_ptr<DiskCache> cache)
      : scheme_(std::move(scheme)),
        make_api_(std::move(make_api)),
        transfers_(std::move(transfers)),
        claim_options_(claims),
        cache_(std::move(cache)) {}

  std::unique_ptr<ReadableFile> open(const Path& path) override {
    return open_ranges(fetch_of(path), transfers_, ranges());
  }

  std::shared_ptr<const MappedFile> map(const Path& path, Access) override {
    return map_ranges(fetch_of(path), *transfers_, ranges());
  }

  std::unique_ptr<WritableFile> create(const Path& path) override {
    return uploaded(path, Precondition::none());
  }
  std::unique_ptr<WritableFile> create_new(const Path& path) override {
    return uploaded(path, Precondition::absent());
  }
  std::unique_ptr<WritableFile> create_growing(const Path& path) override {
    return std::make_unique<GrowingFile>(api(), new_name(path), permit_of(path), false);
  }
  std::unique_ptr<WritableFile> append(const Path& path) override {
    return std::make_unique<GrowingFile>(api(), new_name(path), permit_of(path), true);
  }

  std::optional<FileStatus> status(const Path& path) override {
    const ObjectName name = name_of(path);
    if (name.key.empty()) return bucket_status(name);
    if (const auto info = api()->head(name)) {
      return FileStatus{.size_bytes = info->size_bytes, .modified_ns = info->modified_ns};
    }
    const ObjectPage page = api()->list({name.bucket, folder_key(name.key)}, "", "", 1);
    if (page.objects.empty()) return std::nullopt;
    return FileStatus{.modified_ns = page.objects.front().second.modified_ns, .is_directory = true};
  }

  std::vector<std::string> list(const Path& folder) override {
    const ObjectName name = name_of(folder);
    const std::string prefix = folder_key(name.key);
    std::set<std::string> names;
    bool is_there = name.key.empty();
    for_each_page(*api(), {name.bucket, prefix}, "/", "listing " + folder.string(),
                  [&](const ObjectPage& page) {
                    is_there |= !page.objects.empty() || !page.prefixes.empty();
                    add_names(page, folder, prefix, names);
                  });
    if (!is_there) throw NotFound("listing {}: no such folder", folder.string());
    return {names.begin(), names.end()};
  }

  void create_directories(const Path& folder) override {
    const ObjectName name = name_of(folder);
    if (name.key.empty()) return;
    const std::string key = folder_key(new_name(folder).key);
    if (!api()->list({name.bucket, key}, "", "", 1).objects.empty()) return;
    api()->put({name.bucket, key}, "", Precondition::none());
  }

  void remove(const Path& path) override {
    const ObjectName name = file_name(path);
    if (api()->head(name)) return api()->remove(name);
    const ObjectPage page = api()->list({name.bucket, folder_key(name.key)}, "", "", 2);
    if (page.objects.empty()) return;
    if (page.objects.size() > 1 || page.objects.front().first != folder_key(name.key)) {
      throw FailedPrecondition("removing {}: the folder is not empty", path.string());
    }
    api()->remove({name.bucket, folder_key(name.key)});
  }

  void remove_all(const Path& path) override {
    const ObjectName name = file_name(path);
    std::vector<std::string> keys;
    if (api()->head(name)) keys.push_back(name.key);
    for_each_page(*api(), {name.bucket, folder_key(name.key)}, "", "listing " + path.string(),
                  [&](const ObjectPage& page) {
                    for (const auto& object : page.objects) keys.push_back(object.first);
                  });
    if (keys.size() == 1) return api()->remove({name.bucket, keys.front()});
    if (!keys.empty()) api()->remove_all(name.bucket, keys);
  }

  void rename(const Path& from, const Path& to) override {
    const ObjectName source = file_name(from);
    const ObjectName target = new_name(to);
    if (!api()->head(source)) {
      const auto found = status(from);
      if (!found) throw NotFound("renaming {}: no such file", from.string());
      throw Unimplemented(
          "renaming {}: a folder of an object store cannot be renamed in one step; "
          "copy it and remove it, as `muster fs mv` does",
          from.string());
    }
    permit_of(to)();
    api()->copy(source, target);
    api()->remove(source);
  }

  void sync_directory(const Path&) override {}

  std::shared_ptr<void> claim(const Path& folder) override {
    const ObjectName name = new_name(folder);
    const std::string prefix = folder_key(name.key);
    const ObjectName object{name.bucket, prefix + ObjectClaim::kObjectName};
    auto claim = std::make_shared<ObjectClaim>(
        api(), object, folder.string(),
        claim_options_ ? *claim_options_ : ClaimOptions::from_environment());
    remove_old_uploads({name.bucket, prefix}, object);
    claims_.add(name.bucket + "/" + prefix, claim);
    // An upload that was begun, and whose number got lost on its way here, goes with the claim.
    return std::shared_ptr<void>(nullptr, [this, claim, name, prefix, object](void*) mutable {
      remove_old_uploads({name.bucket, prefix}, object);
      claim.reset();
    });
  }

 private:
  static void add_names(const ObjectPage& page, const Path& folder, const std::string& prefix,
                        std::set<std::string>& names) {
    for (const auto& object : page.objects) {
      // The folder itself may be an object.
      if (object.first != prefix) names.insert(name_in_folder(folder, prefix, object.first));
    }
    for (std::string_view inner : page.prefixes) {
      if (inner.ends_with('/')) inner.remove_suffix(1);
      names.insert(name_in_folder(folder, prefix, inner));
    }
  }

  // Removes uploads of killed owners of the claim. No others write directly into the folder.
  void remove_old_uploads(const ObjectName& prefix, const ObjectName& claim) {
    try {
      const auto info = api()->head(claim);
      const int count = info ? api()->abort_uploads(prefix, info->modified_ns) : 0;
      if (count > 0) {
        log::info("removed what interrupted uploads have left folder={}://{}/{} uploads={}",
                  scheme_, prefix.bucket, prefix.key, count);
      }
    } catch (const Error& error) {
      log::info("uploads that were interrupted, if there are any, stay: {}", error.what());
    }
  }

  // Throws NotFound where there is no such bucket: "no such file" would not say so.
  FileStatus bucket_status(const ObjectName& name) {
    api()->list(name, "", "", 1);
    return FileStatus{.is_directory = true};
  }

  ObjectName name_of(const Path& path) const {
    std::string_view text = path.native();
    const std::string start = scheme_ + "://";
    if (text.starts_with(start)) text.remove_prefix(start.size());
    const auto slash = std::min(text.find('/'), text.size());
    ObjectName name{.bucket = std::string(text.substr(0, slash))};
    if (name.bucket.empty()) {
      throw InvalidArgument("{} names no bucket: {}BUCKET/KEY", path.string(), start);
    }
    text.remove_prefix(std::min(slash + 1, text.size()));
    while (text.starts_with('/')) text.remove_prefix(1);
    while (text.ends_with('/')) text.remove_suffix(1);
    name.key = text;
    return name;
  }

  ObjectName file_name(const Path& path) const {
    ObjectName name = name_of(path);
    if (name.key.empty()) {
      throw InvalidArgument("{} is a bucket, and a file or folder in one is needed", path.string());
    }
    return name;
  }

  // Name of an object to be written; throws for a name that no folder could list again.
  ObjectName new_name(const Path& path) const {
    ObjectName name = file_name(path);
    const std::string flaw = flaw_of_name_below(name.key);
    if (!flaw.empty()) {
      throw InvalidArgument("{} cannot be written: \"{}\" can be no name of a file: {}",
                            path.string(), name.key, flaw);
    }
    return name;
  }

  // Errors of the settings are thrown at every use.
  std::shared_ptr<ObjectApi> api() {
    const std::lock_guard lock(making_);
    if (api_ == nullptr) api_ = make_api_();
    return api_;
  }

  FetchRange fetch_of(const Path& path) {
    const auto api = this->api();
    const ObjectName name = file_name(path);
    FetchRange fetch = [api, name](std::uint64_t offset, std::uint64_t length,
                                   const std::string& version, const std::stop_token& stop) {
      return api->get(name, offset, length, version, stop);
    };
    if (cache_ == nullptr || !cache_->is_on()) return fetch;
    const auto look = [api, name]() -> std::optional<FileStamp> {
      const auto info = api->head(name);
      if (!info || info->version.empty()) return std::nullopt;
      return FileStamp{*info, info->version};
    };
    return cached_ranges(cache_, path.native(), look, std::move(fetch));
  }

  RangeOptions ranges() { return {.range_bytes = api()->part_bytes()}; }

  Permit permit_of(const Path& path) {
    const ObjectName name = file_name(path);
    const auto slash = name.key.rfind('/');
    const std::string folder =
        name.bucket + "/" + (slash == std::string::npos ? "" : name.key.substr(0, slash + 1));
    return claims_.permit_for(folder);
  }

  std::unique_ptr<WritableFile> uploaded(const Path& path, Precondition precondition) {
    return std::make_unique<UploadedFile>(api(), new_name(path), std::move(precondition),
                                          permit_of(path));
  }

  const std::string scheme_;
  const MakeObjectApi make_api_;
  std::mutex making_;
  std::shared_ptr<ObjectApi> api_;
  const std::shared_ptr<Transfers> transfers_;
  const std::optional<ClaimOptions> claim_options_;
  const std::shared_ptr<DiskCache> cache_;
  /// By bucket and folder.
  HeldClaims claims_;
};

}  // namespace

std::shared_ptr<ObjectStore> make_object_file_system(std::string scheme, MakeObjectApi make_api,
                                                     std::shared_ptr<Transfers> transfers,
                                                     std::optional<ClaimOptions> claims,
                                                     std::shared_ptr<DiskCache> cache) {
  return std::make_shared<ObjectFileSystem>(std::move(scheme), std::move(make_api),
                                            std::move(transfers), claims, std::move(cache));
}

}  // namespace muster::stores
