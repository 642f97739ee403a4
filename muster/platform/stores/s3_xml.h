#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::stores {

/// Error document of a store; empty where the body is no such document.
struct S3Error {
  std::string code{};
  std::string message{};
  /// Region to sign for, from AuthorizationHeaderMalformed.
  std::string region{};
};
S3Error parse_s3_error(std::string_view body);

/// One page of ListObjectsV2. Keys are decoded.
struct S3Page {
  struct Object {
    std::string key{};
    std::uint64_t size_bytes = 0;
    std::int64_t modified_ns = 0;
    std::string etag{};
  };
  std::vector<Object> objects{};
  std::vector<std::string> prefixes{};
  /// Empty on the last page.
  std::string next{};
};
/// Throws DataLoss for a body that is no such list.
S3Page parse_s3_page(std::string_view body);

/// The UploadId of InitiateMultipartUpload. Throws DataLoss where there is none.
std::string parse_upload_id(std::string_view body);
/// A store's answer to one part of an upload.
struct S3Part {
  std::string etag{};
  /// In base64; empty in an upload without checksums.
  std::string crc32c{};
};
/// The body of CompleteMultipartUpload, of parts 1, 2, ...
std::string complete_upload_xml(const std::vector<S3Part>& parts);
/// The ETag of CompleteMultipartUpload, CopyObject and UploadPartCopy; empty where there is none.
std::string parse_etag(std::string_view body);

/// A multipart upload that has not come to its end.
struct S3Upload {
  std::string key{};
  std::string id{};
  std::int64_t initiated_ns = 0;
};
/// One page of ListMultipartUploads: the uploads, and the markers of the next page, empty at the
/// end.
struct S3UploadPage {
  std::vector<S3Upload> uploads{};
  std::string next_key{};
  std::string next_id{};
};
S3UploadPage parse_s3_uploads(std::string_view body);

/// The body of DeleteObjects, and those of its answer that were refused, as "key: message".
std::string delete_objects_xml(const std::vector<std::string>& keys);
std::vector<std::string> parse_delete_errors(std::string_view body);

struct StsCredentials {
  std::string access_key_id{};
  std::string secret_access_key{};
  std::string session_token{};
  std::string expiration{};
};
/// Throws PermissionDenied where there are none.
StsCredentials parse_sts_credentials(std::string_view body);

}  // namespace muster::stores
