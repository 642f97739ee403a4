#include "muster/testing/fake_gcs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace muster::testing {
namespace {

CannedResponse gcs_error(int status, const std::string& reason) {
  return {.status = status,
          .body = fmt::format(R"({{"error": {{"code": {}, "message": "{}"}}}})", status, reason)};
}

// The values of "name": "..." in some JSON without escapes.
std::vector<std::string> names_in(const std::string& json) {
  std::vector<std::string> names;
  const std::string start = "\"name\":\"";
  for (std::size_t at = json.find(start); at != std::string::npos; at = json.find(start, at)) {
    at += start.size();
    names.push_back(json.substr(at, json.find('"', at) - at));
  }
  return names;
}

}  // namespace

FakeGcs::FakeGcs()
    : FakeStore(gcs_error(503, "backendError")),
      server_([this](const HttpCall& call) { return handle(call); }) {}

std::size_t FakeGcs::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [](const auto& row) { return !row.second.is_done; }));
}

std::size_t FakeGcs::orphans() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(),
      [](const auto& row) { return !row.second.is_done && !row.second.bytes.empty(); }));
}

std::string FakeGcs::text_of(const std::string& name) const {
  const Object& object = objects_.at(name);
  return fmt::format(
      R"({{"name": "{}", "size": "{}", "updated": "2026-07-01T10:00:00.250Z", "generation": "{}"}})",
      name.substr(name.find('/') + 1), object.bytes.size(), object.version);
}

bool FakeGcs::matches(const std::optional<std::string>& wanted, const std::string& name) const {
  if (!wanted) return true;
  const auto found = objects_.find(name);
  return *wanted == (found == objects_.end() ? "0" : found->second.version);
}

CannedResponse FakeGcs::act(const HttpCall& call) {
  if (call.path == "/session") return continue_session(call);
  const std::string upload_start = "/upload/storage/v1/b/";
  if (call.path.starts_with(upload_start)) {
    ++calls_["UPLOAD"];
    return upload(call,
                  call.path.substr(upload_start.size(),
                                   call.path.find('/', upload_start.size()) - upload_start.size()));
  }
  const std::string start = "/storage/v1/b/";
  std::string rest = call.path.substr(start.size());
  const std::string bucket = rest.substr(0, rest.find('/'));
  rest = rest.substr(bucket.size() + 2);  // "/o"
  if (rest.empty()) {
    ++calls_["LIST"];
    return list(call, bucket);
  }
  rest = rest.substr(1);
  const std::string key = percent_decoded(rest.substr(0, rest.find('/')));
  const std::string name = bucket + "/" + key;
  if (rest.ends_with("/compose")) return compose(call, bucket, name);
  if (const auto at = rest.find("/rewriteTo/b/"); at != std::string::npos) {
    if (!objects_.contains(name)) return gcs_error(404, "notFound");
    const std::string target = rest.substr(at + 13);
    const std::string to_bucket = target.substr(0, target.find('/'));
    store(to_bucket + "/" + percent_decoded(target.substr(target.find("/o/") + 3)),
          objects_[name].bytes);
    return {.body = R"({"done": true})"};
  }
  if (call.method == "DELETE") {
    return objects_.erase(name) > 0 ? CannedResponse{.status = 204} : gcs_error(404, "notFound");
  }
  return get(call, name);
}

CannedResponse FakeGcs::get(const HttpCall& call, const std::string& name) {
  const auto found = objects_.find(name);
  const auto generation = call.parameter("generation");
  if (found == objects_.end() || (generation && *generation != found->second.version)) {
    return gcs_error(404, "notFound");
  }
  if (call.parameter("alt") != "media") {
    ++calls_["STATUS"];
    return {.body = text_of(name)};
  }
  ++calls_["GET"];
  const std::string& bytes = found->second.bytes;
  CannedResponse answer{.headers = {{"x-goog-generation", found->second.version},
                                    {"Last-Modified", "Wed, 01 Jul 2026 10:00:00 GMT"}}};
  // "hello" is the example that Google gives for its CRC-32C.
  if (bytes == "hello") answer.headers.emplace_back("x-goog-hash", "crc32c=mnG7TA==,md5=x");
  if (!add_range(call, bytes, answer)) return gcs_error(416, "requestedRangeNotSatisfiable");
  return answer;
}

