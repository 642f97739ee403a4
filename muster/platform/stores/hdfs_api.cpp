#include "muster/platform/stores/hdfs_api.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/path_below.h"
#include "muster/base/printable.h"

namespace muster::stores {
namespace {

using HdfsJson = nlohmann::json;

constexpr std::chrono::minutes kHdfsDataTimeout{10};
constexpr std::uint64_t kMostListBytes = std::uint64_t{512} << 20;
constexpr std::size_t kMostWhyBytes = 500;

/// Refusals that end by themselves: of a namenode that is not the active one or still starts, and
/// of a file whose writer has just died.
constexpr std::array kPassing{"StandbyException", "RetriableException", "SafeModeException",
                              "AlreadyBeingCreatedException", "RecoveryInProgressException"};

/// Content of a RemoteException; empty where the body is none.
struct HdfsRefusal {
  std::string exception{};
  std::string message{};
};

std::string hdfs_text(const HdfsJson& json, const char* name) {
  const auto field = json.is_object() ? json.find(name) : json.end();
  return field != json.end() && field->is_string() ? field->get<std::string>() : std::string();
}

HdfsRefusal parse_hdfs_refusal(const HttpResponse& response) {
  const HdfsJson json = HdfsJson::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find("RemoteException") : json.end();
  if (found == json.end()) return {};
  // "java.io.X: message" at some places, and lines of a stack after it.
  const std::string message = hdfs_text(*found, "message");
  return {hdfs_text(*found, "exception"), message.substr(0, message.find('\n'))};
}

bool is_passing(const HttpResponse& response) {
  if (response.is_success() || (response.status >= 300 && response.status < 400)) return false;
  const HdfsRefusal refusal = parse_hdfs_refusal(response);
  return std::ranges::any_of(kPassing, [&](const char* name) {
    // A datanode wraps what the namenode has said.
    return refusal.exception == name || refusal.message.find(name) != std::string::npos;
  });
}

HdfsJson parse_hdfs_answer(const std::string& what, const HttpResponse& response,
                           const char* name) {
  HdfsJson json = HdfsJson::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (found == json.end()) throw DataLoss("{}: the answer has no {}", what, name);
  return std::move(*found);
}

std::uint64_t hdfs_number(const HdfsJson& json, const char* name) {
  const auto field = json.is_object() ? json.find(name) : json.end();
  return field != json.end() && field->is_number_unsigned() ? field->get<std::uint64_t>() : 0;
}

HdfsEntry parse_hdfs_entry(const std::string& what, const HdfsJson& json) {
  const std::string type = hdfs_text(json, "type");
  HdfsEntry entry{.name = hdfs_text(json, "pathSuffix")};
  if (type.empty()) throw DataLoss("{}: the answer has an invalid entry", what);
  // Empty where it was asked for by its path.
  std::string flaw = entry.name.empty() ? "" : flaw_of_name_below(entry.name);
  if (flaw.empty() && entry.name.find('/') != std::string::npos) flaw = "it lies deeper";
  if (!flaw.empty()) {
    throw DataLoss("{}: the answer has \"{}\", which can be no name in a folder: {}", what,
                   entry.name, flaw);
  }
  entry.status = {
      .size_bytes = hdfs_number(json, "length"),
      .modified_ns = static_cast<std::int64_t>(hdfs_number(json, "modificationTime")) * 1'000'000,
      .is_directory = type == "DIRECTORY"};
  const std::uint64_t id = hdfs_number(json, "fileId");
  entry.file_id = id != 0 ? std::to_string(id) : fmt::format("at {}", entry.status.modified_ns);
  return entry;
}

/// Answer to renames, deletions and new folders; nothing where the body is empty.
std::optional<bool> parse_hdfs_boolean(const HttpResponse& response) {
  const HdfsJson json = HdfsJson::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const auto field = json.is_object() ? json.find("boolean") : json.end();
  if (field == json.end() || !field->is_boolean()) return std::nullopt;
  return field->get<bool>();
}

}  // namespace

HdfsApi::HdfsApi(HdfsSettings settings, std::vector<std::string> namenodes, std::string shown)
    : settings_(std::move(settings)), namenodes_(std::move(namenodes)), shown_(std::move(shown)) {}

HdfsApi::Call HdfsApi::call_of(const char* verb, const char* method, const std::string& path,
                               const char* op) const {
  return {
      .what = fmt::format("{} {}", verb, shown(path)), .method = method, .path = path, .op = op};
}

HttpRequest HdfsApi::request(const Call& call) const {
  std::string url = fmt::format("{}/webhdfs/v1{}?op={}", namenodes_[active_ % namenodes_.size()],
                                percent_encoded(call.path, /*keep_slashes=*/true), call.op);
  const auto add = [&url](std::string_view name, std::string_view value) {
    url += fmt::format("&{}={}", name, percent_encoded(value));
  };
  if (!settings_.delegation_token.empty()) {
    add("delegation", settings_.delegation_token);
  } else if (!settings_.user.empty()) {
    add("user.name", settings_.user);
  }
  for (const auto& [name, value] : call.query) add(name, value);
  // Sites that guard against forged requests ask for this header, whatever it says.
  return {.method = call.method, .url = std::move(url), .headers = {{"X-XSRF-HEADER", "muster"}}};
}

HttpResponse HdfsApi::send(const Call& call, const Adjust& adjust, const std::stop_token& stop) {
  std::size_t asked = active_;
  return http_.send(
      call.what,
      [&](int tries) {
        // Unless another thread has just turned away from the namenode that failed.
        if (tries > 1) active_.compare_exchange_strong(asked, asked + 1);
        asked = active_;
        HttpRequest made = request(call);
        if (adjust) adjust(made, tries);
        return made;
      },
      settings_.retry, stop, is_passing);
}

void HdfsApi::refuse(const Call& call, const HttpResponse& response) const {
  const HdfsRefusal refusal = parse_hdfs_refusal(response);
  const std::string why = refusal.exception.empty()
                              ? fmt::format("status {}", response.status)
                              : printable(fmt::format("{}: {}", refusal.exception,
                                                      refusal.message.substr(0, kMostWhyBytes)));
  const std::string& kind = refusal.exception;
  if (kind == "FileNotFoundException") throw NotFound("{}: {}", call.what, why);
  if (kind == "FileAlreadyExistsException") throw AlreadyExists("{}: {}", call.what, why);
  if (kind.ends_with("QuotaExceededException")) throw ResourceExhausted("{}: {}", call.what, why);
  if (is_passing(response) || is_worth_a_retry(response.status)) {
    throw Unavailable("{}: the namenode does not answer as it should ({}), also after retries",
                      call.what, why);
  }
  if (response.status == 401 || kind == "AccessControlException" || kind == "SecurityException") {
    throw PermissionDenied(
        "{}: refused ({}); {}", call.what, why,
        settings_.delegation_token.empty()
            ? fmt::format("the user is '{}' (HADOOP_USER_NAME); with Kerberos, set "
                          "MUSTER_HDFS_DELEGATION_TOKEN",
                          settings_.user)
            : "check MUSTER_HDFS_DELEGATION_TOKEN, which may have expired");
  }
  if (kind.empty() && !response.is_success()) {
    throw FailedPrecondition(
        "{}: {} speaks no WebHDFS ({}); name the HTTP address of the namenode in MUSTER_WEBHDFS, "
        "such as http://namenode:9870 (8020 is the port of another protocol)",
        call.what, loggable_url(namenodes_[active_ % namenodes_.size()]), why);
  }
  throw FailedPrecondition("{}: refused ({})", call.what, why);
}

std::optional<HdfsEntry> HdfsApi::status(const std::string& path) {
  const Call call = call_of("looking at", "GET", path, "GETFILESTATUS");
  const HttpResponse response = send(call);
  if (response.is_success()) {
    return parse_hdfs_entry(call.what, parse_hdfs_answer(call.what, response, "FileStatus"));
  }
  try {
    refuse(call, response);
  } catch (const NotFound&) {
    return std::nullopt;
  }
}

std::vector<HdfsEntry> HdfsApi::list(const std::string& folder) {
  const Call call = call_of("listing", "GET", folder, "LISTSTATUS");
  const HttpResponse response =
      send(call, [](HttpRequest& listing, int) { listing.most_answer_bytes = kMostListBytes; });
  if (!response.is_success()) refuse(call, response);
  const HdfsJson statuses = parse_hdfs_answer(call.what, response, "FileStatuses");
  const auto rows = statuses.is_object() ? statuses.find("FileStatus") : statuses.end();
  if (rows == statuses.end() || !rows->is_array()) {
    throw DataLoss("{}: the answer is no list", call.what);
  }
  std::vector<HdfsEntry> entries;
  for (const HdfsJson& row : *rows) {
    entries.push_back(parse_hdfs_entry(call.what, row));
    if (entries.back().name.empty()) throw FailedPrecondition("{}: it is a file", call.what);
  }
  return entries;
}

std::string HdfsApi::read(const std::string& path, std::uint64_t offset, std::uint64_t length,
                          const std::stop_token& stop) {
  Call call = call_of("reading", "GET", path, "OPEN");
  call.query = {{"offset", std::to_string(offset)}, {"length", std::to_string(length)}};
  HttpResponse response = send(
      call,
      [length](HttpRequest& open, int) {
        open.follow_redirects = true;
        open.most_answer_bytes = std::max(length, std::uint64_t{1} << 20);
        open.expected_answer_bytes = length;
        open.timeout = kHdfsDataTimeout;
      },
      stop);
  if (!response.is_success()) refuse(call, response);
  if (response.body.size() > length) {
    throw DataLoss("{}: {} bytes came where {} were asked for", call.what, response.body.size(),
                   length);
  }
  return std::move(response.body);
}

// In two steps: no byte goes to the namenode, which says who takes them.
HttpRequest HdfsApi::to_datanode(const Call& call, std::string_view bytes) {
  const HttpResponse answer = http_.send_once(request(call));
  const std::string location = answer.header("location");
  if (answer.status < 300 || answer.status >= 400 || location.empty()) {
    if (answer.is_success()) throw DataLoss("{}: the namenode names no datanode", call.what);
    refuse(call, answer);
  }
  parse_url(location);
  return {.method = call.method,
          .url = location,
          .headers = {{"Content-Type", "application/octet-stream"}, {"X-XSRF-HEADER", "muster"}},
          .body = bytes,
          .timeout = kHdfsDataTimeout,
          .is_sent_once = true};
}

void HdfsApi::send_bytes(const Call& call,
                         const std::function<std::string_view(int tries)>& bytes) {
  const HttpResponse response = send(call, [&](HttpRequest& made, int tries) {
    const std::string_view body = bytes(tries);
    made = to_datanode(call, body);
  });
  if (!response.is_success()) refuse(call, response);
}

void HdfsApi::create(const std::string& path, std::string_view bytes) {
  Call call = call_of("writing", "PUT", path, "CREATE");
  call.query = {{"overwrite", "true"}};
  send_bytes(call, [bytes](int) { return bytes; });
}

void HdfsApi::create_new(const std::string& path, std::string_view bytes) {
  Call call = call_of("writing", "PUT", path, "CREATE");
  call.query = {{"overwrite", "false"}};
  send_bytes(call, [bytes](int) { return bytes; });
}

void HdfsApi::append(const std::string& path, std::uint64_t base, std::string_view bytes,
                     bool was_tried) {
  const Call call = call_of("appending to", "POST", path, "APPEND");
  send_bytes(call, [&, bytes](int tries) {
    return tries > 1 || was_tried ? missing_part(call, base, bytes) : bytes;
  });
}

// After a call whose outcome is unknown: what of `bytes` is not in the file. An append of nothing
// comes first, since the length is not told truly before the last writer's lease has ended.
std::string_view HdfsApi::missing_part(const Call& call, std::uint64_t base,
                                       std::string_view bytes) {
  const HttpResponse closed = http_.send_once(to_datanode(call, ""));
  if (!closed.is_success()) refuse(call, closed);
  const auto found = status(call.path);
  const std::uint64_t size = found ? found->status.size_bytes : 0;
  if (size < base) {
    throw DataLoss("{}: it has {} bytes and had {} before", call.what, size, base);
  }
  if (size == base) return bytes;
  const std::string landed = read(call.path, base, size - base);
  if (bytes.starts_with(landed)) return bytes.substr(landed.size());
  // Others have appended too.
  return landed.find(bytes) != std::string::npos ? std::string_view() : bytes;
}

void HdfsApi::make_directories(const std::string& folder) {
  const Call call = call_of("making the folder", "PUT", folder, "MKDIRS");
  const HttpResponse response = send(call);
  if (!response.is_success()) refuse(call, response);
  if (parse_hdfs_boolean(response) == false) throw FailedPrecondition("{}: refused", call.what);
}

void HdfsApi::remove(const std::string& path, bool all) {
  Call call = call_of("removing", "DELETE", path, "DELETE");
  call.query = {{"recursive", all ? "true" : "false"}};
  const HttpResponse response = send(call);
  if (!response.is_success()) refuse(call, response);
}

// False where it was refused without a reason.
bool HdfsApi::try_to_rename(const Call& call, const std::string& to) {
  bool was_tried = false;
  const HttpResponse response = send(call, [&](HttpRequest& made, int tries) {
    made.is_sent_once = true;
    was_tried = tries > 1;
  });
  if (response.is_success() && parse_hdfs_boolean(response) != false) return true;
  // It may be done, by an earlier call whose answer got lost.
  if (was_tried && !status(call.path) && status(to)) return true;
  if (!response.is_success()) refuse(call, response);
  return false;
}

void HdfsApi::rename(const std::string& from, const std::string& to) {
  // Without the option, the file would be moved into the folder.
  if (const auto target = status(to); target && target->status.is_directory) {
    throw AlreadyExists("renaming {} to {}: that is a folder", shown(from), shown(to));
  }
  Call call = call_of("renaming", "PUT", from, "RENAME");
  call.query = {{"destination", to}, {"renameoptions", "OVERWRITE"}};
  if (try_to_rename(call, to)) return;
  // A gateway that knows no options refuses to replace a file by saying no.
  if (!status(from)) throw NotFound("{}: no such file", call.what);
  if (!status(to)) throw NotFound("{}: there is no folder for {}", call.what, shown(to));
  if (!said_that_rename_is_two_steps_.exchange(true)) {
    log::warning(
        "{} cannot replace a file in one step: the old one is removed first, and for a moment "
        "there is none",
        shown_);
  }
  remove(to, /*all=*/false);
  rename_to_new(from, to);
}

void HdfsApi::rename_to_new(const std::string& from, const std::string& to) {
  Call call = call_of("renaming", "PUT", from, "RENAME");
  // The option lets a refusal say why.
  call.query = {{"destination", to}, {"renameoptions", "NONE"}};
  if (try_to_rename(call, to)) return;
  if (!status(from)) throw NotFound("{}: no such file", call.what);
  throw AlreadyExists("{}: {} is there already, or its folder is not", call.what, shown(to));
}

}  // namespace muster::stores
