#include "muster/platform/stores/gcs_api.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/platform/stores/list_pages.h"
#include "muster/platform/stores/s3_signature.h"

namespace muster::stores {
namespace {

using Json = nlohmann::json;
using Parameters = std::vector<std::pair<std::string, std::string>>;

constexpr std::chrono::minutes kGcsDataTimeout{10};
/// Chunks of one call that the store may find not to fit, before that is taken for its last word.
constexpr int kMostMisfits = 3;
constexpr int kMostRewrites = 100'000;
constexpr const char* kBoundary = "muster-part-of-an-object-5f1e7c6a";

std::string shown_in_gs(const ObjectName& name) {
  return printable(fmt::format("gs://{}/{}", name.bucket, name.key));
}

std::string field_text(const Json& object, const char* name) {
  const auto field = object.is_object() ? object.find(name) : object.end();
  if (field == object.end()) return "";
  return field->is_string() ? field->get<std::string>() : field->dump();
}

std::int64_t parse_rfc3339(const std::string& text) {
  std::tm utc{};
  const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (rest == nullptr) return 0;
  std::int64_t nanoseconds = std::int64_t{::timegm(&utc)} * 1'000'000'000;
  std::int64_t digit = 100'000'000;
  for (const char* at = *rest == '.' ? rest + 1 : rest; *at >= '0' && *at <= '9' && digit > 0;
       ++at, digit /= 10) {
    nanoseconds += (*at - '0') * digit;
  }
  return nanoseconds;
}

// CRC32C of a header "crc32c=n03x6A==,md5=..."; there may be several such headers.
std::string crc_of(const HttpResponse& response) {
  for (const auto& [name, value] : response.headers) {
    if (name != "x-goog-hash") continue;
    const auto at = value.find("crc32c=");
    if (at == std::string::npos) continue;
    const std::string rest = value.substr(at + 7);
    return rest.substr(0, rest.find(','));
  }
  return "";
}

Json parse_answer(const std::string& what, const HttpResponse& response) {
  Json parsed = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw DataLoss("{}: the store's answer is no JSON object", what);
  return parsed;
}

ObjectInfo info_of(const Json& object) {
  ObjectInfo info{.modified_ns = parse_rfc3339(field_text(object, "updated")),
                  .version = field_text(object, "generation")};
  const std::string size = field_text(object, "size");
  const auto end = size.data() + size.size();
  if (std::from_chars(size.data(), end, info.size_bytes).ptr != end || info.version.empty()) {
    throw DataLoss("the store tells of an object without size or generation");
  }
  return info;
}

void add_match(Parameters& query, const Precondition& precondition) {
  if (precondition.must_be_absent) query.emplace_back("ifGenerationMatch", "0");
  if (!precondition.version.empty()) {
    query.emplace_back("ifGenerationMatch", precondition.version);
  }
}

/// One request of the API.
struct GcsCall {
  std::string what{};
  std::string method = "GET";
  /// After the endpoint.
  std::string path{};
  Parameters query{};
  HttpHeaders headers{};
  std::string_view body{};
  std::uint64_t expected_bytes = 0;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  HttpClient::IsFlawed is_flawed{};
  std::stop_token stop{};
};

class GcsApi : public ObjectApi, public std::enable_shared_from_this<GcsApi> {
 public:
  GcsApi(GcsSettings settings, std::shared_ptr<Transfers> transfers)
      : settings_(std::move(settings)),
        transfers_(std::move(transfers)),
        http_(std::make_shared<HttpClient>(settings_.http)),
        credentials_(http_) {}

  std::optional<ObjectInfo> head(const ObjectName& name) override {
    const GcsCall get{.what = "looking at " + shown_in_gs(name),
                      .path = object_path(name),
                      .query = {{"fields", "size,updated,generation"}}};
    const HttpResponse response = call(get);
    if (response.status == 404) return std::nullopt;
    if (!response.is_success()) fail(get, response);
    return info_of(parse_answer(get.what, response));
  }

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

  void remove(const ObjectName& name) override {
    const GcsCall remove{
        .what = "removing " + shown_in_gs(name), .method = "DELETE", .path = object_path(name)};
    const HttpResponse response = call(remove);
    if (!response.is_success() && response.status != 404) fail(remove, response);
  }

