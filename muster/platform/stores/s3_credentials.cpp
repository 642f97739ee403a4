#include "muster/platform/stores/s3_credentials.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/platform/stores/environment_variables.h"
#include "muster/platform/stores/s3_xml.h"

namespace muster::stores {
namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 20;
constexpr std::int64_t kRenewSecondsBefore = 300;
constexpr std::uint64_t kLeastPartBytes = std::uint64_t{5} << 20;

bool is_true(std::string_view word) { return word == "1" || word == "true" || word == "TRUE"; }
bool is_false(std::string_view word) { return word == "0" || word == "false" || word == "FALSE"; }

std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string profile() {
  const std::string name = first_variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  return name.empty() ? "default" : name;
}

IniSections read_ini(const char* by_variable, const char* under_home) {
  std::string path = variable(by_variable);
  if (path.empty()) {
    const std::string home = variable("HOME");
    if (home.empty()) return {};
    path = home + under_home;
  }
  if (!file_exists(path)) return {};
  return parse_ini(read_file(path, kMostFileBytes));
}

std::map<std::string, std::string> config_of_profile() {
  const IniSections config = read_ini("AWS_CONFIG_FILE", "/.aws/config");
  const std::string name = profile();
  for (const std::string& section : {"profile " + name, name}) {
    if (const auto found = config.find(section); found != config.end()) return found->second;
  }
  return {};
}

std::string value_of(const std::map<std::string, std::string>& section, const std::string& key) {
  const auto found = section.find(key);
  return found == section.end() ? "" : found->second;
}

// "2026-03-01T10:04:11Z" in seconds since 1970; 0 for anything else.
std::int64_t parse_iso_time(const std::string& text) {
  std::tm utc{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr) return 0;
  return std::int64_t{::timegm(&utc)};
}

std::int64_t now_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

IniSections parse_ini(std::string_view text) {
  IniSections sections;
  std::string section;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = without_blanks(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = without_blanks(line.substr(1, line.size() - 2));
      continue;
    }
    const auto equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string key(without_blanks(line.substr(0, equals)));
    sections[section][key] = without_blanks(line.substr(equals + 1));
  }
  return sections;
}

S3Settings S3Settings::from_environment() {
  warn_of_unused_variables(
      {"S3_CA_PATH", "S3_DISABLE_MULTI_PART_DOWNLOAD", "S3_MULTI_PART_DOWNLOAD_CHUNK_SIZE"});
  S3Settings settings;
  const auto config = config_of_profile();
  settings.region = first_variable({"AWS_REGION", "AWS_DEFAULT_REGION", "S3_REGION"});
  if (settings.region.empty()) settings.region = value_of(config, "region");
  if (settings.region.empty()) settings.region = "us-east-1";
  if (!is_true(variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))) {
    settings.endpoint = first_variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
    if (settings.endpoint.empty()) settings.endpoint = value_of(config, "endpoint_url");
  }
  if (settings.endpoint.empty()) settings.endpoint = variable("S3_ENDPOINT");
  if (!settings.endpoint.empty() && settings.endpoint.find("://") == std::string::npos) {
    const bool plain = is_false(variable("S3_USE_HTTPS"));
    settings.endpoint = (plain ? "http://" : "https://") + settings.endpoint;
  }
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.empty()) parse_url(settings.endpoint);
  std::string style = variable("MUSTER_S3_ADDRESSING_STYLE");
  if (style.empty()) style = value_of(config, "addressing_style");
  if (style == "path" || style == "virtual") {
    settings.path_style = style == "path";
  } else if (!style.empty() && style != "auto") {
    throw InvalidArgument("MUSTER_S3_ADDRESSING_STYLE must be auto, path or virtual: {}", style);
  }
  settings.ca_file = first_variable({"AWS_CA_BUNDLE", "S3_CA_FILE"});
  settings.verify_certificates = !is_false(variable("S3_VERIFY_SSL"));
  std::string signing = variable("MUSTER_S3_PAYLOAD_SIGNING");
  if (signing.empty()) signing = value_of(config, "payload_signing_enabled");
  if (is_true(signing) || is_false(signing)) {
    settings.signs_payloads = is_true(signing);
  } else if (!signing.empty()) {
    throw InvalidArgument("MUSTER_S3_PAYLOAD_SIGNING must be true or false: {}", signing);
  }
  settings.retry.most_tries =
      static_cast<int>(number_variable("AWS_MAX_ATTEMPTS", settings.retry.most_tries, 1, 1000));
  settings.part_bytes = static_cast<std::uint64_t>(number_variable(
      "S3_MULTI_PART_UPLOAD_CHUNK_SIZE", static_cast<std::int64_t>(settings.part_bytes),
      static_cast<std::int64_t>(kLeastPartBytes), std::int64_t{1} << 30));
  return settings;
}

S3CredentialSource::S3CredentialSource(std::shared_ptr<HttpClient> http, std::string region)
    : http_(std::move(http)), region_(std::move(region)) {}

S3Credentials S3CredentialSource::current() {
  const std::lock_guard lock(mutex_);
  const bool is_old =
      found_ && found_->expires && *found_->expires - kRenewSecondsBefore < now_seconds();
  if (!found_ || is_old) found_ = find();
  return found_->credentials;
}

void S3CredentialSource::expire() {
  const std::lock_guard lock(mutex_);
  found_.reset();
}

