#include "muster/platform/stores/gcs_credentials.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/base64.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/platform/stores/environment_variables.h"
#include "muster/platform/stores/s3_signature.h"

namespace muster::stores {
namespace {

constexpr std::uint64_t kMostKeyFileBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kRenewTokenSecondsBefore = 60;
constexpr const char* kGcsScope = "https://www.googleapis.com/auth/devstorage.read_write";

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string base64_url(std::string_view bytes) {
  std::string text = base64_encode(bytes);
  for (char& c : text) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  while (text.ends_with('=')) text.pop_back();
  return text;
}

std::string text_in(const nlohmann::json& json, const char* name) {
  const auto field = json.is_object() ? json.find(name) : json.end();
  return field != json.end() && field->is_string() ? field->get<std::string>() : std::string();
}

// Value of a variable in microseconds.
std::chrono::milliseconds wait_variable(const char* name, std::chrono::milliseconds otherwise) {
  using std::chrono::microseconds;
  const std::int64_t given =
      number_variable(name, microseconds(otherwise).count(), 0, microseconds(60'000'000).count());
  return std::chrono::duration_cast<std::chrono::milliseconds>(microseconds(given));
}

}  // namespace

std::string signed_jwt(std::string_view claims_json, std::string_view private_key_pem) {
  const std::string text =
      base64_url(R"({"alg":"RS256","typ":"JWT"})") + "." + base64_url(claims_json);
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(
      BIO_new_mem_buf(private_key_pem.data(), static_cast<int>(private_key_pem.size())), BIO_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  if (key == nullptr) throw InvalidArgument("the private key of the service account is invalid");
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t size = 0;
  std::string signature;
  const bool is_ready =
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) == 1 &&
      EVP_DigestSign(context.get(), nullptr, &size, bytes, text.size()) == 1;
  signature.resize(size);
  if (!is_ready || EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                  &size, bytes, text.size()) != 1) {
    throw InvalidArgument("the private key of the service account signs nothing");
  }
  signature.resize(size);
  return text + "." + base64_url(signature);
}

GcsSettings GcsSettings::from_environment() {
  warn_of_unused_variables(
      {"GCS_ALLOWED_BUCKET_LOCATIONS", "GCS_APPEND_MODE", "GCS_MATCHING_PATHS_CACHE_MAX_AGE",
       "GCS_MATCHING_PATHS_CACHE_MAX_ENTRIES", "GCS_METADATA_REQUEST_TIMEOUT_SECS",
       "GCS_READAHEAD_BUFFER_SIZE_BYTES", "GCS_READ_CACHE_BLOCK_SIZE_MB",
       "GCS_READ_CACHE_MAX_SIZE_MB", "GCS_READ_CACHE_MAX_STALENESS",
       "GCS_READ_REQUEST_TIMEOUT_SECS", "GCS_RESOLVE_REFRESH_SECS", "GCS_STAT_CACHE_MAX_AGE",
       "GCS_STAT_CACHE_MAX_ENTRIES", "GCS_THROTTLE_TOKEN_RATE", "GCS_WRITE_REQUEST_TIMEOUT_SECS"});
  GcsSettings settings;
  std::string emulator = variable("CLOUD_STORAGE_EMULATOR_ENDPOINT");
  if (emulator.empty()) emulator = variable("STORAGE_EMULATOR_HOST");
  if (!emulator.empty()) {
    if (emulator.find("://") == std::string::npos) emulator = "http://" + emulator;
    while (emulator.ends_with('/')) emulator.pop_back();
    parse_url(emulator);
    settings.endpoint = emulator;
    settings.needs_no_credentials = true;
  }
  const std::string header = variable("GCS_ADDITIONAL_REQUEST_HEADER");
  if (!header.empty()) {
    const auto colon = header.find(':');
    if (colon == std::string::npos || colon == 0) {
      throw InvalidArgument("GCS_ADDITIONAL_REQUEST_HEADER must be NAME:VALUE");
    }
    settings.extra_header = {header.substr(0, colon), header.substr(colon + 1)};
  }
  RetryPolicy& retry = settings.retry;
  retry.most_tries = 1 + static_cast<int>(number_variable("GCS_RETRY_CONFIG_MAX_RETRIES",
                                                          retry.most_tries - 1, 0, 1000));
  retry.first_wait = wait_variable("GCS_RETRY_CONFIG_INIT_DELAY_TIME_US", retry.first_wait);
  retry.longest_wait = wait_variable("GCS_RETRY_CONFIG_MAX_DELAY_TIME_US", retry.longest_wait);
  HttpClientOptions& http = settings.http;
  http.connect_timeout = std::chrono::seconds(number_variable(
      "GCS_REQUEST_CONNECTION_TIMEOUT_SECS",
      std::chrono::duration_cast<std::chrono::seconds>(http.connect_timeout).count(), 1, 3600));
  http.idle_timeout = std::chrono::seconds(
      number_variable("GCS_REQUEST_IDLE_TIMEOUT_SECS", http.idle_timeout.count(), 1, 3600));
  return settings;
}

