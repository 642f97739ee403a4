#include "muster/serving/http/http_message.h"

#include <zlib.h>

#include <algorithm>

#include "muster/serving/codec/predict_request.h"

namespace muster::serving {
namespace {

// zlib's own ways to say: gzip or zlib, whichever header is there; gzip.
constexpr int kAnyHeader = 15 + 32;
constexpr int kGzipHeader = 15 + 16;
// A small body may be as dense as it likes.
constexpr std::size_t kAlwaysAllowedBytes = 1 << 20;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view stripped(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

class InflateStream {
 public:
  InflateStream() {
    if (::inflateInit2(&stream_, kAnyHeader) != Z_OK) throw Internal("zlib does not start");
  }
  ~InflateStream() { ::inflateEnd(&stream_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
  z_stream& get() { return stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

bool accepts(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = list.find(',');
    std::string_view item = stripped(list.substr(0, comma));
    list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
    const auto semicolon = item.find(';');
    const std::string_view quality =
        semicolon == item.npos ? std::string_view() : stripped(item.substr(semicolon + 1));
    item = stripped(item.substr(0, semicolon));
    if (!equal_ignoring_case(item, word)) continue;
    return !(quality.starts_with("q=0") && quality.find_first_of("123456789", 3) == quality.npos);
  }
  return false;
}

int http_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOk:
      return 200;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kOutOfRange:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kAlreadyExists:
    case ErrorCode::kAborted:
      return 409;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kUnimplemented:
      return 501;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpResponse error_answer_of(ErrorCode code, std::string_view text) {
  HttpResponse answer{.status = http_status_of(code), .body = serving::error_answer(text)};
  if (code == ErrorCode::kResourceExhausted || code == ErrorCode::kUnavailable) {
    answer.headers.emplace_back("Retry-After", "1");
  }
  if (code == ErrorCode::kUnauthenticated) {
    answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return answer;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) throw InvalidArgument("a % in the path needs two hexadecimal digits");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string inflated(std::string_view bytes, const InflateLimits& limits) {
  InflateStream holder;
  z_stream& stream = holder.get();
  // zlib counts in 32 bits; no body is that large.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  const std::size_t by_ratio =
      std::max(kAlwaysAllowedBytes, bytes.size() > limits.most_bytes / limits.most_ratio
                                        ? limits.most_bytes
                                        : bytes.size() * limits.most_ratio);
  const std::size_t most = std::min(limits.most_bytes, by_ratio);
  std::string out;
  char piece[1 << 16];
  while (true) {
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    out.append(piece, sizeof piece - stream.avail_out);
    if (out.size() > most) {
      throw BodyTooLarge(
          "the compressed body becomes larger than the {} bytes that are allowed for it", most);
    }
    if (limits.hold != nullptr && !limits.hold->grow_to(out.capacity())) {
      throw ResourceExhausted(
          "the requests that are being answered take the bytes that they may; try again later");
    }
    if (result == Z_STREAM_END) {
      if (stream.avail_in != 0)
        throw InvalidArgument("bytes follow the end of the compressed body");
      return out;
    }
    const bool stuck = result == Z_OK && stream.avail_out == sizeof piece && stream.avail_in == 0;
    if ((result != Z_OK && result != Z_BUF_ERROR) || stuck ||
        (result == Z_BUF_ERROR && stream.avail_out != 0)) {
      throw InvalidArgument("the compressed body is damaged or cut short");
    }
  }
}

std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  if (::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipHeader, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw Internal("zlib does not start");
  }
  std::string out(::deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = ::deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  ::deflateEnd(&stream);
  if (result != Z_STREAM_END) throw Internal("zlib does not end");
  return out;
}

}  // namespace muster::serving
