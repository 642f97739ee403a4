#include "muster/platform/stores/hdfs_settings.h"

#include <fmt/core.h>

#include <algorithm>
#include <pugixml.hpp>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/platform/stores/environment_variables.h"

namespace muster::stores {
namespace {

constexpr std::uint64_t kMostSiteBytes = std::uint64_t{16} << 20;
constexpr const char* kHttpPort = ":9870";
constexpr const char* kHttpsPort = ":9871";

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const auto end = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ') || item.ends_with('/')) item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

std::string property(const HdfsSettings& settings, const std::string& name) {
  const auto found = settings.site.find(name);
  return found == settings.site.end() ? "" : found->second;
}

// "namenode" of "namenode:8020".
std::string host_of(const std::string& authority) {
  return authority.substr(0, authority.rfind(':'));
}

bool has_port(const std::string& authority) { return authority.find(':') != std::string::npos; }

/// Which of the two ways a namenode is asked in.
struct WebScheme {
  std::string start{};
  std::string property{};
  std::string port{};
};

WebScheme web_scheme(const HdfsSettings& settings, std::string_view scheme) {
  const bool is_secure =
      scheme == "swebhdfs" ||
      (scheme == "hdfs" && property(settings, "dfs.http.policy") == "HTTPS_ONLY");
  if (is_secure) return {"https://", "dfs.namenode.https-address", kHttpsPort};
  return {"http://", "dfs.namenode.http-address", kHttpPort};
}

// Authority of "hdfs:///..." and "hdfs://default/...", as TensorFlow has them.
std::string default_authority(const HdfsSettings& settings) {
  const std::string url = property(settings, "fs.defaultFS");
  const auto begin = url.find("://");
  if (begin != std::string::npos) {
    const std::string rest = url.substr(begin + 3);
    const std::string authority = rest.substr(0, rest.find('/'));
    if (!authority.empty()) return authority;
  }
  throw InvalidArgument(
      "a path of HDFS names no namenode, and nothing else does: write hdfs://NAMENODE/..., set "
      "MUSTER_WEBHDFS=http://NAMENODE:9870, or name in HADOOP_CONF_DIR the folder whose "
      "core-site.xml has fs.defaultFS");
}

}  // namespace

std::map<std::string, std::string> parse_hadoop_site(const std::string& path,
                                                     std::string_view text) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(text.data(), text.size());
  const pugi::xml_node root = document.child("configuration");
  if (!parsed || !root) throw InvalidArgument("{} is no configuration of Hadoop", path);
  std::map<std::string, std::string> properties;
  for (const pugi::xml_node& row : root.children("property")) {
    properties[row.child_value("name")] = row.child_value("value");
  }
  return properties;
}

HdfsSettings HdfsSettings::from_environment() {
  HdfsSettings settings;
  settings.endpoints = split_list(variable("MUSTER_WEBHDFS"));
  for (const std::string& endpoint : settings.endpoints) {
    try {
      parse_url(endpoint);
    } catch (Error& error) {
      error.add_context("MUSTER_WEBHDFS must be URLs such as http://namenode:9870, with commas");
      throw;
    }
  }
  std::string folder = variable("HADOOP_CONF_DIR");
  if (folder.empty()) {
    const std::string home = first_variable({"HADOOP_HDFS_HOME", "HADOOP_HOME"});
    if (!home.empty()) folder = home + "/etc/hadoop";
  }
  for (const char* name : {"core-site.xml", "hdfs-site.xml"}) {
    const std::string path = folder + "/" + name;
    if (folder.empty() || !file_exists(path)) continue;
    settings.site.merge(parse_hadoop_site(path, read_file(path, kMostSiteBytes)));
  }
  settings.user = first_variable({"HADOOP_USER_NAME", "USER", "LOGNAME"});
  settings.delegation_token = variable("MUSTER_HDFS_DELEGATION_TOKEN");
  settings.retry.most_tries = static_cast<int>(
      number_variable("MUSTER_HDFS_MAX_ATTEMPTS", settings.retry.most_tries, 1, 1000));
  return settings;
}

std::vector<std::string> namenodes_of(const HdfsSettings& settings, std::string_view scheme,
                                      const std::string& given) {
  if (!settings.endpoints.empty()) return settings.endpoints;
  const std::string authority =
      given.empty() || given == "default" ? default_authority(settings) : given;
  const WebScheme web = web_scheme(settings, scheme);
  std::vector<std::string> urls;
  for (const std::string& id : split_list(property(settings, "dfs.ha.namenodes." + authority))) {
    const std::string address =
        property(settings, fmt::format("{}.{}.{}", web.property, authority, id));
    if (address.empty()) {
      throw InvalidArgument("hdfs-site.xml has no {}.{}.{}, the address of a namenode of hdfs://{}",
                            web.property, authority, id, authority);
    }
    urls.push_back(web.start + address);
  }
  if (!urls.empty()) return urls;
  if (scheme != "hdfs") {
    return {web.start + (has_port(authority) ? authority : authority + web.port)};
  }
  // The port of an hdfs:// path is that of Hadoop's own protocol, which is not spoken here.
  const std::string address = property(settings, web.property);
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? web.port : address.substr(colon);
  return {web.start + host_of(authority) + port};
}

}  // namespace muster::stores
