#include "muster/platform/stores/s3_api.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/platform/stores/list_pages.h"
#include "muster/platform/stores/s3_xml.h"

namespace muster::stores {
namespace {

constexpr std::chrono::minutes kDataTimeout{10};
constexpr std::size_t kMostDeletedAtOnce = 1000;
constexpr std::size_t kPartsInFlight = 4;
constexpr int kMostParts = 10'000;
constexpr const char* kCopyIfMatch = "x-amz-copy-source-if-match";
constexpr std::uint64_t kMostCopiedBytes = std::uint64_t{5} << 30;

using Query = std::vector<std::pair<std::string, std::string>>;

std::string shown(const ObjectName& name) {
  return printable(fmt::format("s3://{}/{}", name.bucket, name.key));
}

/// One request of the API.
struct S3Call {
  std::string what{};
  std::string method = "GET";
  ObjectName name{};
  Query query{};
  HttpHeaders headers{};
  std::string_view body{};
  std::uint64_t expected_bytes = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  HttpClient::IsFlawed is_flawed{};
  std::stop_token stop{};
};

std::string default_port_removed(const UrlParts& url) {
  const std::string port = url.scheme == "https" ? ":443" : ":80";
  return url.host.ends_with(port) ? url.host.substr(0, url.host.size() - port.size()) : url.host;
}

// Whether a host, with or without a port, is an address or a name of this host everywhere.
bool is_loopback(std::string_view host) {
  if (host.find('@') != std::string_view::npos) return false;
  if (host.starts_with("[::1]") || host == "localhost" || host.starts_with("localhost:")) {
    return true;
  }
  in_addr address{};
  const std::string name(host.substr(0, host.find(':')));
  return ::inet_pton(AF_INET, name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

std::string bare_etag(std::string_view etag) {
  std::string bare;
  for (const char c : etag) {
    if (c != '"') bare.push_back(c);
  }
  return bare;
}

// As headers have it: some stores have it bare in XML.
std::string quoted_etag(std::string_view etag) {
  return etag.starts_with('"') || etag.starts_with("W/") ? std::string(etag)
                                                         : fmt::format("\"{}\"", etag);
}

// An ETag of 32 hexadecimal letters is the content's MD5, unless a key of KMS or of the client
// encrypts it.
std::string md5_of_etag(const HttpResponse& response) {
  const std::string encryption = response.header("x-amz-server-side-encryption");
  if ((!encryption.empty() && encryption != "AES256") ||
      !response.header("x-amz-server-side-encryption-customer-algorithm").empty()) {
    return "";
  }
  std::string etag = bare_etag(response.header("etag"));
  const bool is_md5 =
      etag.size() == 32 && etag.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_md5 ? etag : "";
}

bool has_no_control(std::string_view key) {
  return std::ranges::none_of(key, [](unsigned char c) { return c < 0x20; });
}

bool verifies_etags() {
  const char* value = std::getenv("MUSTER_S3_VERIFY_ETAG");
  return value == nullptr || std::string_view(value) != "0";
}

// The ETag that S3 gives an object of parts, and that Ceph leaves out of its answer.
std::string etag_of_parts(const std::vector<S3Part>& parts) {
  std::string digests;
  for (const S3Part& part : parts) {
    const std::string digits = bare_etag(part.etag);
    if (digits.size() != 32) return "";
    for (std::size_t i = 0; i < digits.size(); i += 2) {
      unsigned value = 0;
      std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
      digests.push_back(static_cast<char>(value));
    }
  }
  return fmt::format("{}-{}", hex(md5(digests)), parts.size());
}

// In pieces that one copy can have, all of the same size: none is too small for a part.
std::vector<std::string> ranges_of(std::uint64_t size) {
  if (size <= kMostCopiedBytes) return {""};
  const std::uint64_t count = (size + kMostCopiedBytes - 1) / kMostCopiedBytes;
  const std::uint64_t piece = (size + count - 1) / count;
  std::vector<std::string> ranges;
  for (std::uint64_t at = 0; at < size; at += piece) {
    ranges.push_back(fmt::format("bytes={}-{}", at, std::min(size, at + piece) - 1));
  }
  return ranges;
}

// Bytes that came to the store as others than were sent.
bool was_damaged(const HttpResponse& response) {
  if (response.status != 400) return false;
  const std::string code = parse_s3_error(response.body).code;
  return code == "BadDigest" || code == "XAmzContentSHA256Mismatch";
}

class S3Api : public ObjectApi, public std::enable_shared_from_this<S3Api> {
 public:
  S3Api(S3Settings settings, std::shared_ptr<Transfers> transfers)
      : settings_(std::move(settings)),
        can_be_changed_on_its_way_(settings_.endpoint.starts_with("http://") &&
                                   !is_loopback(parse_url(settings_.endpoint).host)),
        transfers_(std::move(transfers)),
        http_(std::make_shared<HttpClient>(HttpClientOptions{
            .ca_file = settings_.ca_file, .verify_certificates = settings_.verify_certificates})),
        credentials_(http_, settings_.region) {}

  std::optional<ObjectInfo> head(const ObjectName& name) override;
  ObjectRange get(const ObjectName& name, std::uint64_t offset, std::uint64_t length,
                  const std::string& version, const std::stop_token& stop) override;
  std::string put(const ObjectName& name, std::string_view bytes,
                  const Precondition& precondition) override;
  std::unique_ptr<ObjectUpload> begin_upload(const ObjectName& name,
                                             const Precondition& precondition) override;
  std::string extend(const ObjectName& name, const std::string& version,
                     std::string_view tail) override;
  ObjectPage list(const ObjectName& prefix, const std::string& delimiter, const std::string& from,
                  int most) override;
  void remove(const ObjectName& name) override;
  void remove_all(const std::string& bucket, const std::vector<std::string>& all) override;
  void copy(const ObjectName& from, const ObjectName& to) override;
  int abort_uploads(const ObjectName& prefix, std::int64_t before_ns) override;
  std::uint64_t part_bytes() const override { return settings_.part_bytes; }
  std::string impossible_version() const override { return quoted_etag(std::string(32, '0')); }

  /// An upload that has begun.
  struct Started {
    std::string id{};
    /// Whether the store wants the CRC32C of each part; else it is given their MD5.
    bool has_checksums = false;
  };
  Started start_upload(const ObjectName& name, bool ask_for_checksums);
  S3Part send_part(const ObjectName& name, const Started& upload, int number,
                   std::string_view bytes);
  S3Part copy_part(const ObjectName& name, const std::string& id, int number,
                   const ObjectName& from, const std::string& version, const std::string& range);
  std::string complete_upload(const ObjectName& name, const std::string& id,
                              const std::vector<S3Part>& parts, const Precondition& precondition);
  void abort_upload(const ObjectName& name, const std::string& id);
  Transfers& transfers() { return *transfers_; }

 private:
  HttpResponse call(const S3Call& call);
  HttpResponse call_matching(S3Call call, const std::string& header, const ObjectName& object,
                             const std::string& version);
  HttpResponse call_if(S3Call call, const Precondition& precondition);
  HttpRequest request_of(const S3Call& call, const std::string& payload_hash);
  bool put_right(const S3Call& call, const HttpResponse& response, const S3Error& error);
  [[noreturn]] void fail(const S3Call& call, const HttpResponse& response) const;

  std::string region_of(const std::string& bucket) {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(bucket);
    return found == regions_.end() ? settings_.region : found->second;
  }

  const S3Settings settings_;
  /// Whether data can be changed in transit: sent neither by TLS nor to this host itself.
  const bool can_be_changed_on_its_way_;
  const std::shared_ptr<Transfers> transfers_;
  const std::shared_ptr<HttpClient> http_;
  S3CredentialSource credentials_;
  std::mutex mutex_;
  /// Regions by bucket, for buckets that turned out to be elsewhere.
  std::map<std::string, std::string> regions_;
  /// Seconds by which the store's clock is ahead of ours; 0 until a signature was refused for it.
  std::atomic<std::int64_t> clock_ahead_{0};
  /// Whether the store was found to refuse quoted ETags in preconditions.
  std::atomic<bool> takes_bare_etags_{false};
};

HttpRequest S3Api::request_of(const S3Call& call, const std::string& payload_hash) {
  const std::string region = region_of(call.name.bucket);
  const UrlParts endpoint =
      parse_url(settings_.endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com", region)
                                           : settings_.endpoint);
  const bool has_dot = call.name.bucket.find('.') != std::string::npos;
  const bool path_style = settings_.path_style.value_or(!settings_.endpoint.empty() || has_dot);
  std::string host = default_port_removed(endpoint);
  std::string path = endpoint.path == "/" ? "" : endpoint.path;
  if (path_style) {
    path += "/" + percent_encoded(call.name.bucket);
  } else {
    host = call.name.bucket + "." + host;
  }
  path += "/" + percent_encoded(call.name.key, /*keep_slashes=*/true);
  const std::string query = canonical_query(call.query);
  HttpRequest request{.method = call.method,
                      .url = fmt::format("{}://{}{}{}{}", endpoint.scheme, host, path,
                                         query.empty() ? "" : "?", query),
                      .headers = call.headers,
                      .body = call.body,
                      .expected_answer_bytes = call.expected_bytes,
                      .timeout = call.timeout};
  request.most_answer_bytes = std::max(request.most_answer_bytes, call.expected_bytes);
  const S3Credentials credentials = credentials_.current();
  if (credentials.is_anonymous()) return request;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  request.headers = sign_v4({.method = call.method,
                             .host = host,
                             .path = path,
                             .query = call.query,
                             .headers = call.headers,
                             .payload_hash = payload_hash},
                            credentials, region, now + clock_ahead_);
  return request;
}

// Corrects the cause of a refusal where it can: the region, the clock, a token.
bool S3Api::put_right(const S3Call& call, const HttpResponse& response, const S3Error& error) {
  std::string region = response.header("x-amz-bucket-region");
  if (region.empty()) region = error.region;
  const bool is_redirect = response.status == 301 || response.status == 307 ||
                           response.status == 400 || error.code == "AuthorizationHeaderMalformed";
  if (is_redirect && !region.empty() && region != region_of(call.name.bucket)) {
    log::info("bucket {} is in the region {}; set AWS_REGION to save a request", call.name.bucket,
              printable(region));
    const std::lock_guard lock(mutex_);
    regions_[call.name.bucket] = region;
    return true;
  }
  if (error.code == "RequestTimeTooSkewed") {
    const std::int64_t theirs = parse_http_date(response.header("date"));
    const std::int64_t ours = std::chrono::duration_cast<std::chrono::seconds>(
                                  std::chrono::system_clock::now().time_since_epoch())
                                  .count();
    if (theirs == 0 || std::abs(theirs - ours) < 60) return false;
    log::warning(
        "this machine's clock is {} s from the store's, which refuses signatures for it; going by "
        "the store's: put the clock right",
        ours - theirs);
    clock_ahead_ = theirs - ours;
    return true;
  }
  if (error.code == "ExpiredToken" || error.code == "InvalidToken") {
    credentials_.expire();
    return true;
  }
  return false;
}

// A request may be made twice without our knowing: libcurl sends it again when a kept connection
// turns out to be closed. A caller whose answer its own success may have caused (a precondition
// that does not hold, an upload that is gone) looks what is there.
HttpResponse S3Api::call(const S3Call& call) {
  const std::string payload_hash = settings_.signs_payloads.value_or(can_be_changed_on_its_way_)
                                       ? payload_sha256(call.body)
                                       : "UNSIGNED-PAYLOAD";
  for (int corrections = 0;; ++corrections) {
    HttpResponse response = http_->send(
        call.what, [&](int) { return request_of(call, payload_hash); }, settings_.retry, call.stop,
        call.is_flawed);
    if (response.is_success() || corrections == 3) return response;
    if (!put_right(call, response, parse_s3_error(response.body))) return response;
  }
}

void S3Api::fail(const S3Call& call, const HttpResponse& response) const {
  const S3Error error = parse_s3_error(response.body);
  std::string why = error.code.empty() ? fmt::format("status {}", response.status)
                                       : fmt::format("{}: {}", error.code, error.message);
  if (response.status == 412) {
    throw FailedPrecondition("{}: the object has changed meanwhile ({})", call.what, why);
  }
  if (error.code == "NoSuchBucket")
    throw_no_bucket(call.what, "s3://" + call.name.bucket, error.code);
  if (response.status == 301 || response.status == 307) {
    throw InvalidArgument("{}: the bucket is elsewhere ({}); set AWS_REGION or the endpoint",
                          call.what, why);
  }
  if (response.status == 501 || error.code == "NotImplemented") {
    throw Unimplemented("{}: this store cannot do that ({})", call.what, why);
  }
  throw_refusal(call.what, response.status, why, "AWS_ACCESS_KEY_ID, AWS_PROFILE, ...");
}

std::optional<ObjectInfo> S3Api::head(const ObjectName& name) {
  const S3Call head{.what = "looking at " + shown(name), .method = "HEAD", .name = name};
  const HttpResponse response = call(head);
  if (response.status == 404) return std::nullopt;
  if (!response.is_success()) fail(head, response);
  ObjectInfo info{.modified_ns = parse_http_date(response.header("last-modified")) * 1'000'000'000,
                  .version = response.header("etag")};
  const std::string length = response.header("content-length");
  std::from_chars(length.data(), length.data() + length.size(), info.size_bytes);
  return info;
}

ObjectRange S3Api::get(const ObjectName& name, std::uint64_t offset, std::uint64_t length,
                       const std::string& version, const std::stop_token& stop) {
  S3Call get{.what = "reading " + shown(name),
             .name = name,
             .headers = {{"Range", fmt::format("bytes={}-{}", offset, offset + length - 1)}},
             .expected_bytes = length,
             .timeout = kDataTimeout,
             .stop = stop};
  return read_range(
      {.name = name,
       .what = get.what,
       .offset = offset,
       .length = length,
       .send =
           [&](const HttpClient::IsFlawed& is_flawed) {
             get.is_flawed = is_flawed;
             return call_if(get, Precondition::unchanged(version));
           },
       .flaw_of_whole = [](const HttpResponse& response) -> std::string {
         const std::string digest = md5_of_etag(response);
         if (digest.empty() || !verifies_etags()) return "";
         if (hex(md5(response.body)) == digest) return "";
         return "the bytes do not match the object's MD5 (if the ETags of this store "
                "are no MD5s, set MUSTER_S3_VERIFY_ETAG=0)";
       },
       .is_replaced = [](const HttpResponse& response) { return response.status == 412; },
       .fail = [&](const HttpResponse& response) { fail(get, response); },
       .version_header = "etag"});
}

// A call for an object that still has this version. Ceph (16 and others) refuses writes whose ETag
// is quoted, as RFC 9110 wants it, also when it is the object's, and takes the bare one: so a
// refusal counts where the object has another version, or where both spellings are refused. Which
// one the store takes is remembered.
HttpResponse S3Api::call_matching(S3Call call, const std::string& header, const ObjectName& object,
                                  const std::string& version) {
  const bool bare = takes_bare_etags_;
  call.headers.emplace_back(header, bare ? bare_etag(version) : version);
  HttpResponse response = this->call(call);
  if (response.status != 412) return response;
  const auto info = head(object);
  if (!info || bare_etag(info->version) != bare_etag(version)) return response;
  call.headers.back().second = bare ? quoted_etag(version) : bare_etag(version);
  HttpResponse other = this->call(call);
  if (other.status == 412 || takes_bare_etags_.exchange(!bare) != bare) return other;
  log::info("this store refuses {} ETags in {} (as Ceph does); giving {} ones from now on",
            bare ? "bare" : "quoted", header, bare ? "quoted" : "bare");
  return other;
}

HttpResponse S3Api::call_if(S3Call call, const Precondition& precondition) {
  if (precondition.must_be_absent) call.headers.emplace_back("If-None-Match", "*");
  if (precondition.version.empty()) return this->call(call);
  const ObjectName name = call.name;
  return call_matching(std::move(call), "If-Match", name, precondition.version);
}

std::string S3Api::put(const ObjectName& name, std::string_view bytes,
                       const Precondition& precondition) {
  S3Call put{.what = "writing " + shown(name),
             .method = "PUT",
             .name = name,
             .headers = {{"Content-MD5", base64_encode(md5(bytes))}},
             .body = bytes,
             .timeout = kDataTimeout};
  // Two that write in one instant: the store cannot say yet which of them was first.
  put.is_flawed = [&](const HttpResponse& response) {
    return (response.status == 409 && !precondition.is_none()) || was_damaged(response);
  };
  const HttpResponse response = call_if(put, precondition);
  if (response.status == 412 || (response.status == 404 && !precondition.version.empty())) {
    // An answer that was lost on its way may have told of success.
    const auto version = response.status == 412 ? version_with(name, bytes) : std::nullopt;
    if (version) return *version;
    throw_precondition(put.what, precondition);
  }
  if (!response.is_success()) fail(put, response);
  return response.header("etag");
}

S3Api::Started S3Api::start_upload(const ObjectName& name, bool ask_for_checksums) {
  S3Call start{.what = "beginning the upload of " + shown(name),
               .method = "POST",
               .name = name,
               .query = {{"uploads", ""}}};
  if (ask_for_checksums) start.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
  const HttpResponse response = call(start);
  if (!response.is_success()) fail(start, response);
  // A store that does not know these checksums does not name the algorithm either.
  return {.id = parse_upload_id(response.body),
          .has_checksums =
              ask_for_checksums && response.header("x-amz-checksum-algorithm") == "CRC32C"};
}

S3Part S3Api::send_part(const ObjectName& name, const Started& upload, int number,
                        std::string_view bytes) {
  S3Part part;
  S3Call send{.what = fmt::format("writing part {} of {}", number, shown(name)),
              .method = "PUT",
              .name = name,
              .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload.id}},
              .body = bytes,
              .timeout = kDataTimeout,
              .is_flawed = was_damaged};
  if (upload.has_checksums) {
    part.crc32c = crc32c_base64(bytes);
    send.headers.emplace_back("x-amz-checksum-crc32c", part.crc32c);
  } else {
    send.headers.emplace_back("Content-MD5", base64_encode(md5(bytes)));
  }
  const HttpResponse response = call(send);
  if (!response.is_success()) fail(send, response);
  part.etag = response.header("etag");
  if (part.etag.empty()) throw DataLoss("{}: the answer has no ETag", send.what);
  return part;
}

S3Part S3Api::copy_part(const ObjectName& name, const std::string& id, int number,
                        const ObjectName& from, const std::string& version,
                        const std::string& range) {
  S3Call copy{.what = fmt::format("copying part {} of {}", number, shown(name)),
              .method = "PUT",
              .name = name,
              .query = {{"partNumber", std::to_string(number)}, {"uploadId", id}},
              .headers = {{"x-amz-copy-source", "/" + percent_encoded(from.bucket) + "/" +
                                                    percent_encoded(from.key, true)}},
              .timeout = kDataTimeout};
  if (!range.empty()) copy.headers.emplace_back("x-amz-copy-source-range", range);
  const HttpResponse response = call_matching(copy, kCopyIfMatch, from, version);
  if (response.status == 412) throw Aborted("{}: another writer has changed it", copy.what);
  S3Part part{.etag = parse_etag(response.body)};
  // A copy answers 200 before it is done, and may say in the body that it failed.
  if (!response.is_success() || part.etag.empty()) fail(copy, response);
  return part;
}

std::string S3Api::complete_upload(const ObjectName& name, const std::string& id,
                                   const std::vector<S3Part>& parts,
                                   const Precondition& precondition) {
  const std::string body = complete_upload_xml(parts);
  S3Call complete{.what = "completing the upload of " + shown(name),
                  .method = "POST",
                  .name = name,
                  .query = {{"uploadId", id}},
                  .headers = {{"Content-Type", "application/xml"}},
                  .body = body,
                  .timeout = kDataTimeout};
  complete.is_flawed = [](const HttpResponse& response) {
    const std::string code = parse_s3_error(response.body).code;
    return response.status == 200 && (code == "InternalError" || code == "SlowDown");
  };
  // Ceph completes whatever is there.
  if (precondition.must_be_absent && head(name)) throw_precondition(complete.what, precondition);
  const HttpResponse response = call_if(complete, precondition);
  const S3Error error = parse_s3_error(response.body);
  if (response.is_success() && error.code.empty()) {
    for (const std::string& etag :
         {parse_etag(response.body), response.header("etag"), etag_of_parts(parts)}) {
      if (!etag.empty()) return quoted_etag(etag);
    }
    throw DataLoss("{}: the answer has no ETag", complete.what);
  }
  // It may have been completed by a try whose answer was lost.
  if (error.code == "NoSuchUpload" || response.status == 404 || response.status == 412) {
    const auto info = head(name);
    if (info && bare_etag(info->version) == etag_of_parts(parts)) return info->version;
  }
  if (response.status == 412 || response.status == 409)
    throw_precondition(complete.what, precondition);
  fail(complete, response);
}

void S3Api::abort_upload(const ObjectName& name, const std::string& id) {
  const S3Call abort{.what = "aborting the upload of " + shown(name),
                     .method = "DELETE",
                     .name = name,
                     .query = {{"uploadId", id}}};
  const HttpResponse response = call(abort);
  if (!response.is_success() && response.status != 404) fail(abort, response);
}

std::string S3Api::extend(const ObjectName& name, const std::string& version,
                          std::string_view tail) {
  const auto info = head(name);
  if (!info || bare_etag(info->version) != bare_etag(version)) {
    throw Aborted("extending {}: another writer has changed it", shown(name));
  }
  // Without checksums: the object that is copied may have none.
  const Started upload = start_upload(name, /*ask_for_checksums=*/false);
  try {
    std::vector<S3Part> parts;
    for (const std::string& range : ranges_of(info->size_bytes)) {
      parts.push_back(
          copy_part(name, upload.id, static_cast<int>(parts.size()) + 1, name, version, range));
    }
    parts.push_back(send_part(name, upload, static_cast<int>(parts.size()) + 1, tail));
    return complete_upload(name, upload.id, parts, Precondition::unchanged(version));
  } catch (...) {
    abort_upload(name, upload.id);
    throw;
  }
}

ObjectPage S3Api::list(const ObjectName& prefix, const std::string& delimiter,
                       const std::string& from, int most) {
  S3Call list{.what = "listing " + shown(prefix),
              .name = {prefix.bucket, ""},
              .query = {{"list-type", "2"},
                        {"prefix", prefix.key},
                        {"max-keys", std::to_string(most)},
                        {"encoding-type", "url"}}};
  if (!delimiter.empty()) list.query.emplace_back("delimiter", delimiter);
  if (!from.empty()) list.query.emplace_back("continuation-token", from);
  const HttpResponse response = call(list);
  if (!response.is_success()) fail(list, response);
  S3Page page;
  try {
    page = parse_s3_page(response.body);
  } catch (Error& error) {
    error.add_context(list.what);
    throw;
  }
  ObjectPage result{.prefixes = std::move(page.prefixes), .next = std::move(page.next)};
  for (auto& object : page.objects) {
    result.objects.emplace_back(std::move(object.key),
                                ObjectInfo{object.size_bytes, object.modified_ns, object.etag});
  }
  return result;
}

void S3Api::remove(const ObjectName& name) {
  const S3Call remove{.what = "removing " + shown(name), .method = "DELETE", .name = name};
  const HttpResponse response = call(remove);
  if (!response.is_success() && response.status != 404) fail(remove, response);
}

void S3Api::remove_all(const std::string& bucket, const std::vector<std::string>& all) {
  // XML has no control characters.
  std::vector<std::string> keys = all;
  const auto unwritable = std::ranges::stable_partition(keys, has_no_control);
  for (const std::string& key : unwritable) remove({bucket, key});
  keys.erase(unwritable.begin(), unwritable.end());
  for (std::size_t first = 0; first < keys.size(); first += kMostDeletedAtOnce) {
    const std::size_t last = std::min(keys.size(), first + kMostDeletedAtOnce);
    const std::string body = delete_objects_xml({keys.begin() + static_cast<std::ptrdiff_t>(first),
                                                 keys.begin() + static_cast<std::ptrdiff_t>(last)});
    const S3Call remove{
        .what = fmt::format("removing {} objects of s3://{}", last - first, bucket),
        .method = "POST",
        .name = {bucket, ""},
        .query = {{"delete", ""}},
        .headers = {{"Content-MD5", base64_encode(md5(body))}, {"Content-Type", "application/xml"}},
        .body = body};
    const HttpResponse response = call(remove);
    if (!response.is_success()) fail(remove, response);
    const auto errors = parse_delete_errors(response.body);
    if (!errors.empty()) {
      throw PermissionDenied("{}: {} were refused, the first {}", remove.what, errors.size(),
                             errors.front());
    }
  }
}

void S3Api::copy(const ObjectName& from, const ObjectName& to) {
  const auto info = head(from);
  if (!info) throw NotFound("copying {}: no such object", shown(from));
  if (info->size_bytes > kMostCopiedBytes) {
    const std::string id = start_upload(to, /*ask_for_checksums=*/false).id;
    try {
      std::vector<S3Part> parts;
      for (const std::string& range : ranges_of(info->size_bytes)) {
        parts.push_back(
            copy_part(to, id, static_cast<int>(parts.size()) + 1, from, info->version, range));
      }
      complete_upload(to, id, parts, Precondition::none());
    } catch (...) {
      abort_upload(to, id);
      throw;
    }
    return;
  }
  const S3Call copy{.what = fmt::format("copying {} to {}", shown(from), shown(to)),
                    .method = "PUT",
                    .name = to,
                    .headers = {{"x-amz-copy-source", "/" + percent_encoded(from.bucket) + "/" +
                                                          percent_encoded(from.key, true)}},
                    .timeout = kDataTimeout};
  const HttpResponse response = call_matching(copy, kCopyIfMatch, from, info->version);
  if (response.status == 412) throw Aborted("{}: it has changed meanwhile", copy.what);
  if (!response.is_success() || parse_etag(response.body).empty()) fail(copy, response);
}

int S3Api::abort_uploads(const ObjectName& prefix, std::int64_t before_ns) {
  int count = 0;
  S3UploadPage page;
  ListProgress progress("listing the uploads of " + shown(prefix));
  do {
    S3Call list{.what = "listing the uploads of " + shown(prefix),
                .name = {prefix.bucket, ""},
                .query = {{"uploads", ""}, {"prefix", prefix.key}, {"delimiter", "/"}}};
    if (!page.next_key.empty()) {
      list.query.emplace_back("key-marker", page.next_key);
      list.query.emplace_back("upload-id-marker", page.next_id);
    }
    const HttpResponse response = call(list);
    if (!response.is_success()) fail(list, response);
    page = parse_s3_uploads(response.body);
    progress.add_page(page.uploads.size(), page.next_key + page.next_id);
    for (const S3Upload& upload : page.uploads) {
      const bool is_direct = upload.key.starts_with(prefix.key) &&
                             upload.key.find('/', prefix.key.size()) == std::string::npos;
      if (!is_direct || upload.initiated_ns >= before_ns) continue;
      abort_upload({prefix.bucket, upload.key}, upload.id);
      ++count;
    }
  } while (!page.next_key.empty());
  return count;
}

class S3UploadOfParts : public ObjectUpload {
 public:
  S3UploadOfParts(std::shared_ptr<S3Api> api, ObjectName name)
      : api_(std::move(api)),
        name_(std::move(name)),
        upload_(api_->start_upload(name_, /*ask_for_checksums=*/true)) {}

