#include "muster/cli/remote_predict.h"

#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/lines.h"
#include "muster/cli/http_call.h"
#include "muster/serving/codec/instances.h"

// The texts are those of gcloud, which other programs read.

namespace muster::cli {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t kMostInstances = 100;
constexpr std::uint64_t kMostInstanceBytes = std::uint64_t{1} << 30;

std::string instance_text(const std::string& file) {
  if (file != "-") return read_file(file, kMostInstanceBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

// The request's body. Lines are checked here, so that the message has their numbers.
std::string request_body(const PredictFlags& flags) {
  if (!flags.json_request.empty()) return instance_text(flags.json_request);
  const bool is_json = !flags.json_instances.empty();
  const std::string text = instance_text(is_json ? flags.json_instances : flags.text_instances);
  const auto instances = is_json ? serving::Instances::from_json_lines(text)
                                 : serving::Instances::from_text_lines(text);
  if (instances.size() > kMostInstances) {
    throw InvalidArgument(
        "The gcloud CLI can currently process no more than 100 instances per file. Please use the "
        "API directly if you need to send more.");
  }
  std::string body = "{\"instances\": [";
  bool first = true;
  for (const std::string_view line : lines_of(without_byte_order_mark(text))) {
    if (!first) body += ", ";
    first = false;
    body += is_json ? std::string(line) : ordered(line).dump();
  }
  body += "]";
  if (!flags.signature_name.empty()) {
    body += ", \"signature_name\": " + ordered(flags.signature_name).dump();
  }
  return body + "}";
}

// The body of the answer.
std::string ask(const PredictFlags& flags, const std::string& body) {
  std::string path = "/v1/projects/local/models/" + path_part(flags.model);
  if (!flags.version.empty()) path += "/versions/" + path_part(flags.version);
  HttpReply reply = http_call(flags.server, "POST", path + ":predict", body);
  if (reply.status != 200) {
    throw FailedPrecondition("HTTP request failed. Response: {}", reply.body);
  }
  return std::move(reply.body);
}

// As Python writes a value inside of a list.
std::string cell_text(const ordered& value, bool is_inside) {
  if (value.is_string() && !is_inside) return value.get<std::string>();
  if (value.is_string()) return "'" + value.get<std::string>() + "'";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_array()) return value.dump();
  std::string text = "[";
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (i > 0) text += ", ";
    text += cell_text(value[i], true);
  }
  return text + "]";
}

std::string heading(std::string key) {
  for (char& c : key) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return key;
}

void print_rows(const ordered& predictions) {
  if (predictions.empty()) return;
  if (!predictions.front().is_object()) {
    for (const ordered& value : predictions) fmt::print("{}\n", cell_text(value, false));
    return;
  }
  std::vector<std::string> keys;
  for (const auto& row : predictions.front().items()) keys.push_back(row.key());
  std::ranges::sort(keys);
  std::vector<std::vector<std::string>> columns;
  std::size_t rows = predictions.size();
  for (const std::string& key : keys) {
    auto& column = columns.emplace_back();
    column.push_back(heading(key));
    for (const ordered& one : predictions) {
      column.push_back(one.contains(key) ? cell_text(one[key], false) : "");
    }
  }
  for (std::size_t row = 0; row <= rows; ++row) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::size_t width = 0;
      for (const std::string& cell : columns[i]) width = std::max(width, cell.size());
      line += columns[i][row];
      if (i + 1 < columns.size()) line.append(width - columns[i][row].size() + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

}  // namespace

void predict_remotely(const PredictFlags& flags) {
  const std::string content = ask(flags, request_body(flags));
  if (flags.as_json) {
    fmt::print("{}\n", content);
    return;
  }
  const ordered answer = ordered::parse(content, nullptr, /*allow_exceptions=*/false);
  const bool is_list =
      answer.is_object() && answer.contains("predictions") && answer["predictions"].is_array();
  // NaN and Infinity are no JSON: the answer is shown as it came then.
  if (is_list) {
    print_rows(answer["predictions"]);
  } else {
    fmt::print("{}\n", content);
  }
}

}  // namespace muster::cli
