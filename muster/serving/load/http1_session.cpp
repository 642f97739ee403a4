// HTTP/1.1 as a client speaks it: lengths, chunks, connections that are kept.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "muster/base/printable.h"
#include "muster/serving/load/client_session.h"

namespace muster::serving {
namespace {

constexpr std::size_t kMostHeaderBytes = 64 << 10;
constexpr std::size_t kMostMessageBytes = 300;
constexpr std::string_view kVersion = "HTTP/1.";

bool equal_in_any_case(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case, [](char one, char other) {
    return (one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one) == other;
  });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// A body on one line, as a message.
std::string message_in(std::string_view body) {
  std::string out;
  for (const char c : body.substr(0, kMostMessageBytes)) {
    const bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    if (!is_space) out += c;
    if (is_space && !out.empty() && out.back() != ' ') out += ' ';
  }
  return printable_line(out);
}

struct AnswerHeader {
  int status = 0;
  std::optional<std::size_t> length{};
  bool is_chunked = false;
  /// Its body is in a form that this client does not read.
  bool has_unknown_coding = false;
  bool closes = false;
};

void read_field(std::string_view line, AnswerHeader& header) {
  const auto colon = line.find(':');
  if (colon == line.npos) return;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (equal_in_any_case(name, "content-length")) {
    std::size_t length = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), length);
    if (read.ec == std::errc()) header.length = length;
  } else if (equal_in_any_case(name, "transfer-encoding")) {
    header.is_chunked = equal_in_any_case(trimmed(value.substr(value.rfind(',') + 1)), "chunked");
    header.has_unknown_coding = !header.is_chunked;
  } else if (equal_in_any_case(name, "connection")) {
    header.closes = equal_in_any_case(value, "close");
  }
}

// Nothing when it is no header of HTTP/1.
std::optional<AnswerHeader> read_header(std::string_view text) {
  AnswerHeader header;
  if (!text.starts_with(kVersion) || text.size() < 12) return std::nullopt;
  header.closes = text[kVersion.size()] == '0';
  const auto read = std::from_chars(text.data() + 9, text.data() + 12, header.status);
  if (read.ec != std::errc() || read.ptr != text.data() + 12) return std::nullopt;
  for (auto end = text.find("\r\n"); end != text.npos; end = text.find("\r\n")) {
    text.remove_prefix(end + 2);
    read_field(text.substr(0, text.find("\r\n")), header);
  }
  return header;
}

class Http1Session final : public ClientSession {
 public:
  Http1Session(Options options, OnAnswer on_answer)
      : options_(std::move(options)), on_answer_(std::move(on_answer)) {}

  bool can_send() const override { return !is_busy_ && !is_over_; }
  std::size_t in_flight() const override { return is_busy_ ? 1 : 0; }

  void send(std::uint64_t tag, const PreparedRequest& request) override {
    tag_ = tag;
    is_busy_ = true;
    output_ += header_of(request);
    output_ += request.body;
  }

  bool cancel(std::uint64_t) override {
    is_busy_ = false;
    is_over_ = true;
    return false;
  }

  bool receive(std::string_view bytes) override {
    if (!is_busy_) {  // An answer without a request.
      is_over_ = true;
      return false;
    }
    input_ += bytes;
    while (is_busy_ && !is_over_ && step()) continue;
    if (!is_busy_ && !input_.empty()) is_over_ = true;
    return !is_over_;
  }

  void close(std::string_view why) override {
    is_over_ = true;
    if (!is_busy_) return;
    if (header_ && !header_->length && !header_->is_chunked) {  // The body ends here.
      body_ = std::exchange(input_, {});
      return finish();
    }
    fail("connection closed", why);
  }

  void take_output(std::string& out) override {
    out += output_;
    output_.clear();
  }

