#include "muster/testing/fake_webhdfs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::testing {
namespace {

constexpr const char* kStart = "/webhdfs/v1";

CannedResponse refusal(int status, const std::string& exception, const std::string& message) {
  return {
      .status = status,
      .headers = {{"Content-Type", "application/json"}},
      .body = fmt::format(
          R"({{"RemoteException": {{"exception": "{0}", "javaClassName": "java.io.{0}", "message": "{1}"}}}})",
          exception, message)};
}

CannedResponse no_such(const std::string& path) {
  return refusal(404, "FileNotFoundException", "File does not exist: /" + path);
}

CannedResponse taken(const std::string& path) {
  return refusal(403, "FileAlreadyExistsException", "/" + path + " already exists");
}

CannedResponse boolean(bool value) { return {.body = fmt::format(R"({{"boolean": {}}})", value)}; }

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

FakeWebHdfs::FakeWebHdfs()
    : FakeStore(refusal(503, "RetriableException", "busy")),
      datanode_([this](const HttpCall& call) { return handle(call); }),
      namenode_([this](const HttpCall& call) { return handle(call); }) {}

std::size_t FakeWebHdfs::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(objects_, [](const auto& row) {
    return row.first.find(".tmp-") != std::string::npos ||
           row.first.find(".on-its-way-") != std::string::npos;
  }));
}

std::set<std::string> FakeWebHdfs::users() const {
  const std::lock_guard lock(mutex_);
  return users_;
}

CannedResponse FakeWebHdfs::act(const HttpCall& call) {
  const std::string op = call.parameter("op").value_or("");
  ++calls_[op];
  users_.insert(
      call.parameter("user.name").value_or("token " + call.parameter("delegation").value_or("")));
  std::string path = percent_decoded(call.path.substr(std::string(kStart).size()));
  while (path.starts_with('/')) path.erase(0, 1);
  if (!call.parameter("at-datanode")) {
    if (op == "OPEN" || op == "CREATE" || op == "APPEND") return redirect(call, op, path);
  }
  if (op == "GETFILESTATUS") return status(path);
  if (op == "LISTSTATUS") return list(path);
  if (op == "OPEN") return open(call, path);
  if (op == "CREATE") return create(call, path);
  if (op == "APPEND") return append(call, path);
  if (op == "MKDIRS") return make_folders(path);
  if (op == "RENAME") return rename(call, path);
  if (op == "DELETE") return remove(call, path);
  return refusal(400, "UnsupportedOperationException", op);
}

CannedResponse FakeWebHdfs::redirect(const HttpCall& call, const std::string& op,
                                     const std::string& path) {
  if (!call.body.empty()) return refusal(400, "IllegalArgumentException", "a body at the namenode");
  if (op != "CREATE" && !objects_.contains(path)) return no_such(path);
  if (op == "CREATE" && objects_.contains(path) && call.parameter("overwrite") != "true") {
    return taken(path);
  }
  return {.status = 307,
          .headers = {{"Location", fmt::format("{}{}?{}&at-datanode=1", datanode_.url(), call.path,
                                               call.query)}}};
}

bool FakeWebHdfs::is_folder(const std::string& path) const {
  if (path.empty() || folders_.contains(path)) return true;
  const auto next = objects_.lower_bound(path + "/");
  return next != objects_.end() && next->first.starts_with(path + "/");
}

std::string FakeWebHdfs::entry(const std::string& path, const std::string& name) const {
  const auto found = objects_.find(path);
  const bool is_file = found != objects_.end();
  return fmt::format(
      R"({{"pathSuffix": "{}", "type": "{}", "length": {}, "modificationTime": 1782000000250, "fileId": {}}})",
      name, is_file ? "FILE" : "DIRECTORY", is_file ? found->second.bytes.size() : 0,
      is_file ? found->second.version : "16384");
}

CannedResponse FakeWebHdfs::status(const std::string& path) const {
  if (!exists(path)) return no_such(path);
  return {.body = fmt::format(R"({{"FileStatus": {}}})", entry(path, ""))};
}