std::string GcsCredentialSource::token() {
  const std::lock_guard lock(mutex_);
  const bool is_old =
      found_ && found_->expires && *found_->expires - kRenewTokenSecondsBefore < seconds_now();
  if (!found_ || is_old) found_ = find();
  return found_->token;
}

void GcsCredentialSource::expire() {
  const std::lock_guard lock(mutex_);
  found_.reset();
}

GcsCredentialSource::Found GcsCredentialSource::find() {
  const std::string given = variable("GOOGLE_AUTH_TOKEN_FOR_TESTING");
  if (!given.empty()) return {given, std::nullopt};
  const std::string file = variable("GOOGLE_APPLICATION_CREDENTIALS");
  if (!file.empty()) return from_file(file);
  std::string folder = variable("CLOUDSDK_CONFIG");
  if (folder.empty() && !variable("HOME").empty()) {
    folder = variable("HOME") + "/.config/gcloud";
  }
  const std::string standard = folder + "/application_default_credentials.json";
  if (!folder.empty() && file_exists(standard)) return from_file(standard);
  if (auto found = from_metadata()) return *found;
  log::info("no credentials for gs:// were found: requests are anonymous");
  return {};
}

GcsCredentialSource::Found GcsCredentialSource::ask(const std::string& what,
                                                    const HttpRequest& request) {
  const RetryPolicy few{.most_tries = 3, .most_time = std::chrono::seconds(20)};
  const HttpResponse response = http_->send(
      what, [&](int) { return request; }, few);
  const auto json = nlohmann::json::parse(response.body, nullptr, /*allow_exceptions=*/false);
  const std::string token = text_in(json, "access_token");
  if (!response.is_success() || token.empty()) {
    throw PermissionDenied("{}: status {} {}", what, response.status,
                           text_in(json, "error_description"));
  }
  const auto seconds = json.find("expires_in");
  const bool has_end = seconds != json.end() && seconds->is_number();
  return {token, seconds_now() + (has_end ? seconds->get<std::int64_t>() : 3600)};
}

GcsCredentialSource::Found GcsCredentialSource::from_file(const std::string& path) {
  const auto json = nlohmann::json::parse(read_file(path, kMostKeyFileBytes), nullptr,
                                          /*allow_exceptions=*/false);
  const std::string type = text_in(json, "type");
  std::string url = text_in(json, "token_uri");
  if (url.empty()) url = "https://oauth2.googleapis.com/token";
  std::string body;
  if (type == "service_account") {
    const std::string email = text_in(json, "client_email");
    const std::int64_t now = seconds_now();
    const nlohmann::json claims{{"iss", email},       {"sub", email}, {"aud", url},
                                {"scope", kGcsScope}, {"iat", now},   {"exp", now + 3600}};
    body =
        canonical_query({{"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"},
                         {"assertion", signed_jwt(claims.dump(), text_in(json, "private_key"))}});
  } else if (type == "authorized_user") {
    body = canonical_query({{"grant_type", "refresh_token"},
                            {"client_id", text_in(json, "client_id")},
                            {"client_secret", text_in(json, "client_secret")},
                            {"refresh_token", text_in(json, "refresh_token")}});
  } else {
    throw Unimplemented(
        "{} holds credentials of the type '{}', which is not supported: take a service account's "
        "key or those of `gcloud auth application-default login`",
        path, type);
  }
  return ask("asking Google for an access token",
             {.method = "POST",
              .url = url,
              .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
              .body = body});
}

std::optional<GcsCredentialSource::Found> GcsCredentialSource::from_metadata() {
  if (variable("NO_GCE_CHECK") == "true") return std::nullopt;
  std::string host = variable("GCE_METADATA_HOST");
  if (host.empty()) host = "metadata.google.internal";
  HttpRequest request{
      .url =
          fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/token", host),
      .headers = {{"Metadata-Flavor", "Google"}},
      .timeout = std::chrono::seconds(1)};
  try {
    // No server answers under this name elsewhere than on a machine of Google.
    if (http_->send_once(request).header("metadata-flavor") != "Google") return std::nullopt;
  } catch (const Error& error) {
    log::debug("no metadata server of Google: {}", error.what());
    return std::nullopt;
  }
  request.timeout = std::chrono::seconds(10);
  return ask("asking the metadata server for an access token", request);
}

}  // namespace muster::stores
