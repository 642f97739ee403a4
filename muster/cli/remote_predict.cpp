#include "muster/cli/remote_predict.h"

#include <fmt/core.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/lines.h"
#include "muster/serving/instances.h"

// The texts are those of gcloud, which other programs read.

namespace muster::cli {
namespace {

using ordered = nlohmann::ordered_json;

constexpr std::size_t kMostInstances = 100;
constexpr std::uint64_t kMostInstanceBytes = std::uint64_t{1} << 30;
constexpr std::size_t kMostAnswerBytes = std::size_t{1} << 30;
constexpr int kAnswerSeconds = 120;

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

/// A connection to "host:port", closed at the end.
class Socket {
 public:
  explicit Socket(const std::string& address) {
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) {
      throw UsageError("--server must be HOST:PORT: {}", address);
    }
    const std::string host = address.substr(0, colon);
    const std::string port = address.substr(colon + 1);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
      throw Unavailable("--server {}: {}", address, ::gai_strerror(error));
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    int failure = 0;
    for (const addrinfo* one = found; one != nullptr && descriptor_ < 0; one = one->ai_next) {
      failure = open(*one);
    }
    if (descriptor_ < 0) {
      throw Unavailable(
          "no server answers at {}: {}; start one with muster serve, or name it with "
          "--server HOST:PORT",
          address, std::generic_category().message(failure));
    }
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) throw Unavailable("the server went away while it was asked");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string read_to_end() const {
    std::string text;
    char piece[1 << 16];
    while (true) {
      const ssize_t size = ::recv(descriptor_, piece, sizeof piece, 0);
      if (size < 0) throw Unavailable("the server gave no answer within {} s", kAnswerSeconds);
      if (size == 0) return text;
      text.append(piece, static_cast<std::size_t>(size));
      if (text.size() > kMostAnswerBytes) throw ResourceExhausted("the answer is too large");
    }
  }

 private:
  // 0, or why not.
  int open(const addrinfo& address) {
    const int made = ::socket(address.ai_family, address.ai_socktype, address.ai_protocol);
    if (made < 0) return errno;
    const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
    ::setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(made, address.ai_addr, address.ai_addrlen) != 0) {
      const int failure = errno;
      ::close(made);
      return failure;
    }
    descriptor_ = made;
    return 0;
  }

  int descriptor_ = -1;
};

// A part of a path, with everything spelt out that is no letter or digit.
std::string path_part(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

// The body of the answer. HTTP/1.0, so that it comes in one piece up to the end of the connection.
std::string ask(const PredictFlags& flags, const std::string& body) {
  std::string path = "/v1/projects/local/models/" + path_part(flags.model);
  if (!flags.version.empty()) path += "/versions/" + path_part(flags.version);
  std::string request = fmt::format(
      "POST {}:predict HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n",
      path, flags.server, body.size());
  if (const char* const token = std::getenv("MUSTER_TOKEN")) {
    request += fmt::format("Authorization: Bearer {}\r\n", token);
  }
  const Socket socket(flags.server);
  socket.send_all(request + "\r\n");
  socket.send_all(body);
  const std::string answer = socket.read_to_end();
  const auto end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.") || end == std::string::npos) {
    throw Unavailable("what answers at {} does not speak HTTP", flags.server);
  }
  std::string content = answer.substr(end + 4);
  if (answer.substr(8, 5) != " 200 ") {
    throw FailedPrecondition("HTTP request failed. Response: {}", content);
  }
  return content;
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
