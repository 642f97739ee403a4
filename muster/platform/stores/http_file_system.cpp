#include "muster/platform/stores/http_file_system.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <mutex>

#include "muster/base/error.h"
#include "muster/platform/stores/content_range.h"
#include "muster/platform/stores/range_file.h"

namespace muster::stores {
namespace {

constexpr std::chrono::minutes kReadTimeout{10};
/// Largest file from servers that send all of it whatever range is asked for.
constexpr std::uint64_t kMostWithoutRanges = std::uint64_t{1} << 30;

class HttpFileSystem : public FileSystem {
 public:
  HttpFileSystem(std::shared_ptr<Transfers> transfers, const RetryPolicy& retry)
      : transfers_(std::move(transfers)), retry_(retry) {}

  std::unique_ptr<ReadableFile> open(const Path& path) override {
    return open_ranges(fetch_of(path), transfers_);
  }
  std::shared_ptr<const MappedFile> map(const Path& path, Access) override {
    return map_ranges(fetch_of(path), *transfers_);
  }

  std::optional<FileStatus> status(const Path& path) override {
    const std::string what = "looking at " + loggable_url(path.native());
    const HttpResponse response = http()->send(
        what,
        [&](int) {
          return HttpRequest{.method = "HEAD", .url = path.native(), .follow_redirects = true};
        },
        retry_);
    if (response.status == 404 || response.status == 410) return std::nullopt;
    if (!response.is_success()) fail(what, response.status);
    FileStatus status{.modified_ns =
                          parse_http_date(response.header("last-modified")) * 1'000'000'000};
    const std::string length = response.header("content-length");
    std::from_chars(length.data(), length.data() + length.size(), status.size_bytes);
    return status;
  }

  std::unique_ptr<WritableFile> create(const Path& path) override { refuse(path, "written"); }
  std::unique_ptr<WritableFile> append(const Path& path) override { refuse(path, "written"); }
  std::vector<std::string> list(const Path& folder) override { refuse(folder, "listed"); }
  void create_directories(const Path& folder) override { refuse(folder, "written"); }
  void remove(const Path& path) override { refuse(path, "removed"); }
  void remove_all(const Path& path) override { refuse(path, "removed"); }
  void rename(const Path& from, const Path&) override { refuse(from, "renamed"); }
  void sync_directory(const Path&) override {}

 private:
  [[noreturn]] static void refuse(const Path& path, const char* verb) {
    throw Unimplemented("{} cannot be {}: http:// and https:// are for reading files",
                        loggable_url(path.native()), verb);
  }

  [[noreturn]] static void fail(const std::string& what, int status) {
    if (status == 404 || status == 410) throw NotFound("{}: status {}", what, status);
    if (status == 401 || status == 403) throw PermissionDenied("{}: status {}", what, status);
    if (is_worth_a_retry(status)) throw Unavailable("{}: status {}", what, status);
    throw FailedPrecondition("{}: status {}", what, status);
  }

  // A strong ETag pins the content; without one, Last-Modified does.
  static std::string version_of(const HttpResponse& response) {
    const std::string etag = response.header("etag");
    return !etag.empty() && !etag.starts_with("W/") ? etag : response.header("last-modified");
  }

  std::shared_ptr<HttpClient> http() {
    const std::lock_guard lock(mutex_);
    if (http_ == nullptr) http_ = std::make_shared<HttpClient>();
    return http_;
  }

  FetchRange fetch_of(const Path& path) {
    return [http = http(), retry = retry_, url = path.native()](
               std::uint64_t offset, std::uint64_t length, const std::string& version,
               const std::stop_token& stop) {
      return fetch(*http, retry, url, offset, length, version, stop);
    };
  }

  static ObjectRange fetch(HttpClient& http, const RetryPolicy& retry, const std::string& url,
                           std::uint64_t offset, std::uint64_t length, const std::string& version,
                           const std::stop_token& stop) {
    const std::string what = "reading " + loggable_url(url);
    std::string flaw;
    HttpResponse response = http.send(
        what,
        [&](int) {
          return HttpRequest{
              .url = url,
              .headers = {{"Range", fmt::format("bytes={}-{}", offset, offset + length - 1)}},
              .most_answer_bytes = kMostWithoutRanges,
              .expected_answer_bytes = length,
              .timeout = kReadTimeout,
              .follow_redirects = true};
        },
        retry, stop,
        [&](const HttpResponse& answer) {
          flaw = flaw_of_range(answer, offset, length);
          return !flaw.empty();
        });
    if (response.status == 416) {
      const auto range = parse_content_range(response.header("content-range"));
      if (range) return {.info = {.size_bytes = range->total}};
    }
    if (!response.is_success()) fail(what, response.status);
    if (!flaw.empty()) throw DataLoss("{}: {}", what, flaw);
    if (!version.empty() && version_of(response) != version) {
      throw FailedPrecondition("{}: it was replaced while it was read; read it from its beginning",
                               what);
    }
    const ObjectInfo info{.size_bytes = whole_bytes(response), .version = version_of(response)};
    return {.bytes = take_range(std::move(response), offset, length), .info = info};
  }

  const std::shared_ptr<Transfers> transfers_;
  const RetryPolicy retry_;
  std::mutex mutex_;
  std::shared_ptr<HttpClient> http_;
};

}  // namespace

std::shared_ptr<FileSystem> make_http_file_system(std::shared_ptr<Transfers> transfers,
                                                  RetryPolicy retry) {
  return std::make_shared<HttpFileSystem>(std::move(transfers), retry);
}

}  // namespace muster::stores
