#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/platform/stores/hdfs_settings.h"
#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// A file or folder as a namenode knows it.
struct HdfsEntry {
  /// Empty where it was asked for by its path.
  std::string name{};
  FileStatus status{};
  /// Stays with the file when that is renamed or grows; another file has another.
  std::string file_id{};
};

/// One HDFS by the REST API of its namenodes and datanodes (WebHDFS). Paths begin with '/'. Calls
/// retry what is worth it, with the other namenode where there is one. Any thread may make them.
class HdfsApi {
 public:
  /// `shown` stands before paths in messages: "hdfs://namenode".
  HdfsApi(HdfsSettings settings, std::vector<std::string> namenodes, std::string shown);

  /// Nothing where there is no such file or folder.
  std::optional<HdfsEntry> status(const std::string& path);
  /// Throws NotFound.
  std::vector<HdfsEntry> list(const std::string& folder);
  /// Fewer bytes only at the end.
  std::string read(const std::string& path, std::uint64_t offset, std::uint64_t length,
                   const std::stop_token& stop = {});
  /// Replaces the file.
  void create(const std::string& path, std::string_view bytes);
  /// Throws AlreadyExists; also when it was this call whose answer got lost.
  void create_new(const std::string& path, std::string_view bytes);
  /// Adds to a file that had `base` bytes. A call whose answer got lost adds nothing twice;
  /// `was_tried` says that an earlier one may have added some of these bytes.
  void append(const std::string& path, std::uint64_t base, std::string_view bytes,
              bool was_tried = false);
  void make_directories(const std::string& folder);
  /// A missing path is no error. Throws FailedPrecondition for a folder with something in it,
  /// unless `all` of it is to go.
  void remove(const std::string& path, bool all);
  /// In one step. Throws NotFound.
  void rename(const std::string& from, const std::string& to);
  /// The same, where `to` must not be there: throws AlreadyExists.
  void rename_to_new(const std::string& from, const std::string& to);

  std::uint64_t part_bytes() const { return settings_.part_bytes; }
  /// "hdfs://namenode/path".
  std::string shown(const std::string& path) const { return shown_ + path; }

 private:
  struct Call {
    std::string what{};
    std::string method = "GET";
    std::string path{};
    std::string op{};
    std::vector<std::pair<std::string, std::string>> query{};
  };

  Call call_of(const char* verb, const char* method, const std::string& path, const char* op) const;
  HttpRequest request(const Call& call) const;
  /// Changes a request before it is sent.
  using Adjust = std::function<void(HttpRequest& request, int tries)>;
  HttpResponse send(const Call& call, const Adjust& adjust = {}, const std::stop_token& stop = {});
  HttpRequest to_datanode(const Call& call, std::string_view bytes);
  void send_bytes(const Call& call, const std::function<std::string_view(int tries)>& bytes);
  std::string_view missing_part(const Call& call, std::uint64_t base, std::string_view bytes);
  bool try_to_rename(const Call& call, const std::string& to);
  [[noreturn]] void refuse(const Call& call, const HttpResponse& response) const;

  const HdfsSettings settings_;
  const std::vector<std::string> namenodes_;
  const std::string shown_;
  HttpClient http_;
  std::atomic<std::size_t> active_{0};
  std::atomic<bool> said_that_rename_is_two_steps_{false};
};

}  // namespace muster::stores
