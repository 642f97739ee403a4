#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// Where the namenodes of HDFS are, and who asks them, from the variables and files of Hadoop that
/// TensorFlow's users have: HADOOP_CONF_DIR (or etc/hadoop below HADOOP_HDFS_HOME or HADOOP_HOME)
/// with core-site.xml and hdfs-site.xml, HADOOP_USER_NAME; and MUSTER_WEBHDFS,
/// MUSTER_HDFS_DELEGATION_TOKEN.
struct HdfsSettings {
  /// Throws InvalidArgument, naming the variable or the file, for what cannot be used.
  static HdfsSettings from_environment();

  /// The addresses to ask for all paths: "http://host:9870". Empty: as the path and `site` say.
  std::vector<std::string> endpoints{};
  /// The properties of core-site.xml and hdfs-site.xml.
  std::map<std::string, std::string> site{};
  /// Sent as user.name where there is no token.
  std::string user{};
  /// A secret.
  std::string delegation_token{};
  /// A writer that died keeps its file for a minute: more tries than elsewhere.
  RetryPolicy retry{.most_tries = 24};
  /// Bytes of one range of a read, and of one piece of a write.
  std::uint64_t part_bytes = std::uint64_t{8} << 20;
};

/// The WebHDFS addresses of the namenodes behind "hdfs://AUTHORITY/...", the active one among them;
/// `scheme` is hdfs, webhdfs or swebhdfs. Throws InvalidArgument, saying what to set, where none is
/// known.
std::vector<std::string> namenodes_of(const HdfsSettings& settings, std::string_view scheme,
                                      const std::string& authority);

/// The properties of a *-site.xml. Throws InvalidArgument, naming `path`, for any other text.
std::map<std::string, std::string> parse_hadoop_site(const std::string& path,
                                                     std::string_view text);

}  // namespace muster::stores