  ~S3UploadOfParts() override {
    if (upload_.id.empty()) return;
    for (auto& part : in_flight_) part.wait();
    try {
      api_->abort_upload(name_, upload_.id);
    } catch (const Error& error) {
      log::warning("an upload is left in the store, which a rule of the bucket may remove: {}",
                   error.what());
    }
  }

  void add(std::string part) override {
    if (in_flight_.size() >= kPartsInFlight) take_one();
    const int number = ++started_;
    if (number > kMostParts) {
      throw ResourceExhausted(
          "{} has more than {} parts: make them larger with "
          "S3_MULTI_PART_UPLOAD_CHUNK_SIZE",
          shown(name_), kMostParts);
    }
    in_flight_.push_back(api_->transfers().run(
        [api = api_, name = name_, upload = upload_, number, bytes = std::move(part)] {
          return api->send_part(name, upload, number, bytes);
        }));
  }

  std::string complete(const Precondition& precondition) override {
    while (!in_flight_.empty()) take_one();
    std::string version = api_->complete_upload(name_, upload_.id, parts_, precondition);
    upload_.id.clear();
    return version;
  }

 private:
  void take_one() {
    auto part = std::move(in_flight_.front());
    in_flight_.pop_front();
    parts_.push_back(part.get());
  }

  const std::shared_ptr<S3Api> api_;
  const ObjectName name_;
  S3Api::Started upload_;
  int started_ = 0;
  std::deque<std::future<S3Part>> in_flight_;
  std::vector<S3Part> parts_;
};

std::unique_ptr<ObjectUpload> S3Api::begin_upload(const ObjectName& name, const Precondition&) {
  return std::make_unique<S3UploadOfParts>(shared_from_this(), name);
}

}  // namespace

std::shared_ptr<ObjectApi> make_s3_api(S3Settings settings, std::shared_ptr<Transfers> transfers) {
  return std::make_shared<S3Api>(std::move(settings), std::move(transfers));
}

}  // namespace muster::stores