S3CredentialSource::Found S3CredentialSource::find() {
  const std::string id = variable("AWS_ACCESS_KEY_ID");
  const std::string secret = variable("AWS_SECRET_ACCESS_KEY");
  if (id.empty() != secret.empty()) {
    throw InvalidArgument(
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set together or not: {} "
        "is missing",
        id.empty() ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY");
  }
  if (!id.empty()) return {{id, secret, variable("AWS_SESSION_TOKEN")}, std::nullopt};
  if (auto found = from_web_identity()) return *found;
  if (auto found = from_files()) return *found;
  if (auto found = from_container()) return *found;
  if (auto found = from_instance()) return *found;
  log::info("no credentials for s3:// were found: requests are anonymous");
  return {};
}

HttpResponse S3CredentialSource::ask(const std::string& what, const HttpRequest& request) {
  const RetryPolicy few{.most_tries = 3, .most_time = std::chrono::seconds(20)};
  HttpResponse response = http_->send(
      what, [&](int) { return request; }, few);
  if (response.is_success()) return response;
  throw PermissionDenied("{}: status {}", what, response.status);
}

namespace {

// Credentials of a container or an instance, which send the same document.
std::pair<S3Credentials, std::int64_t> parse_temporary(const std::string& what,
                                                       const std::string& body) {
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* name) {
    const auto field = json.is_object() ? json.find(name) : json.end();
    return field != json.end() && field->is_string() ? field->get<std::string>() : std::string();
  };
  S3Credentials credentials{text("AccessKeyId"), text("SecretAccessKey"), text("Token")};
  if (credentials.access_key_id.empty() || credentials.secret_access_key.empty()) {
    throw PermissionDenied("{}: the answer has no AccessKeyId and SecretAccessKey", what);
  }
  return {std::move(credentials), parse_iso_time(text("Expiration"))};
}

}  // namespace

std::optional<S3CredentialSource::Found> S3CredentialSource::from_web_identity() {
  const std::string file = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role = variable("AWS_ROLE_ARN");
  if (file.empty() || role.empty()) return std::nullopt;
  const std::string what = "asking AWS STS for credentials of a web identity";
  std::string session = variable("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "muster";
  std::string endpoint = variable("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) endpoint = fmt::format("https://sts.{}.amazonaws.com", region_);
  const std::string token(without_blanks(read_file(file, kMostFileBytes)));
  const std::string body = canonical_query({{"Action", "AssumeRoleWithWebIdentity"},
                                            {"Version", "2011-06-15"},
                                            {"RoleArn", role},
                                            {"RoleSessionName", session},
                                            {"WebIdentityToken", token}});
  const HttpResponse response =
      ask(what, {.method = "POST",
                 .url = endpoint + "/",
                 .headers = {{"Content-Type", "application/x-www-form-urlencoded"}},
                 .body = body});
  const StsCredentials sts = parse_sts_credentials(response.body);
  return Found{{sts.access_key_id, sts.secret_access_key, sts.session_token},
               parse_iso_time(sts.expiration)};
}

std::optional<S3CredentialSource::Found> S3CredentialSource::from_files() {
  const IniSections files = read_ini("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  std::map<std::string, std::string> section;
  if (const auto found = files.find(profile()); found != files.end()) section = found->second;
  for (const auto& row : config_of_profile()) section.insert(row);
  const std::string id = value_of(section, "aws_access_key_id");
  if (id.empty()) {
    for (const char* other : {"role_arn", "sso_session", "sso_start_url", "credential_process"}) {
      if (!section.contains(other)) continue;
      throw Unimplemented(
          "the AWS profile {} has {}, which is not supported: set AWS_ACCESS_KEY_ID, "
          "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, as `aws configure export-credentials "
          "--format env` prints them",
          profile(), other);
    }
    return std::nullopt;
  }
  return Found{
      {id, value_of(section, "aws_secret_access_key"), value_of(section, "aws_session_token")},
      std::nullopt};
}

std::optional<S3CredentialSource::Found> S3CredentialSource::from_container() {
  const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative.empty()) url = "http://169.254.170.2" + relative;
  if (url.empty()) return std::nullopt;
  HttpRequest request{.url = url};
  std::string token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
    token = without_blanks(read_file(file, kMostFileBytes));
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  const std::string what = "asking the container's service for credentials";
  auto [credentials, expires] = parse_temporary(what, ask(what, request).body);
  return Found{std::move(credentials), expires};
}

std::optional<S3CredentialSource::Found> S3CredentialSource::from_instance() {
  if (is_true(variable("AWS_EC2_METADATA_DISABLED"))) return std::nullopt;
  std::string host = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (host.empty()) host = "http://169.254.169.254";
  while (host.ends_with('/')) host.pop_back();
  const std::string what = "asking the instance's metadata for credentials";
  HttpResponse token;
  try {
    // No server answers at this address elsewhere than on an instance.
    token = http_->send_once({.method = "PUT",
                              .url = host + "/latest/api/token",
                              .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                              .timeout = std::chrono::seconds(1)});
  } catch (const Error& error) {
    log::debug("no metadata of an EC2 instance: {}", error.what());
    return std::nullopt;
  }
  if (!token.is_success()) return std::nullopt;
  const HttpHeaders headers{{"X-aws-ec2-metadata-token", token.body}};
  const std::string roles = host + "/latest/meta-data/iam/security-credentials/";
  const std::string listed = ask(what, {.url = roles, .headers = headers}).body;
  const std::string role(without_blanks(listed.substr(0, listed.find('\n'))));
  if (role.empty()) return std::nullopt;
  const HttpResponse answer = ask(what, {.url = roles + role, .headers = headers});
  auto [credentials, expires] = parse_temporary(what, answer.body);
  return Found{std::move(credentials), expires};
}

}  // namespace muster::stores
