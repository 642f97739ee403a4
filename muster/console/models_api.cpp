#include "muster/console/models_api.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"

namespace muster::console {
namespace {

using nlohmann::json;

std::string dumped_models(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json parsed(const std::string& text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// A part of a path, with everything spelt out that is no letter or digit.
std::string spelt(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-';
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// The third, fourth and fifth part are server, model and version.
std::string model_path(const ApiRequest& request) {
  const std::string& version = request.path.at(4);
  if (version.empty() || version.find_first_not_of("0123456789") != version.npos) {
    throw InvalidArgument("a version is a number");
  }
  return fmt::format("/v1/models/{}/versions/{}", spelt(request.path.at(3)), version);
}

json counts_of(const json& stats) {
  const auto at = [&](const char* group, const char* key) -> json {
    const json::json_pointer place(fmt::format("/inference_stats/{}/{}", group, key));
    return stats.contains(place) ? stats[place] : json(0);
  };
  return {{"instances", stats.value("inference_count", json(0))},
          {"answered", at("success", "count")},
          {"answeredNs", at("success", "ns")},
          {"refused", at("fail", "count")},
          {"computeNs", at("compute_infer", "ns")},
          {"queueNs", at("queue", "ns")}};
}

std::string version_key(const json& entry) {
  return entry.value("name", "") + "\n" + entry.value("version", "");
}

}  // namespace

const std::string& ModelsApi::server_of(const ApiRequest& request) const {
  const std::string& word = request.path.at(2);
  std::size_t place = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), place);
  if (error != std::errc() || end != word.data() + word.size() ||
      place >= options_.servers.size()) {
    throw NotFound("there is no such server");
  }
  return options_.servers[place];
}

serving::HttpResponse ModelsApi::list() const {
  json servers = json::array();
  for (const std::string& server : options_.servers) {
    json one{{"server", server}, {"models", json::array()}, {"time", 0}};
    try {
      const json index = parsed(options_.call(server, "POST", "/v2/repository/index", "{}").body);
      const json stats = parsed(options_.call(server, "GET", "/v2/models/stats", "").body);
      if (!index.is_array()) throw Unavailable("what answers is no server of models");
      std::map<std::string, json> counts;
      if (stats.is_object() && stats.contains("model_stats")) {
        for (const json& entry : stats["model_stats"])
          counts[version_key(entry)] = counts_of(entry);
      }
      for (const json& entry : index) {
        one["models"].push_back(entry);
        if (const auto found = counts.find(version_key(entry)); found != counts.end()) {
          one["models"].back()["counts"] = found->second;
        }
      }
      one["time"] =
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count();
    } catch (const Error& error) {
      one["problem"] = error.message();
    } catch (const json::exception&) {
      one["problem"] = "its answer is not that of a server of models";
    }
    servers.push_back(std::move(one));
  }
  return {.body = dumped_models(json{{"servers", std::move(servers)}})};
}

serving::HttpResponse ModelsApi::nodes(const ApiRequest& request) const {
  const std::string since = request.first("since").value_or("0");
  if (since.empty() || since.find_first_not_of("0123456789.") != since.npos) {
    throw InvalidArgument("since is a number of seconds");
  }
  try {
    const ServerReply reply = options_.call(server_of(request), "GET", "/nodes?since=" + since, "");
    const json page = parsed(reply.body);
    if (reply.status == 200 && page.is_object() && page.contains("nodes")) {
      return {.body = reply.body};
    }
  } catch (const Unavailable&) {
    // The list of servers says so.
  }
  return {.body = "{}"};
}

serving::HttpResponse ModelsApi::metadata(const ApiRequest& request) const {
  const ServerReply reply =
      options_.call(server_of(request), "GET", model_path(request) + "/metadata", "");
  return {.status = reply.status, .body = reply.body};
}

serving::HttpResponse ModelsApi::predict(const ApiRequest& request) const {
  const std::string& server = server_of(request);
  const std::string path = model_path(request) + ":predict";
  const auto began = std::chrono::steady_clock::now();
  const ServerReply reply = options_.call(server, "POST", path, request.body);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  return {.body = dumped_models(json{{"status", reply.status},
                                     {"milliseconds", took.count()},
                                     {"url", fmt::format("http://{}{}", server, path)},
                                     {"body", reply.body}})};
}

// A folder of models names its versions, "v1"; the index has the names as labels.
std::string ModelsApi::name_of_version(const std::string& server, const std::string& model,
                                       const std::string& version) const {
  const json index = parsed(options_.call(server, "POST", "/v2/repository/index", "{}").body);
  const json::json_pointer first("/parameters/labels/0");
  for (const json& entry : index.is_array() ? index : json::array()) {
    if (!entry.is_object() || entry.value("name", json()) != model) continue;
    if (entry.value("version", json()) != version || !entry.contains(first)) continue;
    if (entry[first].is_string()) return entry[first].get<std::string>();
  }
  return version;
}

serving::HttpResponse ModelsApi::set_default(const ApiRequest& request) const {
  model_path(request);
  const std::string& server = server_of(request);
  const ServerReply reply = options_.call(
      server, "POST",
      fmt::format("/v1/projects/local/models/{}/versions/{}:setDefault", spelt(request.path.at(3)),
                  spelt(name_of_version(server, request.path.at(3), request.path.at(4)))),
      "{}");
  if (reply.status == 200) return {.body = "{}"};
  throw FailedPrecondition("the server refuses: {}", reply.body.substr(0, 500));
}

}  // namespace muster::console
