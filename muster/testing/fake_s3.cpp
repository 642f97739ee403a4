#include "muster/testing/fake_s3.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <array>
#include <cctype>
#include <cstdint>

#include "muster/base/base64.h"

namespace muster::testing {
namespace {

constexpr const char* kDate = "Wed, 01 Jul 2026 10:00:00 GMT";
constexpr const char* kIsoDate = "2026-07-01T10:00:00.000Z";

std::string digest_of(std::string_view bytes) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), out, &size, EVP_md5(), nullptr);
  return {reinterpret_cast<const char*>(out), size};
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string etag_of(std::string_view bytes) {
  return fmt::format("\"{}\"", hex_of(digest_of(bytes)));
}

// In base64, the highest byte first. Written anew here, so that a test does not compare a CRC with
// itself.
std::string crc32c_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) {
        entries[i] = (entries[i] >> 1) ^ ((entries[i] & 1) != 0 ? 0x82f63b78U : 0U);
      }
    }
    return entries;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  crc = ~crc;
  std::string big_endian;
  for (const int shift : {24, 16, 8, 0}) big_endian.push_back(static_cast<char>(crc >> shift));
  return base64_encode(big_endian);
}

CannedResponse error_answer(int status, const std::string& code) {
  return {.status = status,
          .headers = {{"Content-Type", "application/xml"}, {"Date", kDate}},
          .body = fmt::format("<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>said the "
                              "test</Message></Error>",
                              code)};
}

CannedResponse xml_answer(std::string body) {
  return {.headers = {{"Content-Type", "application/xml"}}, .body = std::move(body)};
}