CannedResponse FakeGcs::list(const HttpCall& call, const std::string& bucket) {
  const Listing listing{.bucket = bucket,
                        .prefix = call.parameter("prefix").value_or(""),
                        .delimiter = call.parameter("delimiter").value_or(""),
                        .from = call.parameter("pageToken").value_or(""),
                        .most = std::stoul(call.parameter("maxResults").value_or("1000"))};
  // As the real one may: the first page is empty, and says that there is more.
  if (listing.from.empty() && page_keys_ < 1000) return {.body = R"({"nextPageToken": " "})"};
  const Page page = page_of(listing);
  std::vector<std::string> items;
  for (const std::string& key : page.keys) items.push_back(text_of(bucket + "/" + key));
  std::string body = fmt::format(R"({{"items": [{}])", fmt::join(items, ", "));
  if (!page.prefixes.empty()) {
    body += fmt::format(R"(, "prefixes": ["{}"])", fmt::join(page.prefixes, R"(", ")"));
  }
  if (!page.next.empty()) body += fmt::format(R"(, "nextPageToken": "{}")", page.next);
  return {.body = body + "}"};
}

CannedResponse FakeGcs::upload(const HttpCall& call, const std::string& bucket) {
  const std::string name = bucket + "/" + call.parameter("name").value_or("");
  const auto match = call.parameter("ifGenerationMatch");
  if (!matches(match, name)) return gcs_error(412, "conditionNotMet");
  if (call.parameter("uploadType") == "resumable") {
    const std::string id = std::to_string(sessions_.size() + 1);
    sessions_[id] = {.name = name, .match = match};
    return {.headers = {{"Location", server_.url() + "/session?upload_id=" + id}}};
  }
  const std::string& type = call.header("content-type");
  const std::string boundary = "--" + type.substr(type.find("boundary=") + 9);
  const auto second = call.body.find(boundary, boundary.size());
  const auto begin = call.body.find("\r\n\r\n", second) + 4;
  const auto end = call.body.rfind("\r\n" + boundary + "--");
  store(name, call.body.substr(begin, end - begin));
  return {.body = text_of(name)};
}

CannedResponse FakeGcs::continue_session(const HttpCall& call) {
  const auto found = sessions_.find(call.parameter("upload_id").value_or(""));
  if (found == sessions_.end()) return gcs_error(404, "notFound");
  if (call.method == "DELETE") {
    sessions_.erase(found);
    return {.status = 499};
  }
  Session& session = found->second;
  if (session.is_done) return {.body = text_of(session.name)};
  const std::string range = call.header("content-range");
  unsigned long long begin = 0, last = 0, total = 0;
  const bool has_bytes = std::sscanf(range.c_str(), "bytes %llu-%llu/", &begin, &last) == 2;
  const std::string of = range.substr(range.find('/') + 1);
  const bool has_total = std::sscanf(of.c_str(), "%llu", &total) == 1;
  if (has_bytes) {
    if (begin != session.bytes.size() || last - begin + 1 != call.body.size()) {
      return gcs_error(400, "a chunk that does not fit");
    }
    const std::size_t taken = std::min(call.body.size(), most_taken_);
    if (!has_total && call.body.size() % (256 << 10) != 0) {
      return gcs_error(400, "a chunk of a wrong size");
    }
    session.bytes += call.body.substr(0, taken);
  }
  if (has_total && session.bytes.size() == total) {
    if (!matches(session.match, session.name)) return gcs_error(412, "conditionNotMet");
    store(session.name, session.bytes);
    session.is_done = true;
    return {.body = text_of(session.name)};
  }
  CannedResponse more{.status = 308};
  if (!session.bytes.empty()) {
    more.headers.emplace_back("Range", fmt::format("bytes=0-{}", session.bytes.size() - 1));
  }
  return more;
}

CannedResponse FakeGcs::compose(const HttpCall& call, const std::string& bucket,
                                const std::string& name) {
  if (!matches(call.parameter("ifGenerationMatch"), name)) {
    return gcs_error(412, "conditionNotMet");
  }
  std::string bytes;
  for (const std::string& source : names_in(call.body)) {
    const auto found = objects_.find(bucket + "/" + source);
    if (found == objects_.end()) return gcs_error(404, "notFound");
    bytes += found->second.bytes;
  }
  store(name, std::move(bytes));
  return {.body = text_of(name)};
}

}  // namespace muster::testing
