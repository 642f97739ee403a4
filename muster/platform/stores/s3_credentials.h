#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "muster/platform/stores/http_client.h"
#include "muster/platform/stores/s3_signature.h"

namespace muster::stores {

/// The sections of an INI file as AWS's tools write them: [default], [profile NAME]. Keys of an
/// indented block ("s3 =" with lines below) stand in the section itself.
using IniSections = std::map<std::string, std::map<std::string, std::string>>;
IniSections parse_ini(std::string_view text);

/// How S3 is reached and as whom, from AWS's variables and files, and from TensorFlow's S3_*.
struct S3Settings {
  /// Throws InvalidArgument, naming the variable, for an invalid value.
  static S3Settings from_environment();

  /// "https://host:port" of the store; empty for AWS by region.
  std::string endpoint{};
  std::string region = "us-east-1";
  /// ENDPOINT/BUCKET/KEY instead of BUCKET.ENDPOINT/KEY; not set: where an endpoint is given, or
  /// the bucket's name has a dot.
  std::optional<bool> path_style{};
  std::string ca_file{};
  bool verify_certificates = true;
  /// Whether signatures cover the SHA-256 of what is sent; not set: where that goes to another
  /// host, and not by TLS.
  std::optional<bool> signs_payloads{};
  RetryPolicy retry{};
  /// Bytes of one part of an upload, and of one range of a read.
  std::uint64_t part_bytes = std::uint64_t{8} << 20;
};

/// Finds credentials, in the order of AWS's own tools: AWS_ACCESS_KEY_ID and
/// AWS_SECRET_ACCESS_KEY; AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN; the files of AWS_PROFILE;
/// a container's; an EC2 instance's (IMDSv2). Temporary ones are renewed five minutes before they
/// expire, by one thread at a time. Any thread may call it.
class S3CredentialSource {
 public:
  explicit S3CredentialSource(std::shared_ptr<HttpClient> http, std::string region);

  /// Anonymous where nothing is found: public buckets can be read.
  S3Credentials current();
  /// Asks for new ones at the next call: a server has refused these.
  void expire();

 private:
  struct Found {
    S3Credentials credentials{};
    /// Seconds since 1970; nothing where they do not expire.
    std::optional<std::int64_t> expires{};
  };
  Found find();
  std::optional<Found> from_web_identity();
  std::optional<Found> from_files();
  std::optional<Found> from_container();
  std::optional<Found> from_instance();
  HttpResponse ask(const std::string& what, const HttpRequest& request);

  std::shared_ptr<HttpClient> http_;
  std::string region_;
  std::mutex mutex_;
  std::optional<Found> found_;
};

}  // namespace muster::stores
