#include "muster/platform/stores/s3_signature.h"

#include <fmt/core.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <map>

#include "muster/base/error.h"
#include "muster/base/sha256.h"

namespace muster::stores {
namespace {

std::string hmac_sha256(std::string_view key, std::string_view text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(), out,
             &size) == nullptr) {
    throw Internal("OpenSSL computes no HMAC");
  }
  return {reinterpret_cast<const char*>(out), size};
}

// Blanks at the ends gone, those inside squeezed to one.
std::string canonical_value(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out.push_back(blank ? ' ' : c);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string lower_name(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

}  // namespace

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::string md5(std::string_view bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), out, &size, EVP_md5(), nullptr) != 1) {
    throw Internal("OpenSSL computes no MD5");
  }
  return {reinterpret_cast<const char*>(out), size};
}

std::string canonical_query(const std::vector<std::pair<std::string, std::string>>& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) {
    encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  }
  std::sort(encoded.begin(), encoded.end());
  std::string out;
  for (const auto& [name, value] : encoded) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  }
  return out;
}

HttpHeaders sign_v4(const SignedParts& parts, const S3Credentials& credentials,
                    const std::string& region, std::int64_t seconds, std::string_view service) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  const std::string date(stamp, 8);

  HttpHeaders headers = parts.headers;
  headers.emplace_back("x-amz-content-sha256", parts.payload_hash);
  headers.emplace_back("x-amz-date", stamp);
  if (!credentials.session_token.empty()) {
    headers.emplace_back("x-amz-security-token", credentials.session_token);
  }
  std::map<std::string, std::string> canonical{{"host", parts.host}};
  for (const auto& [name, value] : headers) canonical[lower_name(name)] = canonical_value(value);
  std::string lines, names;
  for (const auto& [name, value] : canonical) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string request =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", parts.method, parts.path, canonical_query(parts.query),
                  lines, names, parts.payload_hash);
  const std::string scope = fmt::format("{}/{}/{}/aws4_request", date, region, service);
  const std::string to_sign =
      fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", stamp, scope, sha256_hex(request));
  std::string key = "AWS4" + credentials.secret_access_key;
  for (const std::string_view part : {std::string_view(date), std::string_view(region), service,
                                      std::string_view("aws4_request")}) {
    key = hmac_sha256(key, part);
  }
  headers.emplace_back(
      "Authorization",
      fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                  credentials.access_key_id, scope, names, hex(hmac_sha256(key, to_sign))));
  return headers;
}

std::string payload_sha256(std::string_view bytes) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  if (::EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                   &size, EVP_sha256(), nullptr) != 1) {
    throw Internal("OpenSSL gives no SHA-256");
  }
  digest.resize(size);
  return hex(digest);
}

}  // namespace muster::stores
