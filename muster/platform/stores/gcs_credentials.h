#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "muster/platform/stores/http_client.h"

namespace muster::stores {

/// How Google Cloud Storage is reached, from the variables of its own tools and of TensorFlow.
struct GcsSettings {
  /// Throws InvalidArgument, naming the variable, for an invalid value.
  static GcsSettings from_environment();

  std::string endpoint = "https://storage.googleapis.com";
  /// Whether requests go without credentials, as to an emulator.
  bool needs_no_credentials = false;
  /// A header that goes with every request (GCS_ADDITIONAL_REQUEST_HEADER); empty name: none.
  std::pair<std::string, std::string> extra_header{};
  RetryPolicy retry{};
  HttpClientOptions http{};
  /// Bytes of one part of an upload, and of one range of a read.
  std::uint64_t part_bytes = std::uint64_t{8} << 20;
};

/// Finds an access token, in the order of TensorFlow: GOOGLE_AUTH_TOKEN_FOR_TESTING; the file of
/// GOOGLE_APPLICATION_CREDENTIALS or gcloud's application default (a service account's key or a
/// user's refresh token); the metadata server. Renewed a minute before it expires, by one thread at
/// a time. Any thread may call it.
class GcsCredentialSource {
 public:
  explicit GcsCredentialSource(std::shared_ptr<HttpClient> http) : http_(std::move(http)) {}

  /// Empty where nothing is found: public buckets can be read.
  std::string token();
  /// Asks for a new one at the next call: a server has refused this.
  void expire();

 private:
  struct Found {
    std::string token{};
    /// Seconds since 1970; nothing where it does not expire.
    std::optional<std::int64_t> expires{};
  };
  Found find();
  Found from_file(const std::string& path);
  std::optional<Found> from_metadata();
  Found ask(const std::string& what, const HttpRequest& request);

  std::shared_ptr<HttpClient> http_;
  std::mutex mutex_;
  std::optional<Found> found_;
};

/// A JSON Web Token of a service account, signed with its key (RS256). Throws InvalidArgument for a
/// key that is invalid.
std::string signed_jwt(std::string_view claims_json, std::string_view private_key_pem);

}  // namespace muster::stores
