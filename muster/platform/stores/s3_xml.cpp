#include "muster/platform/stores/s3_xml.h"

#include <fmt/core.h>

#include <charconv>
#include <ctime>
#include <pugixml.hpp>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/platform/stores/http_client.h"

namespace muster::stores {
namespace {

constexpr std::size_t kMostMessageBytes = 1000;

// Entities beyond XML's five are not expanded by pugixml, so no document grows in memory.
bool parse_xml(pugi::xml_document& document, std::string_view body) {
  return static_cast<bool>(document.load_buffer(body.data(), body.size()));
}

pugi::xml_node root_of(pugi::xml_document& document, std::string_view body, const char* name) {
  if (!parse_xml(document, body)) throw DataLoss("the store's answer is no XML");
  const pugi::xml_node root = document.child(name);
  if (!root) throw DataLoss("the store's answer is no {}", name);
  return root;
}

// "2009-10-12T17:50:30.000Z" in nanoseconds since 1970; 0 for anything else.
std::int64_t parse_time(const char* text) {
  std::tm utc{};
  const char* const rest = ::strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
  if (rest == nullptr) return 0;
  std::int64_t nanoseconds = std::int64_t{::timegm(&utc)} * 1'000'000'000;
  if (*rest == '.') {
    std::int64_t digit = 100'000'000;
    for (const char* at = rest + 1; *at >= '0' && *at <= '9' && digit > 0; ++at, digit /= 10) {
      nanoseconds += (*at - '0') * digit;
    }
  }
  return nanoseconds;
}

std::uint64_t parse_size(std::string_view text) {
  std::uint64_t size = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), size).ec != std::errc()) {
    throw DataLoss("the store's list has an invalid size: {}", printable(text.substr(0, 40)));
  }
  return size;
}

std::string text_of(const pugi::xml_node& document) {
  std::ostringstream text;
  document.print(text, "", pugi::format_raw);
  return text.str();
}

}  // namespace

S3Error parse_s3_error(std::string_view body) {
  pugi::xml_document document;
  if (body.empty() || !parse_xml(document, body)) return {};
  const pugi::xml_node error = document.child("Error");
  const std::string message = error.child("Message").text().get();
  return {.code = printable(error.child("Code").text().get()),
          .message = printable(message.substr(0, kMostMessageBytes)),
          .region = error.child("Region").text().get()};
}

S3Page parse_s3_page(std::string_view body) {
  pugi::xml_document document;
  const pugi::xml_node root = root_of(document, body, "ListBucketResult");
  const bool encoded = std::string_view(root.child("EncodingType").text().get()) == "url";
  const auto decoded = [encoded](const char* text) {
    return encoded ? percent_decoded(text) : std::string(text);
  };
  S3Page page;
  for (const pugi::xml_node item : root.children("Contents")) {
    page.objects.push_back({.key = decoded(item.child("Key").text().get()),
                            .size_bytes = parse_size(item.child("Size").text().get()),
                            .modified_ns = parse_time(item.child("LastModified").text().get()),
                            .etag = item.child("ETag").text().get()});
  }
  for (const pugi::xml_node item : root.children("CommonPrefixes")) {
    page.prefixes.push_back(decoded(item.child("Prefix").text().get()));
  }
  if (root.child("IsTruncated").text().as_bool()) {
    page.next = root.child("NextContinuationToken").text().get();
    if (page.next.empty()) throw DataLoss("the store's list goes on, but does not say where");
  }
  return page;
}

std::string parse_upload_id(std::string_view body) {
  pugi::xml_document document;
  const auto root = root_of(document, body, "InitiateMultipartUploadResult");
  std::string id = root.child("UploadId").text().get();
  if (id.empty()) throw DataLoss("the store began an upload and gave it no UploadId");
  return id;
}

std::string complete_upload_xml(const std::vector<S3Part>& parts) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("CompleteMultipartUpload");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    pugi::xml_node part = root.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned>(i + 1));
    part.append_child("ETag").text().set(parts[i].etag.c_str());
    if (parts[i].crc32c.empty()) continue;
    part.append_child("ChecksumCRC32C").text().set(parts[i].crc32c.c_str());
  }
  return text_of(document);
}

std::string parse_etag(std::string_view body) {
  pugi::xml_document document;
  if (!parse_xml(document, body)) return "";
  return document.document_element().child("ETag").text().get();
}

S3UploadPage parse_s3_uploads(std::string_view body) {
  pugi::xml_document document;
  const pugi::xml_node root = root_of(document, body, "ListMultipartUploadsResult");
  S3UploadPage page;
  for (const pugi::xml_node item : root.children("Upload")) {
    page.uploads.push_back({.key = item.child("Key").text().get(),
                            .id = item.child("UploadId").text().get(),
                            .initiated_ns = parse_time(item.child("Initiated").text().get())});
  }
  if (root.child("IsTruncated").text().as_bool()) {
    page.next_key = root.child("NextKeyMarker").text().get();
    page.next_id = root.child("NextUploadIdMarker").text().get();
  }
  return page;
}

std::string delete_objects_xml(const std::vector<std::string>& keys) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("Delete");
  root.append_child("Quiet").text().set("true");
  for (const std::string& key : keys) {
    root.append_child("Object").append_child("Key").text().set(key.c_str());
  }
  return text_of(document);
}

std::vector<std::string> parse_delete_errors(std::string_view body) {
  pugi::xml_document document;
  std::vector<std::string> errors;
  if (!parse_xml(document, body)) return errors;
  for (const pugi::xml_node error : document.document_element().children("Error")) {
    errors.push_back(printable(fmt::format("{}: {}", error.child("Key").text().get(),
                                           error.child("Message").text().get())));
  }
  return errors;
}

StsCredentials parse_sts_credentials(std::string_view body) {
  pugi::xml_document document;
  parse_xml(document, body);
  const pugi::xml_node found =
      document.document_element().child("AssumeRoleWithWebIdentityResult").child("Credentials");
  StsCredentials credentials{.access_key_id = found.child("AccessKeyId").text().get(),
                             .secret_access_key = found.child("SecretAccessKey").text().get(),
                             .session_token = found.child("SessionToken").text().get(),
                             .expiration = found.child("Expiration").text().get()};
  if (credentials.access_key_id.empty()) {
    throw PermissionDenied("AWS STS gave no credentials for the web identity");
  }
  return credentials;
}

}  // namespace muster::stores
