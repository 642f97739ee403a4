#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/error.h"

/// gRPC's bytes over HTTP/2: messages with a length, statuses, times.
namespace muster::serving {

struct GrpcStatus {
  ErrorCode code = ErrorCode::kOk;
  std::string message{};

  bool ok() const { return code == ErrorCode::kOk; }
};

/// That of an exception, with a message that is short enough for a header.
GrpcStatus status_of(const std::exception_ptr& exception);

/// In front of a message: one byte that says whether it is compressed, and four of its length.
constexpr std::size_t kGrpcPrefixBytes = 5;
struct GrpcPrefix {
  bool is_compressed = false;
  std::uint32_t bytes = 0;
};
/// Parses the prefix in the first five bytes. Throws Internal for an unknown flag.
GrpcPrefix read_grpc_prefix(std::string_view bytes);
std::string grpc_prefix(std::size_t message_bytes);

/// "100m" as grpc-timeout has it. Nothing for what is no time.
std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view text);

/// A status message as a header may hold it: bytes outside of ASCII's printable ones, and '%', as
/// %41.
std::string percent_encoded(std::string_view text);

/// How messages of a call are compressed.
enum class GrpcEncoding { kIdentity, kGzip, kDeflate, kUnknown };
GrpcEncoding parse_grpc_encoding(std::string_view text);
inline constexpr const char* kGrpcEncodings = "identity,deflate,gzip";

/// "application/grpc", also with "+proto" or parameters after it.
bool is_grpc_content_type(std::string_view text);

}  // namespace muster::serving