  void remove_all(const std::string& bucket, const std::vector<std::string>& keys) override {
    std::deque<std::future<void>> in_flight;
    const auto self = shared_from_this();
    for (const std::string& key : keys) {
      if (in_flight.size() >= Transfers::kThreads) {
        in_flight.front().get();
        in_flight.pop_front();
      }
      in_flight.push_back(
          transfers_->run([self, name = ObjectName{bucket, key}] { self->remove(name); }));
    }
    for (auto& removal : in_flight) removal.get();
  }

  void copy(const ObjectName& from, const ObjectName& to) override;

  // Sessions of uploads cannot be listed; the store forgets them after a week.
  int abort_uploads(const ObjectName&, std::int64_t) override { return 0; }

  std::uint64_t part_bytes() const override { return settings_.part_bytes; }
  std::string impossible_version() const override { return "1"; }

  std::string start_session(const ObjectName& name, const Precondition& precondition);
  std::optional<std::string> send_chunk(const std::string& what, const std::string& session,
                                        std::uint64_t begin, std::string_view bytes,
                                        std::optional<std::uint64_t> total,
                                        const Precondition& precondition);
  void end_session(const std::string& what, const std::string& session);
  Transfers& transfers() { return *transfers_; }

 private:
  static std::string object_path(const ObjectName& name) {
    return fmt::format("/storage/v1/b/{}/o/{}", percent_encoded(name.bucket),
                       percent_encoded(name.key));
  }
  static std::string upload_path(const ObjectName& name) {
    return fmt::format("/upload/storage/v1/b/{}/o", percent_encoded(name.bucket));
  }

  void add_credentials(HttpHeaders& headers) {
    if (!settings_.extra_header.first.empty()) headers.push_back(settings_.extra_header);
    if (settings_.needs_no_credentials) return;
    const std::string token = credentials_.token();
    if (!token.empty()) headers.emplace_back("Authorization", "Bearer " + token);
  }

  HttpResponse call(const GcsCall& call) {
    for (bool is_first = true;; is_first = false) {
      HttpResponse response = http_->send(
          call.what,
          [&](int) {
            const std::string query = canonical_query(call.query);
            HttpRequest request{
                .method = call.method,
                .url = settings_.endpoint + call.path + (query.empty() ? "" : "?" + query),
                .headers = call.headers,
                .body = call.body,
                .expected_answer_bytes = call.expected_bytes,
                .timeout = call.timeout};
            request.most_answer_bytes = std::max(request.most_answer_bytes, call.expected_bytes);
            add_credentials(request.headers);
            return request;
          },
          settings_.retry, call.stop, call.is_flawed);
      if (response.status != 401 || !is_first) return response;
      credentials_.expire();
    }
  }

  // Throws the error of listing or uploading, where 404 says that there is no bucket.
  [[noreturn]] static void fail_in_bucket(const GcsCall& call, const std::string& bucket,
                                          const HttpResponse& response) {
    if (response.status == 404) throw_no_bucket(call.what, "gs://" + bucket, "status 404");
    fail(call, response);
  }

  [[noreturn]] static void fail(const GcsCall& call, const HttpResponse& response) {
    const Json parsed = Json::parse(response.body, nullptr, /*allow_exceptions=*/false);
    const auto error = parsed.is_object() ? parsed.find("error") : parsed.end();
    std::string why = fmt::format("status {}", response.status);
    if (parsed.is_object() && error != parsed.end()) {
      why += ": " + printable(field_text(*error, "message").substr(0, 1000));
    }
    throw_refusal(call.what, response.status, why,
                  "GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`");
  }

