#include "muster/serving/grpc/grpc_framing.h"

#include <algorithm>
#include <charconv>

#include "muster/serving/http/http_message.h"

namespace muster::serving {
namespace {

// TensorFlow Serving's limit: a status travels in a header, and those are small.
constexpr std::size_t kMostStatusBytes = 1024;
constexpr std::size_t kMostTimeoutDigits = 8;

std::optional<std::chrono::nanoseconds> unit_of(char letter) {
  switch (letter) {
    case 'H':
      return std::chrono::hours(1);
    case 'M':
      return std::chrono::minutes(1);
    case 'S':
      return std::chrono::seconds(1);
    case 'm':
      return std::chrono::milliseconds(1);
    case 'u':
      return std::chrono::microseconds(1);
    case 'n':
      return std::chrono::nanoseconds(1);
    default:
      return std::nullopt;
  }
}

}  // namespace

GrpcStatus status_of(const std::exception_ptr& exception) {
  Description failure = muster::describe(exception);
  if (failure.message.size() > kMostStatusBytes) {
    failure.message.resize(kMostStatusBytes);
    failure.message += "...TRUNCATED";
  }
  return {failure.code, std::move(failure.message)};
}

GrpcPrefix read_grpc_prefix(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  if (byte(0) > 1) throw Internal("a message has the flag {}, which gRPC has not", byte(0));
  return {.is_compressed = byte(0) == 1,
          .bytes = static_cast<std::uint32_t>(byte(1)) << 24 |
                   static_cast<std::uint32_t>(byte(2)) << 16 |
                   static_cast<std::uint32_t>(byte(3)) << 8 | byte(4)};
}

std::string grpc_prefix(std::size_t message_bytes) {
  std::string out(kGrpcPrefixBytes, '\0');
  for (std::size_t i = 0; i < 4; ++i) out[4 - i] = static_cast<char>(message_bytes >> (8 * i));
  return out;
}

std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > kMostTimeoutDigits + 1) return std::nullopt;
  const auto unit = unit_of(text.back());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, number);
  if (!unit || error != std::errc() || end != &text.back()) return std::nullopt;
  // 99,999,999 hours are more than nanoseconds hold.
  constexpr auto kMost = std::chrono::nanoseconds(std::chrono::hours(24 * 365 * 10));
  if (number > static_cast<std::uint64_t>(kMost / *unit)) return kMost;
  return *unit * static_cast<std::int64_t>(number);
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte <= 0x7E && c != '%') {
      out += c;
    } else {
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

GrpcEncoding parse_grpc_encoding(std::string_view text) {
  if (text == "identity") return GrpcEncoding::kIdentity;
  if (text == "gzip") return GrpcEncoding::kGzip;
  if (text == "deflate") return GrpcEncoding::kDeflate;
  return GrpcEncoding::kUnknown;
}

bool is_grpc_content_type(std::string_view text) {
  constexpr std::string_view kGrpc = "application/grpc";
  if (text.size() < kGrpc.size() || !equal_ignoring_case(text.substr(0, kGrpc.size()), kGrpc)) {
    return false;
  }
  return text.size() == kGrpc.size() || text[kGrpc.size()] == '+' || text[kGrpc.size()] == ';';
}

}  // namespace muster::serving