 private:
  // The same for every request of a kind, so it is laid out once.
  const std::string& header_of(const PreparedRequest& request) {
    const auto [found, is_new] = headers_.try_emplace(&request);
    if (is_new) {
      found->second = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.path,
                                  options_.authority);
      if (!options_.token.empty()) {
        found->second += fmt::format("Authorization: Bearer {}\r\n", options_.token);
      }
      found->second += request.method == "GET"
                           ? "\r\n"
                           : fmt::format(
                                 "Content-Type: application/json\r\nContent-Length: "
                                 "{}\r\n\r\n",
                                 request.body.size());
    }
    return found->second;
  }

  // Reads on in the input; false when it takes more bytes.
  bool step() {
    if (!header_) return step_header();
    if (header_->is_chunked) return step_chunk();
    const std::size_t length = header_->length.value_or(options_.most_answer_bytes);
    if (input_.size() > options_.most_answer_bytes) return end_with("its answer is too long");
    if (input_.size() < length) return false;
    body_.assign(input_, 0, length);
    input_.erase(0, length);
    finish();
    return true;
  }

  bool step_header() {
    if (!input_.starts_with(kVersion.substr(0, input_.size()))) {
      return end_with("its answer is not HTTP/1.1");
    }
    const auto end = input_.find("\r\n\r\n");
    if (end == input_.npos) {
      return input_.size() > kMostHeaderBytes && end_with("its header is too long");
    }
    header_ = read_header(std::string_view(input_).substr(0, end + 2));
    if (!header_) return end_with("its answer is not HTTP/1.1");
    input_.erase(0, end + 4);
    if (header_->status < 200) {  // 100 Continue
      header_.reset();
      return true;
    }
    if (header_->status == 204 || header_->status == 304) {
      *header_ = {.status = header_->status, .length = 0, .closes = header_->closes};
    }
    if (header_->has_unknown_coding) {
      return end_with("its Transfer-Encoding is not chunked");
    }
    return header_->length.value_or(0) <= options_.most_answer_bytes ||
           end_with("its answer is too long");
  }

  bool step_chunk() {
    const auto end = input_.find("\r\n");
    if (end == input_.npos)
      return input_.size() > kMostHeaderBytes && end_with("its chunk is wrong");
    std::size_t size = 0;
    const auto read = std::from_chars(input_.data(), input_.data() + end, size, 16);
    if (read.ec != std::errc() || size > options_.most_answer_bytes - body_.size()) {
      return end_with("its chunk is wrong");
    }
    if (size == 0) {
      const auto last = input_.find("\r\n\r\n", end);
      if (last == input_.npos) {
        return input_.size() > kMostHeaderBytes && end_with("its trailer is too long");
      }
      input_.erase(0, last + 4);
      finish();
      return true;
    }
    if (input_.size() < end + 2 + size + 2) return false;
    body_.append(input_, end + 2, size);
    input_.erase(0, end + 2 + size + 2);
    return true;
  }

  bool end_with(std::string_view why) {
    is_over_ = true;
    fail("bad answer", why);
    return false;
  }

  void finish() {
    const AnswerHeader header = *header_;
    if (header.closes) is_over_ = true;
    ClientAnswer answer{.tag = tag_};
    if (header.status != 200) {
      answer.kind = AnswerKind::kFailed;
      answer.error = fmt::format("HTTP {}", header.status);
      answer.message = message_in(body_);
    }
    if (options_.keep_bodies) answer.body = std::move(body_);
    report(std::move(answer));
  }

  void fail(const char* error, std::string_view why) {
    report({.tag = tag_, .kind = AnswerKind::kFailed, .error = error, .message = std::string(why)});
  }

  void report(ClientAnswer answer) {
    is_busy_ = false;
    header_.reset();
    body_.clear();
    on_answer_(std::move(answer));
  }

  const Options options_;
  const OnAnswer on_answer_;
  std::unordered_map<const PreparedRequest*, std::string> headers_{};
  std::uint64_t tag_ = 0;
  bool is_busy_ = false;
  bool is_over_ = false;
  std::string input_{};
  std::string output_{};
  std::string body_{};
  std::optional<AnswerHeader> header_{};
};

}  // namespace

std::unique_ptr<ClientSession> http1_session(const ClientSession::Options& options,
                                             ClientSession::OnAnswer on_answer) {
  return std::make_unique<Http1Session>(options, std::move(on_answer));
}

}  // namespace muster::serving