  const GcsSettings settings_;
  const std::shared_ptr<Transfers> transfers_;
  const std::shared_ptr<HttpClient> http_;
  GcsCredentialSource credentials_;
};

ObjectRange GcsApi::get(const ObjectName& name, std::uint64_t offset, std::uint64_t length,
                        const std::string& version, const std::stop_token& stop) {
  GcsCall get{.what = "reading " + shown_in_gs(name),
              .path = object_path(name),
              .query = {{"alt", "media"}},
              // Without it, objects that are stored with gzip are unpacked on the way, and ranges
              // ignored.
              .headers = {{"Range", fmt::format("bytes={}-{}", offset, offset + length - 1)},
                          {"Accept-Encoding", "gzip"}},
              .expected_bytes = length,
              .timeout = kGcsDataTimeout,
              .stop = stop};
  if (!version.empty()) get.query.emplace_back("generation", version);
  return read_range(
      {.name = name,
       .what = get.what,
       .offset = offset,
       .length = length,
       .send =
           [&](const HttpClient::IsFlawed& is_flawed) {
             get.is_flawed = is_flawed;
             return call(get);
           },
       .flaw_of_whole = [](const HttpResponse& response) -> std::string {
         const std::string crc = crc_of(response);
         if (crc.empty() || crc == crc32c_base64(response.body)) return "";
         return "the bytes do not match the object's CRC32C";
       },
       .is_replaced =
           [&](const HttpResponse& response) { return response.status == 404 && !version.empty(); },
       .fail = [&](const HttpResponse& response) { fail(get, response); },
       .version_header = "x-goog-generation"});
}

std::string GcsApi::put(const ObjectName& name, std::string_view bytes,
                        const Precondition& precondition) {
  // With its checksum, which the store compares.
  std::string body = fmt::format(
      "--{0}\r\nContent-Type: application/json\r\n\r\n{1}\r\n--{0}\r\nContent-Type: "
      "application/octet-stream\r\n\r\n",
      kBoundary, Json{{"crc32c", crc32c_base64(bytes)}}.dump());
  body.append(bytes);
  body += fmt::format("\r\n--{}--\r\n", kBoundary);
  GcsCall put{
      .what = "writing " + shown_in_gs(name),
      .method = "POST",
      .path = upload_path(name),
      .query = {{"uploadType", "multipart"}, {"name", name.key}},
      .headers = {{"Content-Type", fmt::format("multipart/related; boundary={}", kBoundary)}},
      .body = body,
      .timeout = kGcsDataTimeout};
  add_match(put.query, precondition);
  const HttpResponse response = call(put);
  if (response.status == 412) {
    // An answer that was lost on its way may have told of success.
    if (const auto version = version_with(name, bytes)) return *version;
    throw_precondition(put.what, precondition);
  }
  if (!response.is_success()) fail_in_bucket(put, name.bucket, response);
  return info_of(parse_answer(put.what, response)).version;
}

std::string GcsApi::start_session(const ObjectName& name, const Precondition& precondition) {
  GcsCall start{.what = "beginning the upload of " + shown_in_gs(name),
                .method = "POST",
                .path = upload_path(name),
                .query = {{"uploadType", "resumable"}, {"name", name.key}},
                .headers = {{"Content-Type", "application/json"},
                            {"X-Upload-Content-Type", "application/octet-stream"}},
                .body = "{}"};
  add_match(start.query, precondition);
  const HttpResponse response = call(start);
  if (response.status == 412) throw_precondition(start.what, precondition);
  if (!response.is_success()) fail_in_bucket(start, name.bucket, response);
  std::string session = response.header("location");
  if (session.empty()) throw DataLoss("{}: the answer has no Location", start.what);
  return session;
}

// Sends a chunk, as often and as far as the store has not got it. The version when it was the last.
std::optional<std::string> GcsApi::send_chunk(const std::string& what, const std::string& session,
                                              std::uint64_t begin, std::string_view bytes,
                                              std::optional<std::uint64_t> total,
                                              const Precondition& precondition) {
  const std::string of = total ? std::to_string(*total) : "*";
  std::uint64_t at = begin;
  const std::uint64_t end = begin + bytes.size();
  int misfits = 0;
  for (int tries = 1;; ++tries) {
    HttpResponse response;
    bool ask_where = false;
    try {
      const std::string_view rest = bytes.substr(static_cast<std::size_t>(at - begin));
      HttpRequest request{
          .method = "PUT",
          .url = session,
          .headers = {{"Content-Range", rest.empty()
                                            ? fmt::format("bytes */{}", of)
                                            : fmt::format("bytes {}-{}/{}", at, end - 1, of)}},
          .body = rest,
          .timeout = kGcsDataTimeout};
      add_credentials(request.headers);
      response = http_->send_once(request);
      // A chunk whose connection broke may arrive after the answer to "what has arrived", and what
      // is sent then does not fit. The first try may be such a second one too: libcurl sends again
      // by itself when a kept connection turns out to be closed.
      ask_where =
          is_worth_a_retry(response.status) || (response.status == 400 && misfits++ < kMostMisfits);
    } catch (const Error& error) {
      if (tries >= settings_.retry.most_tries) throw;
      log::warning("{} failed, asking what of it has arrived try={}: {}", what, tries,
                   error.what());
      ask_where = true;
    }
    if (ask_where) {
      if (tries >= settings_.retry.most_tries) {
        throw Unavailable("{}: the store does not take it (status {}), also after retries", what,
                          response.status);
      }
      response = http_->send(
          what,
          [&](int) {
            HttpRequest request{.method = "PUT",
                                .url = session,
                                .headers = {{"Content-Range", fmt::format("bytes */{}", of)}}};
            add_credentials(request.headers);
            return request;
          },
          settings_.retry);
    }
    if (response.status == 200 || response.status == 201) {
      return info_of(parse_answer(what, response)).version;
    }
    if (response.status == 412) throw_precondition(what, precondition);
    if (response.status != 308) fail({.what = what}, response);
    // "bytes=0-N": how far it has got; none: nothing yet.
    const std::string range = response.header("range");
    std::uint64_t last = 0;
    const auto dash = range.rfind('-');
    const bool has_any = dash != std::string::npos;
    if (has_any) std::from_chars(range.data() + dash + 1, range.data() + range.size(), last);
    at = has_any ? last + 1 : 0;
    if (at < begin || at > end) {
      throw DataLoss("{}: the store has {} bytes where {} to {} were sent", what, at, begin, end);
    }
    if (at == end && !total) return std::nullopt;
    if (tries >= settings_.retry.most_tries) {
      throw Unavailable("{}: the store takes no more than {} bytes", what, at);
    }
  }
}

void GcsApi::end_session(const std::string& what, const std::string& session) {
  HttpRequest request{.method = "DELETE", .url = session};
  add_credentials(request.headers);
  const HttpResponse response = http_->send(
      what, [&](int) { return request; }, settings_.retry);
  // 499 is what the store says of a session that was ended.
  if (!response.is_success() && response.status != 499 && response.status != 404 &&
      response.status != 410) {
    fail({.what = what}, response);
  }
}

std::string GcsApi::extend(const ObjectName& name, const std::string& version,
                           std::string_view tail) {
  static std::atomic<unsigned> counter{0};
  const ObjectName behind{name.bucket,
                          fmt::format("{}.muster-tail-{}-{}", name.key, ::getpid(), counter++)};
  put(behind, tail, Precondition::none());
  const std::string body =
      Json{{"sourceObjects", Json::array({Json{{"name", name.key}, {"generation", version}},
                                          Json{{"name", behind.key}}})},
           {"destination", Json{{"contentType", "application/octet-stream"}}}}
          .dump();
  GcsCall compose{.what = "extending " + shown_in_gs(name),
                  .method = "POST",
                  .path = object_path(name) + "/compose",
                  .query = {{"ifGenerationMatch", version}},
                  .headers = {{"Content-Type", "application/json"}},
                  .body = body};
  const HttpResponse response = call(compose);
  remove(behind);
  if (response.status == 412) {
    throw Aborted("{}: another writer has changed it meanwhile", compose.what);
  }
  if (!response.is_success()) fail(compose, response);
  return info_of(parse_answer(compose.what, response)).version;
}

ObjectPage GcsApi::list(const ObjectName& prefix, const std::string& delimiter,
                        const std::string& from, int most) {
  GcsCall list{.what = "listing " + shown_in_gs(prefix),
               .path = fmt::format("/storage/v1/b/{}/o", percent_encoded(prefix.bucket)),
               .query = {{"prefix", prefix.key},
                         {"maxResults", std::to_string(most)},
                         {"fields", "nextPageToken,prefixes,items(name,size,updated,generation)"}}};
  if (!delimiter.empty()) list.query.emplace_back("delimiter", delimiter);
  ObjectPage page{.next = from};
  ListProgress progress(list.what);
  // A page may be empty although there are more.
  do {
    GcsCall one = list;
    if (!page.next.empty()) one.query.emplace_back("pageToken", page.next);
    const HttpResponse response = call(one);
    if (!response.is_success()) fail_in_bucket(one, prefix.bucket, response);
    const Json parsed = parse_answer(list.what, response);
    if (const auto items = parsed.find("items"); items != parsed.end() && items->is_array()) {
      for (const Json& item : *items) {
        page.objects.emplace_back(field_text(item, "name"), info_of(item));
      }
    }
    if (const auto inner = parsed.find("prefixes"); inner != parsed.end() && inner->is_array()) {
      for (const Json& item : *inner) {
        if (item.is_string()) page.prefixes.push_back(item.get<std::string>());
      }
    }
    page.next = field_text(parsed, "nextPageToken");
    progress.add_page(page.objects.size() + page.prefixes.size(), page.next);
  } while (page.objects.empty() && page.prefixes.empty() && !page.next.empty());
  return page;
}

void GcsApi::copy(const ObjectName& from, const ObjectName& to) {
  GcsCall copy{.what = fmt::format("copying {} to {}", shown_in_gs(from), shown_in_gs(to)),
               .method = "POST",
               .path = fmt::format("{}/rewriteTo/b/{}/o/{}", object_path(from),
                                   percent_encoded(to.bucket), percent_encoded(to.key)),
               .timeout = kGcsDataTimeout};
  std::string token;
  // A large object is copied piece by piece, call by call.
  for (int i = 0; i < kMostRewrites; ++i) {
    copy.query.clear();
    if (!token.empty()) copy.query = {{"rewriteToken", token}};
    const HttpResponse response = call(copy);
    if (!response.is_success()) fail(copy, response);
    const Json parsed = parse_answer(copy.what, response);
    if (field_text(parsed, "done") == "true") return;
    token = field_text(parsed, "rewriteToken");
    if (token.empty()) break;
  }
  throw DataLoss("{}: the store does not say how to go on", copy.what);
}

/// Chunks one after the other, as the API wants them; one is on its way while the next is filled.
class GcsUpload : public ObjectUpload {
 public:
  GcsUpload(std::shared_ptr<GcsApi> api, const ObjectName& name, const Precondition& precondition)
      : api_(std::move(api)),
        what_("writing " + shown_in_gs(name)),
        precondition_(precondition),
        session_(api_->start_session(name, precondition)) {}

