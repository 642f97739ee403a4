#include "muster/testing/fake_gcs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

namespace muster::testing {
namespace {

HttpAnswer gcs_error(int status, const std::string& reason) {
  return {.status = status,
          .body = fmt::format(R"({{"error": {{"code": {}, "message": "{}"}}}})", status, reason)};
}

std::optional<std::int64_t> number_in(const HttpCall& call, const std::string& name) {
  const auto text = call.parameter(name);
  return text ? std::optional<std::int64_t>(std::stoll(*text)) : std::nullopt;
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

FakeGcs::FakeGcs() : server_([this](const HttpCall& call) { return handle(call); }) {}

void FakeGcs::set_fault(std::function<std::optional<HttpAnswer>(const HttpCall&)> fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

std::map<std::string, FakeGcs::Object> FakeGcs::objects() const {
  const std::lock_guard lock(mutex_);
  return objects_;
}

std::optional<std::string> FakeGcs::bytes_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return std::nullopt;
  return found->second.bytes;
}

void FakeGcs::set_bytes(const std::string& name, std::string bytes) {
  const std::lock_guard lock(mutex_);
  objects_[name] = {std::move(bytes), next_generation_++};
}

std::size_t FakeGcs::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      sessions_.begin(), sessions_.end(), [](const auto& row) { return row.second.done == 0; }));
}

int FakeGcs::calls(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(kind);
  return found == calls_.end() ? 0 : found->second;
}

HttpAnswer FakeGcs::handle(const HttpCall& call) {
  std::function<std::optional<HttpAnswer>(const HttpCall&)> fault;
  {
    const std::lock_guard lock(mutex_);
    fault = fault_;
  }
  if (fault) {
    if (auto answer = fault(call)) return *answer;
  }
  return flaky_.answer(
      call, [&] { return act(call); }, gcs_error(503, "backendError"));
}

std::string FakeGcs::text_of(const std::string& name) const {
  const Object& object = objects_.at(name);
  return fmt::format(
      R"({{"name": "{}", "size": "{}", "updated": "2026-07-01T10:00:00.250Z", "generation": "{}"}})",
      name.substr(name.find('/') + 1), object.bytes.size(), object.generation);
}

bool FakeGcs::matches(std::optional<std::int64_t> wanted, const std::string& name) const {
  if (!wanted) return true;
  const auto found = objects_.find(name);
  return *wanted == (found == objects_.end() ? 0 : found->second.generation);
}

HttpAnswer FakeGcs::store(const std::string& name, std::string bytes) {
  objects_[name] = {std::move(bytes), next_generation_++};
  return {.body = text_of(name)};
}

HttpAnswer FakeGcs::act(const HttpCall& call) {
  const std::lock_guard lock(mutex_);
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
    return objects_.erase(name) > 0 ? HttpAnswer{.status = 204} : gcs_error(404, "notFound");
  }
  return get(call, name);
}

HttpAnswer FakeGcs::get(const HttpCall& call, const std::string& name) {
  const auto found = objects_.find(name);
  const auto generation = number_in(call, "generation");
  if (found == objects_.end() || (generation && *generation != found->second.generation)) {
    return gcs_error(404, "notFound");
  }
  if (call.parameter("alt") != "media") {
    ++calls_["STATUS"];
    return {.body = text_of(name)};
  }
  ++calls_["GET"];
  const std::string& bytes = found->second.bytes;
  HttpAnswer answer{.status = 206,
                    .headers = {{"x-goog-generation", std::to_string(found->second.generation)},
                                {"Last-Modified", "Wed, 01 Jul 2026 10:00:00 GMT"}}};
  // "hello" is the example that Google gives for its CRC-32C.
  if (bytes == "hello") answer.headers.emplace_back("x-goog-hash", "crc32c=mnG7TA==,md5=x");
  std::size_t begin = 0, end = 0;
  std::sscanf(call.header("range").c_str(), "bytes=%zu-%zu", &begin, &end);
  if (begin >= bytes.size()) return gcs_error(416, "requestedRangeNotSatisfiable");
  end = std::min(end, bytes.size() - 1);
  answer.headers.emplace_back("Content-Range",
                              fmt::format("bytes {}-{}/{}", begin, end, bytes.size()));
  answer.body = bytes.substr(begin, end - begin + 1);
  return answer;
}

HttpAnswer FakeGcs::list(const HttpCall& call, const std::string& bucket) {
  const std::string prefix = call.parameter("prefix").value_or("");
  const std::string delimiter = call.parameter("delimiter").value_or("");
  const std::string from = call.parameter("pageToken").value_or("");
  const std::size_t most =
      std::min<std::size_t>(page_keys_, std::stoul(call.parameter("maxResults").value_or("1000")));
  // As the real one may: the first page is empty, and says that there is more.
  if (from.empty() && page_keys_ < 1000) return {.body = R"({"nextPageToken": " "})"};
  std::vector<std::string> items;
  std::set<std::string> prefixes;
  std::string last;
  std::string next;
  for (const auto& [name, object] : objects_) {
    if (!name.starts_with(bucket + "/" + prefix)) continue;
    const std::string key = name.substr(bucket.size() + 1);
    const auto end = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
    const std::string entry = end == std::string::npos ? key : key.substr(0, end + 1);
    if ((!from.empty() && entry <= from) || prefixes.contains(entry)) continue;
    if (items.size() + prefixes.size() == most) {
      next = last;
      break;
    }
    last = entry;
    if (end == std::string::npos) {
      items.push_back(text_of(name));
    } else {
      prefixes.insert(entry);
    }
  }
  std::string body = fmt::format(R"({{"items": [{}])", fmt::join(items, ", "));
  if (!prefixes.empty()) {
    body += fmt::format(R"(, "prefixes": ["{}"])", fmt::join(prefixes, R"(", ")"));
  }
  if (!next.empty()) body += fmt::format(R"(, "nextPageToken": "{}")", next);
  return {.body = body + "}"};
}

HttpAnswer FakeGcs::upload(const HttpCall& call, const std::string& bucket) {
  const std::string name = bucket + "/" + call.parameter("name").value_or("");
  const auto match = number_in(call, "ifGenerationMatch");
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
  return store(name, call.body.substr(begin, end - begin));
}

HttpAnswer FakeGcs::continue_session(const HttpCall& call) {
  const auto found = sessions_.find(call.parameter("upload_id").value_or(""));
  if (found == sessions_.end()) return gcs_error(404, "notFound");
  if (call.method == "DELETE") {
    sessions_.erase(found);
    return {.status = 499};
  }
  Session& session = found->second;
  if (session.done != 0) return {.body = text_of(session.name)};
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
    HttpAnswer answer = store(session.name, session.bytes);
    session.done = objects_[session.name].generation;
    return answer;
  }
  HttpAnswer more{.status = 308};
  if (!session.bytes.empty()) {
    more.headers.emplace_back("Range", fmt::format("bytes=0-{}", session.bytes.size() - 1));
  }
  return more;
}

HttpAnswer FakeGcs::compose(const HttpCall& call, const std::string& bucket,
                            const std::string& name) {
  if (!matches(number_in(call, "ifGenerationMatch"), name)) {
    return gcs_error(412, "conditionNotMet");
  }
  std::string bytes;
  for (const std::string& source : names_in(call.body)) {
    const auto found = objects_.find(bucket + "/" + source);
    if (found == objects_.end()) return gcs_error(404, "notFound");
    bytes += found->second.bytes;
  }
  return store(name, std::move(bytes));
}

}  // namespace muster::testing