// The texts between <tag> and </tag>, in order.
std::vector<std::string> texts_of(const std::string& xml, const std::string& tag) {
  std::vector<std::string> texts;
  const std::string open = "<" + tag + ">", close = "</" + tag + ">";
  for (std::size_t at = xml.find(open); at != std::string::npos; at = xml.find(open, at)) {
    at += open.size();
    texts.push_back(xml.substr(at, xml.find(close, at) - at));
  }
  return texts;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string encoded_key(const std::string& key) {
  std::string out;
  for (const char c : key) {
    const bool bare = (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '/' || c == '-' ||
                      c == '_' || c == '.';
    out += bare ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

FakeS3::FakeS3()
    : FakeStore(error_answer(503, "SlowDown")),
      server_([this](const HttpCall& call) { return handle(call); }) {}

std::string FakeS3::version_for(const std::string& bytes) { return etag_of(bytes); }

std::size_t FakeS3::open_uploads() const {
  const std::lock_guard lock(mutex_);
  return uploads_.size();
}

std::vector<std::string> FakeS3::ranges() const {
  const std::lock_guard lock(mutex_);
  return ranges_;
}

CannedResponse FakeS3::act(const HttpCall& call) {
  const std::string path = percent_decoded(call.path).substr(1);
  const auto slash = path.find('/');
  const std::string bucket = path.substr(0, slash);
  const bool is_bucket = slash == std::string::npos || slash + 1 == path.size();
  if (is_bucket && call.method == "GET") {
    ++calls_["LIST"];
    return call.parameter("uploads") ? list_uploads(call, bucket) : list(call, bucket);
  }
  ++calls_[call.method];
  if (is_bucket && call.method == "POST") return remove_many(call, bucket);
  if (call.method == "GET" || call.method == "HEAD") return get(call, path);
  if (call.method == "PUT" && call.parameter("uploadId")) return put_part(call);
  if (call.method == "PUT") return put(call, path);
  if (call.method == "POST" && call.parameter("uploads")) return begin(call, path);
  if (call.method == "POST") return complete(call, path);
  if (const auto id = call.parameter("uploadId")) {
    if (uploads_.erase(*id) == 0) return error_answer(404, "NoSuchUpload");
    return {.status = 204};
  }
  objects_.erase(path);
  return {.status = 204};
}

CannedResponse FakeS3::get(const HttpCall& call, const std::string& name) {
  const auto found = objects_.find(name);
  if (found == objects_.end()) return error_answer(404, "NoSuchKey");
  const Object& object = found->second;
  const std::string match = call.header("if-match");
  const bool matches = replaced(match, "\"", "") == replaced(object.version, "\"", "");
  if (!match.empty() && !matches) return error_answer(412, "PreconditionFailed");
  CannedResponse answer{.headers = {{"ETag", object.version}, {"Last-Modified", kDate}}};
  if (call.method == "HEAD") {
    answer.headers.emplace_back("Content-Length", std::to_string(object.bytes.size()));
    return answer;
  }
  ranges_.push_back(call.header("range"));
  if (!add_range(call, object.bytes, answer)) return error_answer(416, "InvalidRange");
  return answer;
}

std::string FakeS3::etag_in_xml(const std::string& etag) const {
  return replaced(etag, "\"", is_ceph_ ? "" : "&quot;");
}

std::optional<CannedResponse> FakeS3::refused(const HttpCall& call, const std::string& name) const {
  if (ignores_preconditions_) return std::nullopt;
  const auto found = objects_.find(name);
  const bool is_there = found != objects_.end();
  const std::string match = call.header("if-match");
  if (call.header("if-none-match") == "*" && is_there) {
    return error_answer(412, "PreconditionFailed");
  }
  if (match.empty()) return std::nullopt;
  if (!is_there)
    return is_ceph_ ? error_answer(412, "PreconditionFailed") : error_answer(404, "NoSuchKey");
  const std::string& version = found->second.version;
  const std::string wanted = is_ceph_ ? replaced(version, "\"", "") : version;
  if (match != wanted) return error_answer(412, "PreconditionFailed");
  return std::nullopt;
}

CannedResponse FakeS3::put(const HttpCall& call, const std::string& name) {
  if (!call.header("x-amz-copy-source").empty()) return copy(call, name);
  const std::string digest = call.header("content-md5");
  if (!digest.empty() && digest != base64_encode(digest_of(call.body))) {
    return error_answer(400, "BadDigest");
  }
  if (const auto no = refused(call, name)) return *no;
  return {.headers = {{"ETag", store(name, call.body).version}}};
}

CannedResponse FakeS3::copy(const HttpCall& call, const std::string& name) {
  const auto source = objects_.find(percent_decoded(call.header("x-amz-copy-source")).substr(1));
  if (source == objects_.end()) return error_answer(404, "NoSuchKey");
  const std::string match = call.header("x-amz-copy-source-if-match");
  if (!match.empty() && match != source->second.version && !is_ceph_) {
    return error_answer(412, "PreconditionFailed");
  }
  const Object copied{source->second.bytes, etag_of(source->second.bytes)};
  if (const auto id = call.parameter("uploadId")) {
    const auto upload = uploads_.find(*id);
    if (upload == uploads_.end()) return error_answer(404, "NoSuchUpload");
    upload->second.parts[std::stoi(call.parameter("partNumber").value_or("0"))] = copied;
  } else {
    objects_[name] = copied;
  }
  return xml_answer(
      fmt::format("<CopyResult><ETag>{}</ETag></CopyResult>", etag_in_xml(copied.version)));
}

CannedResponse FakeS3::begin(const HttpCall& call, const std::string& name) {
  const std::string id = fmt::format("upload-{}", next_upload_++);
  uploads_[id].name = name;
  CannedResponse answer =
      xml_answer(fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId></"
                             "InitiateMultipartUploadResult>",
                             id));
  if (knows_checksums_ && call.header("x-amz-checksum-algorithm") == "CRC32C") {
    uploads_[id].checksums.emplace();
    answer.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
  }
  return answer;
}

CannedResponse FakeS3::put_part(const HttpCall& call) {
  if (!call.header("x-amz-copy-source").empty()) return copy(call, "");
  const auto upload = uploads_.find(*call.parameter("uploadId"));
  if (upload == uploads_.end()) return error_answer(404, "NoSuchUpload");
  const int number = std::stoi(call.parameter("partNumber").value_or("0"));
  const std::string checksum = call.header("x-amz-checksum-crc32c");
  if (upload->second.checksums) {
    if (checksum != crc32c_of(call.body)) return error_answer(400, "BadDigest");
    (*upload->second.checksums)[number] = checksum;
  } else if (!checksum.empty()) {
    return error_answer(400, "InvalidRequest");
  } else if (call.header("content-md5") != base64_encode(digest_of(call.body))) {
    return error_answer(400, "BadDigest");
  }
  const Object part{call.body, etag_of(call.body)};
  upload->second.parts[number] = part;
  return {.headers = {{"ETag", part.version}}};
}

CannedResponse FakeS3::complete(const HttpCall& call, const std::string& name) {
  const std::string id = call.parameter("uploadId").value_or("");
  const auto upload = uploads_.find(id);
  if (upload == uploads_.end()) return error_answer(404, "NoSuchUpload");
  const auto no = is_ceph_ ? std::nullopt : refused(call, name);
  if (no) return *no;
  std::string bytes, digests;
  const auto numbers = texts_of(call.body, "PartNumber");
  const auto etags = texts_of(call.body, "ETag");
  const auto& checksums = upload->second.checksums;
  const auto given = texts_of(call.body, "ChecksumCRC32C");
  if (given.size() != (checksums ? numbers.size() : 0)) return error_answer(400, "InvalidRequest");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (checksums && given[i] != checksums->at(std::stoi(numbers[i]))) {
      return error_answer(400, "InvalidPart");
    }
    const auto part = upload->second.parts.find(std::stoi(numbers[i]));
    if (part == upload->second.parts.end() ||
        replaced(replaced(etags[i], "&quot;", ""), "\"", "") !=
            replaced(part->second.version, "\"", "")) {
      return error_answer(400, "InvalidPart");
    }
    const bool is_last = i + 1 == numbers.size();
    if (!is_last && part->second.bytes.size() < (std::size_t{5} << 20)) {
      return error_answer(400, "EntityTooSmall");
    }
    bytes += part->second.bytes;
    digests += digest_of(part->second.bytes);
  }
  uploads_.erase(upload);
  const std::string etag = fmt::format("\"{}-{}\"", hex_of(digest_of(digests)), numbers.size());
  objects_[name] = {std::move(bytes), etag};
  return xml_answer(
      fmt::format("<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>",
                  is_ceph_ ? "" : etag_in_xml(etag)));
}

CannedResponse FakeS3::list(const HttpCall& call, const std::string& bucket) {
  const Page page = page_of({.bucket = bucket,
                             .prefix = call.parameter("prefix").value_or(""),
                             .delimiter = call.parameter("delimiter").value_or(""),
                             .from = call.parameter("continuation-token").value_or(""),
                             .most = std::stoul(call.parameter("max-keys").value_or("1000"))});
  std::string xml = "<ListBucketResult><EncodingType>url</EncodingType>";
  for (const std::string& key : page.keys) {
    const Object& object = objects_.at(bucket + "/" + key);
    xml += fmt::format(
        "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>{}</ETag><Size>{}</Size></"
        "Contents>",
        encoded_key(key), kIsoDate, replaced(object.version, "\"", "&quot;"), object.bytes.size());
  }
  for (const auto& entry : page.prefixes) {
    xml += fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", encoded_key(entry));
  }
  xml += fmt::format("<IsTruncated>{}</IsTruncated>", !page.next.empty());
  if (!page.next.empty()) {
    xml += fmt::format("<NextContinuationToken>{}</NextContinuationToken>", page.next);
  }
  return xml_answer(xml + "</ListBucketResult>");
}

CannedResponse FakeS3::list_uploads(const HttpCall& call, const std::string& bucket) {
  const std::string prefix = call.parameter("prefix").value_or("");
  std::string xml = "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>";
  for (const auto& [id, upload] : uploads_) {
    if (!upload.name.starts_with(bucket + "/" + prefix)) continue;
    xml += fmt::format(
        "<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiated>2026-07-01T09:59:00.000Z</"
        "Initiated></Upload>",
        upload.name.substr(bucket.size() + 1), id);
  }
  return xml_answer(xml + "</ListMultipartUploadsResult>");
}

CannedResponse FakeS3::remove_many(const HttpCall& call, const std::string& bucket) {
  if (call.header("content-md5") != base64_encode(digest_of(call.body))) {
    return error_answer(400, "InvalidDigest");
  }
  for (const auto& key : texts_of(call.body, "Key")) objects_.erase(bucket + "/" + key);
  return xml_answer("<DeleteResult></DeleteResult>");
}

}  // namespace muster::testing