  ~GcsUpload() override {
    if (session_.empty()) return;
    if (in_flight_.valid()) in_flight_.wait();
    try {
      api_->end_session(what_, session_);
    } catch (const Error& error) {
      log::warning("an upload is left in the store, which forgets it in a week: {}", error.what());
    }
  }

  void add(std::string part) override {
    if (held_) send(*std::exchange(held_, std::nullopt), std::nullopt);
    held_ = std::move(part);
  }

  std::string complete(const Precondition&) override {
    std::string last = held_ ? *std::exchange(held_, std::nullopt) : std::string();
    const std::uint64_t total = sent_ + last.size();
    send(std::move(last), total);
    const auto version = in_flight_.get();
    session_.clear();
    if (!version) throw DataLoss("{}: the store does not say that it has all", what_);
    return *version;
  }

 private:
  void send(std::string bytes, std::optional<std::uint64_t> total) {
    if (in_flight_.valid()) in_flight_.get();
    const std::uint64_t begin = sent_;
    sent_ += bytes.size();
    in_flight_ =
        api_->transfers().run([api = api_, what = what_, session = session_, begin,
                               chunk = std::move(bytes), total, precondition = precondition_] {
          return api->send_chunk(what, session, begin, chunk, total, precondition);
        });
  }

  const std::shared_ptr<GcsApi> api_;
  const std::string what_;
  const Precondition precondition_;
  std::string session_;
  std::uint64_t sent_ = 0;
  /// The last is told from the others by the total that it carries.
  std::optional<std::string> held_;
  std::future<std::optional<std::string>> in_flight_;
};

std::unique_ptr<ObjectUpload> GcsApi::begin_upload(const ObjectName& name,
                                                   const Precondition& precondition) {
  return std::make_unique<GcsUpload>(shared_from_this(), name, precondition);
}

}  // namespace

std::shared_ptr<ObjectApi> make_gcs_api(GcsSettings settings,
                                        std::shared_ptr<Transfers> transfers) {
  return std::make_shared<GcsApi>(std::move(settings), std::move(transfers));
}

}  // namespace muster::stores