CannedResponse FakeWebHdfs::list(const std::string& path) const {
  if (!exists(path)) return no_such(path);
  std::vector<std::string> rows;
  if (objects_.contains(path)) {
    rows.push_back(entry(path, ""));
  } else {
    const std::string start = path.empty() ? "" : path + "/";
    std::set<std::string> names;
    const auto look = [&](const std::string& other) {
      if (!other.starts_with(start) || other.size() == start.size()) return;
      names.insert(other.substr(start.size(), other.find('/', start.size()) - start.size()));
    };
    for (const auto& object : objects_) look(object.first);
    for (const auto& folder : folders_) look(folder);
    for (const auto& name : names) rows.push_back(entry(start + name, name));
  }
  return {.body =
              fmt::format(R"({{"FileStatuses": {{"FileStatus": [{}]}}}})", fmt::join(rows, ", "))};
}

CannedResponse FakeWebHdfs::open(const HttpCall& call, const std::string& path) const {
  const auto found = objects_.find(path);
  if (found == objects_.end()) return no_such(path);
  const std::size_t offset = std::stoul(call.parameter("offset").value_or("0"));
  const std::size_t length = std::stoul(call.parameter("length").value_or("1000000000"));
  if (offset > found->second.bytes.size()) return refusal(403, "EOFException", "out of range");
  return {.body = found->second.bytes.substr(offset, length)};
}

void FakeWebHdfs::make_parents(const std::string& path) {
  for (std::string folder = parent_of(path); !folder.empty(); folder = parent_of(folder)) {
    folders_.insert(folder);
  }
}

CannedResponse FakeWebHdfs::create(const HttpCall& call, const std::string& path) {
  if (is_folder(path)) return taken(path);
  if (objects_.contains(path) && call.parameter("overwrite") != "true") return taken(path);
  make_parents(path);
  store(path, call.body);
  return {.status = 201};
}

CannedResponse FakeWebHdfs::append(const HttpCall& call, const std::string& path) {
  const auto found = objects_.find(path);
  if (found == objects_.end()) return no_such(path);
  if (!call.body.empty() && cuts_ > 0) {
    --cuts_;
    found->second.bytes += call.body.substr(0, call.body.size() / 2);
    return {.hang_up = true};
  }
  found->second.bytes += call.body;
  return {};
}

CannedResponse FakeWebHdfs::make_folders(const std::string& path) {
  if (objects_.contains(path)) return taken(path);
  make_parents(path);
  if (!path.empty()) folders_.insert(path);
  return boolean(true);
}

void FakeWebHdfs::move(const std::string& from, const std::string& to) {
  std::map<std::string, Object> objects;
  for (auto& [name, object] : objects_) {
    const bool moves = name == from || name.starts_with(from + "/");
    objects[moves ? to + name.substr(from.size()) : name] = std::move(object);
  }
  objects_ = std::move(objects);
  std::set<std::string> folders;
  for (const auto& name : folders_) {
    const bool moves = name == from || name.starts_with(from + "/");
    folders.insert(moves ? to + name.substr(from.size()) : name);
  }
  folders_ = std::move(folders);
}

CannedResponse FakeWebHdfs::rename(const HttpCall& call, const std::string& from) {
  std::string to = call.parameter("destination").value_or("/").substr(1);
  const auto options =
      knows_options_ ? call.parameter("renameoptions") : std::optional<std::string>();
  if (!options) {
    if (is_folder(to)) to += from.substr(from.rfind('/'));
    if (!exists(from) || exists(to) || !is_folder(parent_of(to))) return boolean(false);
    move(from, to);
    return boolean(true);
  }
  if (!exists(from)) return no_such(from);
  if (!is_folder(parent_of(to))) return no_such(parent_of(to));
  if (exists(to) && (options != "OVERWRITE" || is_folder(to))) return taken(to);
  objects_.erase(to);
  move(from, to);
  return {};
}

CannedResponse FakeWebHdfs::remove(const HttpCall& call, const std::string& path) {
  if (!exists(path)) return boolean(false);
  const auto is_inside = [&](const std::string& name) { return name.starts_with(path + "/"); };
  const bool is_empty =
      std::ranges::none_of(objects_, [&](const auto& row) { return is_inside(row.first); }) &&
      std::ranges::none_of(folders_, is_inside);
  if (!is_empty && call.parameter("recursive") != "true") {
    return refusal(403, "PathIsNotEmptyDirectoryException", "/" + path + " is non empty");
  }
  std::erase_if(objects_,
                [&](const auto& row) { return row.first == path || is_inside(row.first); });
  std::erase_if(folders_, [&](const auto& name) { return name == path || is_inside(name); });
  return boolean(true);
}

}  // namespace muster::testing
