#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// An object, or with an empty key a bucket.
struct ObjectName {
  std::string bucket{};
  std::string key{};
};

struct ObjectInfo {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  /// Version, which changes with the content: S3's ETag, Google's generation.
  std::string version{};
};

/// When a write is to fail instead.
struct Precondition {
  static Precondition none() { return {}; }
  static Precondition absent() { return {.must_be_absent = true}; }
  static Precondition unchanged(std::string version) { return {.version = std::move(version)}; }

  bool must_be_absent = false;
  /// The version that must still be there; empty: any.
  std::string version{};

  bool is_none() const { return !must_be_absent && version.empty(); }
};

/// A part of an object, and what is known of the whole.
struct ObjectRange {
  std::string bytes{};
  ObjectInfo info{};
};

struct ObjectPage {
  std::vector<std::pair<std::string, ObjectInfo>> objects{};
  /// Common prefixes of keys that continue after the delimiter; they end with it.
  std::vector<std::string> prefixes{};
  /// Where the next page begins; empty on the last.
  std::string next{};
};

/// An object in parts, not visible before complete(). Destroyed before, its parts are removed
/// from the store. Belongs to one thread; parts travel in others.
class ObjectUpload {
 public:
  virtual ~ObjectUpload() = default;
  /// Waits while too many parts are on their way. Throws what one of them failed of.
  virtual void add(std::string part) = 0;
  /// Throws as ObjectApi::put() does. Returns the version.
  virtual std::string complete(const Precondition& precondition) = 0;
};

/// Objects with versions, and writes with preconditions. Any thread may make the calls.
class VersionedObjects {
 public:
  virtual ~VersionedObjects() = default;

  /// Nothing where there is no such object.
  virtual std::optional<ObjectInfo> head(const ObjectName& name) = 0;
  /// Fewer bytes only at the end. Throws NotFound; FailedPrecondition when `version` is given and
  /// the object has another by now.
  virtual ObjectRange get(const ObjectName& name, std::uint64_t offset, std::uint64_t length,
                          const std::string& version, const std::stop_token& stop) = 0;
  /// Returns the version. Throws AlreadyExists where the object must be absent and is not, Aborted
  /// where another version is there than must be.
  virtual std::string put(const ObjectName& name, std::string_view bytes,
                          const Precondition& precondition) = 0;
  /// One that is not there is no error.
  virtual void remove(const ObjectName& name) = 0;
  /// A version as the store writes them that no object has, to see whether the store obeys
  /// preconditions. Empty where it is known to.
  virtual std::string impossible_version() const = 0;
};

/// Operations of an object store. Calls retry what is worth it. Any thread may make them.
class ObjectApi : public VersionedObjects {
 public:
  /// The precondition is that of complete(): some stores want it at the beginning, some at the end.
  virtual std::unique_ptr<ObjectUpload> begin_upload(const ObjectName& name,
                                                     const Precondition& precondition) = 0;
  /// The object with `tail` after it, without its own bytes being sent again: it has at least
  /// part_bytes(). Throws Aborted where it has another version.
  virtual std::string extend(const ObjectName& name, const std::string& version,
                             std::string_view tail) = 0;
  /// `delimiter` is empty or "/".
  virtual ObjectPage list(const ObjectName& prefix, const std::string& delimiter,
                          const std::string& from, int most) = 0;
  virtual void remove_all(const std::string& bucket, const std::vector<std::string>& keys) = 0;
  virtual void copy(const ObjectName& from, const ObjectName& to) = 0;
  /// Ends uploads of others whose keys begin so and have no '/' after, that began before
  /// `before_ns` (since 1970, the store's clock). Returns how many.
  virtual int abort_uploads(const ObjectName& prefix, std::int64_t before_ns) = 0;

  /// Bytes of one range of a read, and of one part of an upload.
  virtual std::uint64_t part_bytes() const = 0;

  /// The version of the object if these are its bytes, as one that we wrote has.
  std::optional<std::string> version_with(const ObjectName& name, std::string_view bytes);

 protected:
  /// The part of a ranged read that each store's own get() supplies.
  struct RangeRead {
    ObjectName name{};
    std::string what{};
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    /// Sends it, and again while the answer is flawed.
    std::function<HttpResponse(const HttpClient::IsFlawed&)> send{};
    /// Compares the whole of an object with its checksum: what is wrong, or nothing.
    std::function<std::string(const HttpResponse&)> flaw_of_whole{};
    /// Whether this answer says that the version asked for is no longer there.
    std::function<bool(const HttpResponse&)> is_replaced{};
    /// Throws what a refusal means.
    std::function<void(const HttpResponse&)> fail{};
    /// Where the answer tells the version.
    const char* version_header = "";
  };
  ObjectRange read_range(const RangeRead& read);
};

/// The CRC32C of some bytes as stores write it: four bytes, the highest first, in base64.
std::string crc32c_base64(std::string_view bytes);

/// The statuses that mean the same in every store: throws NotFound, PermissionDenied (with where
/// the credentials come from), Unavailable or FailedPrecondition.
[[noreturn]] void throw_refusal(const std::string& what, int status, const std::string& why,
                                std::string_view credentials);

/// Throws NotFound, saying that the bucket ("s3://NAME") is missing and not something in it. `why`
/// is what the store said.
[[noreturn]] void throw_no_bucket(const std::string& what, const std::string& bucket,
                                  const std::string& why);

/// Throws the error of a write whose precondition did not hold.
[[noreturn]] void throw_precondition(const std::string& what, const Precondition& precondition);

}  // namespace muster::stores
