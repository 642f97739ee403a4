#include "muster/console/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/console/console.h"
#include "muster/console/web_files.h"

namespace muster::console {
namespace {

using nlohmann::json;

constexpr std::size_t kMostReportedRuns = 200;
constexpr std::string_view kEntry = "report.js";
// Modules that talk to a console or to its address, and those that stand for them in a file.
const std::map<std::string_view, std::string_view> kReportModules{
    {"api.js", "report-api.js"}, {"page-state.js", "report-state.js"}};

std::string_view web_file(std::string_view name) {
  const auto files = web_files();
  const auto found = std::ranges::find(files, name, &WebFile::name);
  if (found == files.end()) throw Internal("there is no page {}", name);
  return found->bytes;
}

// A module whose imports './x.js' are the names 'muster/x.js' of an import map: an address that is
// relative leads nowhere from data.
std::string with_names(std::string_view source, std::set<std::string>& imports) {
  constexpr std::string_view kBegin = "'./";
  std::string out;
  for (std::size_t at = 0;;) {
    const auto begin = source.find(kBegin, at);
    if (begin == source.npos) return out.append(source.substr(at));
    const auto end = source.find('\'', begin + 1);
    if (end == source.npos) throw Internal("a text of a page has no end");
    const auto name = source.substr(begin + kBegin.size(), end - begin - kBegin.size());
    out.append(source.substr(at, begin - at)).append("'muster/").append(name).append("'");
    imports.emplace(name);
    at = end + 1;
  }
}

// All modules that the entry needs, by name.
json import_map() {
  json addresses = json::object();
  std::set<std::string> wanted{std::string(kEntry)};
  while (!wanted.empty()) {
    const std::string name = std::move(wanted.extract(wanted.begin()).value());
    const std::string key = "muster/" + name;
    if (addresses.contains(key)) continue;
    const auto other = kReportModules.find(name);
    std::set<std::string> imports;
    const std::string source =
        with_names(web_file(other == kReportModules.end() ? name : other->second), imports);
    addresses[key] = "data:text/javascript;base64," + base64_encode(source);
    wanted.merge(imports);
  }
  return {{"imports", std::move(addresses)}};
}

// JSON that nothing in it can end the element around.
std::string inside_script(const json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '&' || c == '"') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string query_word(std::string_view text) {
  std::string out;
  for (const char c : text) out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

// The answer that a page would get.
json answer_of(Console& console, const std::string& target) {
  const auto answer = console.handle({.method = "GET",
                                      .target = target,
                                      .headers = {{"Host", "localhost"}},
                                      .is_from_this_host = true});
  json value = json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (answer.status != 200) throw Internal("{}: {}", target, answer.body);
  return value;
}

json data_of(const ReportOptions& options) {
  Console console({.log_folders = options.runs});
  json runs = json::array();
  std::set<std::string> tags;
  std::string query;
  const json list = answer_of(console, "/api/runs");
  for (const json& run : list["runs"]) {
    const std::string id = query_word(run["id"].get<std::string>());
    runs.push_back(answer_of(console, "/api/run?id=" + id));
    for (const json& scalar : runs.back()["scalars"]) tags.insert(scalar["tag"]);
    query += "&run=" + id;
  }
  if (runs.empty()) throw NotFound("there are no runs below {}", options.runs.front().string());
  if (runs.size() > kMostReportedRuns) {
    throw InvalidArgument("a report has at most {} runs, and these are {}: name fewer",
                          kMostReportedRuns, runs.size());
  }
  json curves = json::object();
  for (const std::string& tag : tags) {
    curves[tag] = answer_of(console, fmt::format("/api/scalars?points={}&tag={}{}", options.points,
                                                 query_word(tag), query))["curves"];
  }
  return {{"title", options.title},
          {"version", MUSTER_VERSION},
          {"runs", std::move(runs)},
          {"curves", std::move(curves)}};
}

}  // namespace

std::string report_html(const ReportOptions& options) {
  if (options.runs.empty()) throw InvalidArgument("a report needs the folder of a run");
  for (const Path& run : options.runs) {
    if (!std::filesystem::is_directory(run)) {
      throw NotFound("RUN {}: there is no such folder on this host", run.string());
    }
  }
  const std::string data = inside_script(data_of(options));
  return fmt::format(R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:">
<title>{}</title>
<style>
{}</style>
<script type="importmap">{}</script>
</head>
<body>
<muster-report><noscript>This report needs JavaScript.</noscript></muster-report>
<script type="application/json" id="report-data">{}</script>
<script type="module">import 'muster/{}';</script>
</body>
</html>
)html",
                     escaped(options.title), web_file("style.css"), inside_script(import_map()),
                     data, kEntry);
}

}  // namespace muster::console
