#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// Whom a store takes a request for. Never logged.
struct S3Credentials {
  std::string access_key_id{};
  std::string secret_access_key{};
  /// Session token of temporary credentials; empty for others.
  std::string session_token{};

  bool is_anonymous() const { return access_key_id.empty(); }
};

/// The parts of a request that a signature covers.
struct SignedParts {
  std::string method{};
  /// With the port, as the Host header has it.
  std::string host{};
  /// Percent-encoded once, '/' kept.
  std::string path{};
  /// Names and values as they are meant; they are encoded here.
  std::vector<std::pair<std::string, std::string>> query{};
  /// Beside host and those that are added here.
  HttpHeaders headers{};
  /// The SHA-256 of the body in hexadecimal, or "UNSIGNED-PAYLOAD".
  std::string payload_hash{};
};

/// The query as a URL has it and a signature covers it: encoded, sorted, "name=" where empty.
std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query);

/// The headers to send: those given, x-amz-date, x-amz-content-sha256, x-amz-security-token and
/// Authorization, by AWS Signature Version 4. `seconds` is the time since 1970.
HttpHeaders sign_v4(const SignedParts& parts, const S3Credentials& credentials,
                    const std::string& region, std::int64_t seconds,
                    std::string_view service = "s3");

/// The MD5 of some bytes: 16 of them, and as 32 hexadecimal letters.
std::string md5(std::string_view bytes);
std::string hex(std::string_view bytes);

/// The SHA-256 of a body, in hex, by OpenSSL, which uses the processor's own instructions for it.
std::string payload_sha256(std::string_view bytes);

}  // namespace muster::stores
